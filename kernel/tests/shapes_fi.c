// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Shapes of the fi_* headers, checked by the compiler: the deck's slide 8, and the signatures of
 * its other slides.
 *
 * The functions here are never called.
 */
#include <linux/module.h>

#include "../include/fi/fabric.h"
#include "../include/fi/fi_cm.h"
#include "../include/fi/fi_rma.h"

#include "shapes.h"

/*
 * Slide 8. Three things of it are no C, and are put right: it declares eq_attr and uses attr, gives
 * structures where fi_pep_bind() takes pointers, and ends fi_listen() without a semicolon.
 */
static int slide_8(struct fid_fabric *fabric, struct fi_info *provider)
{
	struct fi_fid_pep *pep;
	struct fi_eq_attr eq_attr = {10, 0, FI_WAIT_UNSPEC, 0, NULL };
	struct fi_fid_eq *eq;
	uint32_t event_id;
	struct fi_eq_cm_entry event;
	int ret;

	ret = fi_passive_ep(fabric, provider, &pep, 0xCafeBabe);
	if (ret)
		return ret;
	ret = fi_eq_open(fabric, &eq_attr, &eq, 0);
	if (ret)
		return ret;
	ret = fi_pep_bind(pep, &eq->fid, 0);
	if (ret)
		return ret;
	ret = fi_listen(pep);
	if (ret)
		return ret;
	ret = fi_eq_sread(eq, &event_id, (void *)&event, sizeof(event), 20000, FI_TIME_MS);
	return ret;
}

/* The signatures of slides 3, 4, 6 and 7, and what an event queue in a wait set needs. */
static int signatures(struct fid_fabric *fabric, struct fi_info *info, struct fid *fid)
{
	int (*passive_ep)(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **pep,
			  void *context) = fi_passive_ep;
	int (*eq_open)(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq,
		       void *context) = fi_eq_open;
	int (*pep_bind)(struct fid_pep *pep, struct fid *fid, uint64_t flags) = fi_pep_bind;
	ssize_t (*eq_sread)(struct fid_eq *eq, uint32_t *event, void *buffer, size_t len, int timeout,
			    uint64_t flags) = fi_eq_sread;
	struct fi_eq_attr attr = { .wait_obj = FI_WAIT_SET };
	struct fi_eq_cm_entry entry;
	struct fid_wait *wait_set;
	struct fid_pep *pep;
	struct fid_eq *eq;
	uint32_t event;
	int ret;

	ret = fi_wait_open(fabric, NULL, &wait_set);
	if (ret)
		return ret;
	attr.wait_set = wait_set;
	ret = passive_ep(fabric, info, &pep, fid) ?: eq_open(fabric, &attr, &eq, pep) ?:
	      pep_bind(pep, &eq->fid, 0) ?: fi_wait(wait_set, 1000);
	if (ret)
		return ret;
	ret = eq_sread(eq, &event, &entry, sizeof(entry), 500, FI_TIME_US | FI_PEEK);
	return ret < 0 ? ret : entry.fid == &pep->fid && fi_close(&wait_set->fid);
}

/* From a request to the end of its connection. */
static int connection(struct fid_domain *domain, struct fid_pep *pep, struct fid_eq *eq, struct fi_info *info,
		      void *buf)
{
	struct fi_cq_attr attr = { .format = FI_CQ_FORMAT_DATA };
	struct fi_cq_data_entry done;
	struct fid_cq *cq;
	struct fid_ep *ep;
	struct fid_mr *mr;
	int ret;

	ret = fi_endpoint(domain, info, &ep, NULL) ?:
	      fi_cq_open(domain, &attr, &cq, NULL) ?:
	      fi_ep_bind(ep, &eq->fid, 0) ?:
	      fi_ep_bind(ep, &cq->fid, FI_SEND | FI_RECV) ?:
	      fi_enable(ep) ?:
	      fi_mr_reg(domain, buf, 8, FI_REMOTE_READ, 0, 1, 0, &mr, NULL) ?:
	      (int)fi_recv(ep, buf, 8, fi_mr_desc(mr), 0, NULL) ?:
	      (info->handle ? fi_accept(ep, NULL, 0) : fi_connect(ep, info->dest_addr, NULL, 0));
	if (ret)
		return fi_reject(pep, info->handle, NULL, 0);
	ret = (int)fi_send(ep, buf, 8, NULL, 0, NULL) ?:
	      (int)fi_read(ep, buf, 8, NULL, 0, 0, fi_mr_key(mr), NULL) ?:
	      (int)fi_cq_sread(cq, &done, 1, NULL, -1);
	return fi_shutdown(ep, 0) ?: fi_close(&ep->fid);
}

/* Only keeps the functions above from being called unused. */
const struct shapes shapes_fi = {
	.functions = { slide_8, signatures, connection },
};
