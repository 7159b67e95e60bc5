// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * deck_client - a client of deck_server
 *
 * It connects with private data, sends messages of growing sizes, compares what comes back, and
 * shuts down. All of that happens while it is loaded: insmod fails if something did not work, and
 * the log says what.
 *
 *   insmod deck_client.ko address=192.0.2.7 port=18500
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "../include/fi/fabric.h"
#include "../include/fi/fi_cm.h"

static char *address = "127.0.0.1";
module_param(address, charp, 0444);
MODULE_PARM_DESC(address, "the server's address, in text form");

static char *port = "18500";
module_param(port, charp, 0444);
MODULE_PARM_DESC(port, "the server's port number");

static char *data = "my kernel private data";
module_param(data, charp, 0444);
MODULE_PARM_DESC(data, "private data to connect with");

#define MESSAGE_SIZE	(1 << 20)
#define TIMEOUT_MS	20000

/* Objects in the order in which they are opened. */
struct client {
	struct fi_info		*info;
	struct fid_fabric	*fabric;
	struct fid_eq		*eq;
	struct fid_domain	*domain;
	struct fid_cq		*cq;
	struct fid_ep		*ep;
	u8			*sent;
	u8			*received;
};

/* Waits for an event of the endpoint. Gives the length of its private data. */
static ssize_t wait_for(struct client *c, uint32_t wanted, char *text, size_t room)
{
	struct fi_eq_err_entry why = {};
	union {
		struct fi_eq_cm_entry	entry;
		char			room[sizeof(struct fi_eq_cm_entry) + 256];
	} event;
	uint32_t event_id;
	ssize_t ret;

	ret = fi_eq_sread(c->eq, &event_id, &event, sizeof(event), TIMEOUT_MS, FI_TIME_MS);
	if (ret == -FI_EAVAIL) {
		ret = fi_eq_readerr(c->eq, &why, 0);
		if (ret < 0)
			return ret;
		pr_info("error %s, private data \"%.*s\"\n", fi_strerror(why.err),
			(int)why.err_data_size, (const char *)why.err_data);
		return -why.err;
	}
	if (ret < 0)
		return ret == -FI_EAGAIN ? -ETIMEDOUT : ret;
	if (event_id != wanted || event.entry.fid != &c->ep->fid)
		return -FI_EOTHER;
	ret -= sizeof(event.entry);
	snprintf(text, room, "%.*s", (int)ret, (const char *)event.entry.data);
	return ret;
}

static ssize_t complete_one(struct client *c, uint64_t flags, size_t len)
{
	struct fi_cq_err_entry why = {};
	struct fi_cq_data_entry done;
	ssize_t ret;

	ret = fi_cq_sread(c->cq, &done, 1, NULL, TIMEOUT_MS);
	if (ret == -FI_EAVAIL) {
		fi_cq_readerr(c->cq, &why, 0);
		return -why.err;
	}
	if (ret < 0)
		return ret == -FI_EAGAIN ? -ETIMEDOUT : ret;
	if ((done.flags & FI_RECV) && done.len != len)
		return -EMSGSIZE;
	return 0;
}

static ssize_t exchange(struct client *c, size_t len)
{
	ssize_t ret;

	memset(c->sent, (u8)(len * 7 + 1), len);
	memset(c->received, 0, len);
	ret = fi_recv(c->ep, c->received, MESSAGE_SIZE, NULL, 0, NULL) ?:
	      fi_send(c->ep, c->sent, len, NULL, 0, NULL) ?:
	      complete_one(c, FI_SEND, len) ?:
	      complete_one(c, FI_RECV, len);
	if (!ret && memcmp(c->sent, c->received, len))
		ret = -EBADMSG;
	return ret;
}

static ssize_t run(struct client *c)
{
	struct fi_eq_attr eq_attr = {10, 0, FI_WAIT_UNSPEC, 0, NULL };
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_UNSPEC };
	static const size_t sizes[] = { 0, 1, 64, 4096, 65536, MESSAGE_SIZE };
	struct fi_info *hints = fi_allocinfo();
	char text[64];
	ssize_t ret;
	size_t i;

	c->sent = kmalloc(MESSAGE_SIZE, GFP_KERNEL);
	c->received = kmalloc(MESSAGE_SIZE, GFP_KERNEL);
	if (!c->sent || !c->received || !hints) {
		fi_freeinfo(hints);
		return -ENOMEM;
	}
	hints->caps = FI_MSG;
	hints->ep_attr->type = FI_EP_MSG;
	hints->fabric_attr->prov_name = kstrdup("tcp", GFP_KERNEL);
	ret = fi_getinfo(FI_VERSION(1, 7), address, port, 0, hints, &c->info);
	fi_freeinfo(hints);
	if (ret)
		return ret;

	ret = fi_fabric(c->info->fabric_attr, &c->fabric, NULL) ?:
	      fi_eq_open(c->fabric, &eq_attr, &c->eq, NULL) ?:
	      fi_domain(c->fabric, c->info, &c->domain, NULL) ?:
	      fi_cq_open(c->domain, &cq_attr, &c->cq, NULL) ?:
	      fi_endpoint(c->domain, c->info, &c->ep, NULL);
	if (ret)
		return ret;
	ret = fi_ep_bind(c->ep, &c->eq->fid, 0) ?:
	      fi_ep_bind(c->ep, &c->cq->fid, FI_TRANSMIT | FI_RECV) ?:
	      fi_enable(c->ep) ?:
	      fi_connect(c->ep, NULL, data, strlen(data) + 1);
	if (ret)
		return ret;
	ret = wait_for(c, FI_CONNECTED, text, sizeof(text));
	if (ret < 0)
		return ret;
	pr_info("connected, private data \"%s\"\n", text);

	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		ret = exchange(c, sizes[i]);
		if (ret) {
			pr_err("%zu bytes: %s\n", sizes[i], fi_strerror(ret));
			return ret;
		}
	}
	ret = fi_shutdown(c->ep, 0);
	if (ret)
		return ret;
	ret = wait_for(c, FI_SHUTDOWN, text, sizeof(text));
	return ret < 0 ? ret : 0;
}

static int __init deck_client_init(void)
{
	struct client c = {};
	ssize_t ret = run(&c);

	if (c.ep)
		fi_close(&c.ep->fid);
	if (c.cq)
		fi_close(&c.cq->fid);
	if (c.domain)
		fi_close(&c.domain->fid);
	if (c.eq)
		fi_close(&c.eq->fid);
	if (c.fabric)
		fi_close(&c.fabric->fid);
	fi_freeinfo(c.info);
	kfree(c.sent);
	kfree(c.received);
	if (ret)
		pr_err("failed: %s\n", fi_strerror(ret));
	else
		pr_info("ok\n");
	/* Numbers above 255 are ours: nobody else must see them. */
	return ret <= -FI_EOTHER ? -EIO : ret;
}

static void __exit deck_client_exit(void)
{
}

module_init(deck_client_init);
module_exit(deck_client_exit);
MODULE_DESCRIPTION("A client of deck_server");
MODULE_LICENSE("Dual BSD/GPL");
