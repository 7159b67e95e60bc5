// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * deck_server - the server of the deck of 2015, slides 3 to 8, and what comes after them
 *
 * It listens, takes one connection after the other, and sends back each message that comes. The
 * first half is in both layers of names: deck_setup() and deck_request() with fi_*, as on the
 * slides; kfi_setup() and kfi_request() with the kfi_* of kfabric. The second half, from the
 * accepted request on, is the same for both.
 *
 *   insmod deck_server.ko address=192.0.2.7 port=18500 names=fi
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kernel.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "../include/fi/fabric.h"
#include "../include/fi/fi_cm.h"

static char *address = "127.0.0.1";
module_param(address, charp, 0444);
MODULE_PARM_DESC(address, "where to listen, an address in text form");

static char *port = "18500";
module_param(port, charp, 0444);
MODULE_PARM_DESC(port, "where to listen, a port number");

static char *names = "fi";
module_param(names, charp, 0444);
MODULE_PARM_DESC(names, "which layer of names to use: fi or kfi");

static bool refuse;
module_param(refuse, bool, 0444);
MODULE_PARM_DESC(refuse, "reject all requests, with private data");

#define MESSAGE_SIZE	(1 << 20)
#define CONTEXT		0xCafeBabe

static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_pep *pep;
static struct fid_eq *eq;
static struct task_struct *task;
static void *message;

/* An entry with room for the private data of a request. */
union deck_event {
	struct fi_eq_cm_entry	entry;
	char			room[sizeof(struct fi_eq_cm_entry) + 256];
};

/* The deck's slides 3 to 8. */
static int deck_setup(struct fi_info *provider)
{
	struct fi_eq_attr eq_attr = {10, 0, FI_WAIT_UNSPEC, 0, NULL };
	int ret;

	ret = fi_passive_ep(fabric, provider, &pep, 0xCafeBabe);
	if (ret)
		return ret;
	ret = fi_eq_open(fabric, &eq_attr, &eq, NULL);
	if (ret)
		return ret;
	ret = fi_pep_bind(pep, &eq->fid, 0);
	if (ret)
		return ret;
	return fi_listen(pep);
}

static ssize_t deck_request(union deck_event *event)
{
	uint32_t event_id;
	ssize_t ret;

	/* Blocked waiting for a client connection. Also ends by kthread_stop(). */
	ret = fi_eq_sread(eq, &event_id, event, sizeof(*event), 20000, FI_TIME_MS);
	if (ret >= 0 && event_id != FI_CONNREQ)
		return -FI_EOTHER;
	return ret;
}

/* The same with the names of kfabric, whose queues take a handler. */
static int kfi_setup(struct kfi_info *provider)
{
	struct kfi_eq_attr eq_attr = { .size = 10, .wait_obj = KFI_WAIT_UNSPEC };
	int ret;

	ret = kfi_passive_ep(fabric, provider, &pep, (void *)CONTEXT);
	if (ret)
		return ret;
	ret = kfi_eq_open(fabric, &eq_attr, &eq, NULL, NULL);
	if (ret)
		return ret;
	ret = kfi_pep_bind(pep, &eq->fid, 0);
	if (ret)
		return ret;
	return kfi_listen(pep);
}

static ssize_t kfi_request(union deck_event *event)
{
	uint32_t event_id;
	ssize_t ret;

	ret = kfi_eq_sread(eq, &event_id, event, sizeof(*event), 20000, 0);
	if (ret >= 0 && event_id != KFI_CONNREQ)
		return -KFI_EOTHER;
	return ret;
}

/* Sends messages back until the peer ends the connection. */
static void echo(struct fid_ep *ep, struct fid_cq *cq)
{
	struct fi_cq_data_entry done;
	struct fi_eq_err_entry why = {};
	union deck_event event;
	unsigned int count = 0;
	uint32_t event_id;
	ssize_t ret;

	while (!kthread_should_stop()) {
		ret = fi_cq_sread(cq, &done, 1, NULL, 50);
		if (ret == 1) {
			if (done.flags & FI_RECV) {
				count++;
				ret = fi_send(ep, message, done.len, NULL, 0, NULL);
			} else {
				ret = fi_recv(ep, message, MESSAGE_SIZE, NULL, 0, NULL);
			}
			if (ret)
				break;
			continue;
		}
		if (ret != -FI_EAGAIN)
			break;
		/* Nothing more: has the connection ended? */
		ret = fi_eq_read(eq, &event_id, &event, sizeof(event), FI_PEEK);
		if (ret >= 0 && event_id == FI_SHUTDOWN) {
			fi_eq_read(eq, &event_id, &event, sizeof(event), 0);
			break;
		}
		if (ret == -FI_EAVAIL) {
			fi_eq_readerr(eq, &why, 0);
			pr_info("error %s\n", fi_strerror(why.err));
			break;
		}
	}
	pr_info("connection ended after %u messages\n", count);
}

/* From a request to the end of its connection. */
static int serve(struct fi_info *info)
{
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_UNSPEC };
	struct fi_eq_err_entry why = {};
	struct fid_ep *ep = NULL;
	struct fid_cq *cq = NULL;
	union deck_event event;
	uint32_t event_id;
	ssize_t ret;

	ret = fi_endpoint(domain, info, &ep, NULL);
	if (ret)
		goto out;
	ret = fi_cq_open(domain, &cq_attr, &cq, NULL);
	if (ret)
		goto out;
	/* One event queue may be bound to the passive endpoint and to endpoints. */
	ret = fi_ep_bind(ep, &eq->fid, 0) ?:
	      fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV) ?:
	      fi_enable(ep);
	if (ret)
		goto out;
	ret = fi_recv(ep, message, MESSAGE_SIZE, NULL, 0, NULL);
	if (ret)
		goto out;
	ret = fi_accept(ep, "welcome", 8);
	if (ret)
		goto out;
	ret = fi_eq_sread(eq, &event_id, &event, sizeof(event), 20000, FI_TIME_MS);
	if (ret == -FI_EAVAIL) {
		fi_eq_readerr(eq, &why, 0);
		ret = -why.err;
	}
	if (ret < 0)
		goto out;
	if (event_id == FI_CONNECTED && event.entry.fid == &ep->fid) {
		pr_info("connected\n");
		echo(ep, cq);
	}
	ret = 0;
out:
	/* An endpoint before its queues. */
	if (ep)
		fi_close(&ep->fid);
	if (cq)
		fi_close(&cq->fid);
	return ret;
}

static int server(void *unused)
{
	bool kfi = !strcmp(names, "kfi");
	struct fi_eq_err_entry why;
	union deck_event event;
	ssize_t ret;

	while (!kthread_should_stop()) {
		ret = kfi ? kfi_request(&event) : deck_request(&event);
		if (ret == -FI_EAVAIL) {
			memset(&why, 0, sizeof(why));
			fi_eq_readerr(eq, &why, 0);
			pr_info("error %s\n", fi_strerror(why.err));
			continue;
		}
		if (ret == -FI_EOTHER)
			continue;
		if (ret < 0) {
			if (ret != -FI_EAGAIN) {
				pr_err("event queue: %s\n", fi_strerror(ret));
				schedule_timeout_interruptible(HZ);
			}
			continue;
		}
		ret -= sizeof(event.entry);
		pr_info("request, context %lx, private data \"%.*s\"\n",
			(unsigned long)event.entry.fid->context, (int)ret,
			(const char *)event.entry.data);
		if (refuse)
			ret = fi_reject(pep, event.entry.info->handle, "go away", 8);
		else
			ret = serve(event.entry.info);
		if (ret)
			pr_info("connection failed: %s\n", fi_strerror(ret));
		/* The info is ours, whatever became of the request. */
		fi_freeinfo(event.entry.info);
	}
	return 0;
}

/* Children before parents, and what is bound before what it is bound to. */
static void close_all(void)
{
	if (pep)
		fi_close(&pep->fid);
	if (eq)
		fi_close(&eq->fid);
	if (domain)
		fi_close(&domain->fid);
	if (fabric)
		fi_close(&fabric->fid);
	kfree(message);
}

static int __init deck_server_init(void)
{
	struct fi_info *hints, *info = NULL;
	int ret = -ENOMEM;

	message = kmalloc(MESSAGE_SIZE, GFP_KERNEL);
	hints = fi_allocinfo();
	if (!message || !hints)
		goto out;
	hints->caps = FI_MSG;
	hints->ep_attr->type = FI_EP_MSG;
	hints->fabric_attr->prov_name = kstrdup("tcp", GFP_KERNEL);
	ret = fi_getinfo(FI_VERSION(1, 7), address, port, FI_SOURCE, hints, &info);
	if (ret)
		goto out;
	ret = fi_fabric(info->fabric_attr, &fabric, NULL) ?:
	      fi_domain(fabric, info, &domain, NULL) ?:
	      (!strcmp(names, "kfi") ? kfi_setup(info) : deck_setup(info));
	if (ret)
		goto out;
	task = kthread_run(server, NULL, "deck_server");
	ret = PTR_ERR_OR_ZERO(task);
	if (!ret)
		pr_info("listening on %s port %s, names %s\n", address, port, names);
out:
	if (ret) {
		pr_err("not listening: %s\n", fi_strerror(ret));
		close_all();
	}
	fi_freeinfo(info);
	fi_freeinfo(hints);
	/* Numbers above 255 are ours: nobody else must see them. */
	return ret <= -FI_EOTHER ? -EIO : ret;
}

static void __exit deck_server_exit(void)
{
	kthread_stop(task);
	close_all();
}

module_init(deck_server_init);
module_exit(deck_server_exit);
MODULE_DESCRIPTION("The server of the Open Fabrics Interfaces deck of 2015");
MODULE_LICENSE("Dual BSD/GPL");
