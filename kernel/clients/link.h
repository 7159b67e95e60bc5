/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * link.h - a connection with two completion queues, for the measuring clients
 *
 * All functions: process context, may sleep; 0 or a negative error number. After an error,
 * link_close() frees what there is.
 */
#ifndef KOFI_CLIENT_LINK_H
#define KOFI_CLIENT_LINK_H

#include <linux/in.h>
#include <linux/in6.h>
#include <linux/kernel.h>
#include <linux/slab.h>
#include <linux/socket.h>
#include <linux/string.h>

#include "../include/kfi/kfi_cm.h"

#define LINK_TIMEOUT_MS	20000

/* Objects in the order in which they are opened. */
struct link {
	struct kfi_info		*info;
	struct kfid_fabric	*fabric;
	struct kfid_eq		*eq;
	struct kfid_pep		*pep;
	struct kfid_domain	*domain;
	struct kfid_cq		*tx_cq;
	struct kfid_cq		*rx_cq;
	struct kfid_ep		*ep;
};

/* Opens what both sides have; with flags KFI_SOURCE the address is our own. */
static inline int link_open(struct link *link, const char *node, const char *service, u64 flags)
{
	struct kfi_info *hints = kfi_allocinfo();
	int ret;

	if (!hints)
		return -ENOMEM;
	hints->caps = KFI_MSG;
	hints->ep_attr->type = KFI_EP_MSG;
	hints->fabric_attr->prov_name = kstrdup("tcp", GFP_KERNEL);
	ret = kfi_getinfo(KFI_VERSION(1, 7), node, service, flags, hints, &link->info);
	kfi_freeinfo(hints);
	return ret ?: kfi_fabric(link->info->fabric_attr, &link->fabric, NULL) ?:
		      kfi_eq_open(link->fabric, NULL, &link->eq, NULL, NULL);
}

/* Listens. *len: in: room at addr, out: bytes of the address. */
static inline int link_listen(struct link *link, void *addr, size_t *len)
{
	return kfi_passive_ep(link->fabric, link->info, &link->pep, NULL) ?:
	       kfi_pep_bind(link->pep, &link->eq->fid, 0) ?:
	       kfi_listen(link->pep) ?:
	       kfi_getname(&link->pep->fid, addr, len);
}

/* Waits for an event. */
static inline int link_event(struct link *link, u32 wanted, struct kfi_eq_cm_entry *entry)
{
	struct kfi_eq_err_entry why = {};
	ssize_t ret;
	u32 event;

	ret = kfi_eq_sread(link->eq, &event, entry, sizeof(*entry), LINK_TIMEOUT_MS, 0);
	if (ret == -KFI_EAVAIL) {
		ret = kfi_eq_readerr(link->eq, &why, 0);
		return ret < 0 ? ret : -why.err;
	}
	if (ret < 0)
		return ret == -EAGAIN ? -ETIMEDOUT : ret;
	if (event != wanted) {
		if (event == KFI_CONNREQ)
			kfi_freeinfo(entry->info);
		return event == KFI_SHUTDOWN ? -ESHUTDOWN : -KFI_EOTHER;
	}
	return 0;
}

/* An endpoint with its queues, and its first receive posted. */
static inline int link_endpoint(struct link *link, struct kfi_info *info, void *buf, size_t len)
{
	struct kfi_cq_attr attr = { .format = KFI_CQ_FORMAT_DATA, .wait_obj = KFI_WAIT_UNSPEC };

	return kfi_domain(link->fabric, info, &link->domain, NULL) ?:
	       kfi_cq_open(link->domain, &attr, &link->tx_cq, NULL, NULL) ?:
	       kfi_cq_open(link->domain, &attr, &link->rx_cq, NULL, NULL) ?:
	       kfi_endpoint(link->domain, info, &link->ep, NULL) ?:
	       kfi_ep_bind(link->ep, &link->eq->fid, 0) ?:
	       kfi_ep_bind(link->ep, &link->tx_cq->fid, KFI_TRANSMIT) ?:
	       kfi_ep_bind(link->ep, &link->rx_cq->fid, KFI_RECV) ?:
	       kfi_enable(link->ep) ?:
	       (buf ? (int)kfi_recv(link->ep, buf, len, NULL, 0, NULL) : 0);
}

/* Takes the next request. */
static inline int link_accept(struct link *link, void *buf, size_t len)
{
	struct kfi_eq_cm_entry entry;
	int ret = link_event(link, KFI_CONNREQ, &entry);

	if (ret)
		return ret;
	ret = link_endpoint(link, entry.info, buf, len) ?: kfi_accept(link->ep, NULL, 0);
	kfi_freeinfo(entry.info);
	return ret ?: link_event(link, KFI_CONNECTED, &entry);
}

/* Connects to addr, or to what was given to link_open(). */
static inline int link_connect(struct link *link, const void *addr, void *buf, size_t len)
{
	struct kfi_eq_cm_entry entry;

	return link_endpoint(link, link->info, buf, len) ?:
	       kfi_connect(link->ep, addr, NULL, 0) ?:
	       link_event(link, KFI_CONNECTED, &entry);
}

/* Waits for the next completion. */
static inline int link_complete(struct kfid_cq *cq, struct kfi_cq_data_entry *done)
{
	struct kfi_cq_err_entry why = {};
	ssize_t ret;

	ret = kfi_cq_sread(cq, done, 1, NULL, LINK_TIMEOUT_MS);
	if (ret == 1)
		return 0;
	if (ret == -KFI_EAVAIL) {
		kfi_cq_readerr(cq, &why, 0);
		return -why.err;
	}
	return ret == -EAGAIN ? -ETIMEDOUT : ret;
}

static inline void link_close(struct link *link)
{
	if (link->ep)
		kfi_close(&link->ep->fid);
	if (link->tx_cq)
		kfi_close(&link->tx_cq->fid);
	if (link->rx_cq)
		kfi_close(&link->rx_cq->fid);
	if (link->domain)
		kfi_close(&link->domain->fid);
	if (link->pep)
		kfi_close(&link->pep->fid);
	if (link->eq)
		kfi_close(&link->eq->fid);
	if (link->fabric)
		kfi_close(&link->fabric->fid);
	kfi_freeinfo(link->info);
	memset(link, 0, sizeof(*link));
}

/* A socket address from text. Gives its length, or an error. */
static inline int link_sockaddr(struct sockaddr_storage *addr, const char *node, u16 port)
{
	struct sockaddr_in *in = (void *)addr;
	struct sockaddr_in6 *in6 = (void *)addr;

	memset(addr, 0, sizeof(*addr));
	if (in4_pton(node, -1, (u8 *)&in->sin_addr, -1, NULL)) {
		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		return sizeof(*in);
	}
	if (in6_pton(node, -1, (u8 *)&in6->sin6_addr, -1, NULL)) {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(port);
		return sizeof(*in6);
	}
	return -EINVAL;
}

#endif
