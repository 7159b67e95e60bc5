// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Infos: their memory, and their translation to and from the Rust part's records.
 *
 * What belongs to an info is allocated by kmalloc() piece by piece, since clients may replace
 * pieces by their own.
 */
#define pr_fmt(fmt) "kofi: " fmt

#include <linux/export.h>
#include <linux/printk.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "api.h"

static atomic_long_t alive = ATOMIC_LONG_INIT(0);

/* Of kfi_ep_attr.protocol; the place is kfabric's number, the value libfabric's. */
static const u8 protocols[] = {
	[KFI_PROTO_UNSPEC] = KOFI_PROTO_UNSPEC,
	[KFI_PROTO_RDMA_CM_IB_RC] = 1,
	[KFI_PROTO_IWARP] = 2,
	[KFI_PROTO_IB_UD] = 3,
	[KFI_PROTO_UDP] = 5,
	[KFI_PROTO_SOCK_TCP] = KOFI_PROTO_SOCK_TCP,
	[KFI_PROTO_IWARP_RDM] = 8,
	[KFI_PROTO_IB_RDM] = 9,
	[KFI_PROTO_GNI] = 10,
};

/* Of kfi_domain_attr.mr_mode. */
static const struct {
	int mode;
	u64 bit;
} mr_modes[] = {
	{ KFI_MR_LOCAL, KOFI_MR_LOCAL },
	{ KFI_MR_RAW, 1ULL << 3 },
	{ KFI_MR_VIRT_ADDR, KOFI_MR_VIRT_ADDR },
	{ KFI_MR_PROV_KEY, KOFI_MR_PROV_KEY },
	{ KFI_MR_RMA_EVENT, 1ULL << 8 },
	{ KFI_MR_ENDPOINT, 1ULL << 9 },
};

/* What neither side has a name for must not fit by accident. */
#define NO_SUCH_NUMBER 0x7fffffff

u32 kapi_protocol_in(u32 protocol)
{
	if (protocol >= ARRAY_SIZE(protocols))
		return NO_SUCH_NUMBER;
	return protocols[protocol];
}

static u32 protocol_out(u32 protocol)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(protocols); i++)
		if (protocols[i] == protocol)
			return i;
	return KFI_PROTO_UNSPEC;
}

u32 kapi_addr_format_in(u32 format)
{
	return format <= KFI_SOCKADDR_IB ? format : NO_SUCH_NUMBER;
}

u64 kapi_mr_mode_in(int mode)
{
	u64 bits = 0;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(mr_modes); i++)
		if (mode & mr_modes[i].mode)
			bits |= mr_modes[i].bit;
	return bits;
}

static int mr_mode_out(u64 bits)
{
	int mode = 0;
	size_t i;

	if (bits & KOFI_MR_BASIC)
		bits |= KOFI_MR_VIRT_ADDR | KOFI_MR_PROV_KEY;
	for (i = 0; i < ARRAY_SIZE(mr_modes); i++)
		if (bits & mr_modes[i].bit)
			mode |= mr_modes[i].mode;
	return mode;
}

struct kfi_info *kfi_allocinfo(void)
{
	struct kfi_info *info = kzalloc(sizeof(*info), GFP_NOIO);

	if (!info)
		return NULL;
	atomic_long_inc(&alive);
	info->tx_attr = kzalloc(sizeof(*info->tx_attr), GFP_NOIO);
	info->rx_attr = kzalloc(sizeof(*info->rx_attr), GFP_NOIO);
	info->ep_attr = kzalloc(sizeof(*info->ep_attr), GFP_NOIO);
	info->domain_attr = kzalloc(sizeof(*info->domain_attr), GFP_NOIO);
	info->fabric_attr = kzalloc(sizeof(*info->fabric_attr), GFP_NOIO);
	if (!info->tx_attr || !info->rx_attr || !info->ep_attr || !info->domain_attr ||
	    !info->fabric_attr) {
		kfi_freeinfo(info);
		return NULL;
	}
	return info;
}
EXPORT_SYMBOL(kfi_allocinfo);

static void free_one(struct kfi_info *info)
{
	kfree(info->src_addr);
	kfree(info->dest_addr);
	kfree(info->tx_attr);
	kfree(info->rx_attr);
	if (info->ep_attr)
		kfree(info->ep_attr->auth_key);
	kfree(info->ep_attr);
	if (info->domain_attr) {
		kfree(info->domain_attr->name);
		kfree(info->domain_attr->auth_key);
	}
	kfree(info->domain_attr);
	if (info->fabric_attr) {
		kfree(info->fabric_attr->name);
		kfree(info->fabric_attr->prov_name);
	}
	kfree(info->fabric_attr);
	kfree(info);
	atomic_long_dec(&alive);
}

void kfi_freeinfo(struct kfi_info *info)
{
	struct kfi_info *next;

	for (; info; info = next) {
		next = info->next;
		free_one(info);
	}
}
EXPORT_SYMBOL(kfi_freeinfo);

/* Copies what a pointer of a copied structure points to; the pointer is NULL without memory. */
static bool dup_to(void *at, const void *from, size_t len)
{
	void **pointer = at;

	*pointer = from && len ? kmemdup(from, len, GFP_NOIO) : NULL;
	return *pointer || !from || !len;
}

static bool dup_name(char **at, const char *name)
{
	return dup_to(at, name, name ? strlen(name) + 1 : 0);
}

struct kfi_info *kfi_dupinfo(const struct kfi_info *info)
{
	struct kfi_info *copy;
	bool whole;

	if (!info)
		return kfi_allocinfo();
	copy = kmemdup(info, sizeof(*info), GFP_NOIO);
	if (!copy)
		return NULL;
	atomic_long_inc(&alive);
	/*
	 * Nothing of the original may be left in the copy, for a failure frees all that the copy
	 * points to.
	 */
	copy->next = NULL;
	whole = dup_to(&copy->src_addr, info->src_addr, info->src_addrlen);
	whole &= dup_to(&copy->dest_addr, info->dest_addr, info->dest_addrlen);
	whole &= dup_to(&copy->tx_attr, info->tx_attr, sizeof(*info->tx_attr));
	whole &= dup_to(&copy->rx_attr, info->rx_attr, sizeof(*info->rx_attr));
	whole &= dup_to(&copy->ep_attr, info->ep_attr, sizeof(*info->ep_attr));
	whole &= dup_to(&copy->domain_attr, info->domain_attr, sizeof(*info->domain_attr));
	whole &= dup_to(&copy->fabric_attr, info->fabric_attr, sizeof(*info->fabric_attr));
	if (copy->ep_attr)
		whole &= dup_to(&copy->ep_attr->auth_key, info->ep_attr->auth_key,
				info->ep_attr->auth_key_size);
	if (copy->domain_attr) {
		whole &= dup_name(&copy->domain_attr->name, info->domain_attr->name);
		whole &= dup_to(&copy->domain_attr->auth_key, info->domain_attr->auth_key,
				info->domain_attr->auth_key_size);
	}
	if (copy->fabric_attr) {
		whole &= dup_name(&copy->fabric_attr->name, info->fabric_attr->name);
		whole &= dup_name(&copy->fabric_attr->prov_name, info->fabric_attr->prov_name);
	}
	if (!whole) {
		kfi_freeinfo(copy);
		return NULL;
	}
	return copy;
}
EXPORT_SYMBOL(kfi_dupinfo);

/* An info with room for whatever kapi_info_fill() puts into it. */
struct kfi_info *kapi_info_new(void)
{
	struct kfi_info *info = kfi_allocinfo();

	if (!info)
		return NULL;
	info->src_addr = kzalloc(sizeof(((struct kofi_addr *)0)->bytes), GFP_NOIO);
	info->dest_addr = kzalloc(sizeof(((struct kofi_addr *)0)->bytes), GFP_NOIO);
	info->domain_attr->name = kzalloc(KOFI_NAME_MAX, GFP_NOIO);
	info->fabric_attr->name = kzalloc(KOFI_NAME_MAX, GFP_NOIO);
	info->fabric_attr->prov_name = kzalloc(KOFI_NAME_MAX, GFP_NOIO);
	if (!info->src_addr || !info->dest_addr || !info->domain_attr->name ||
	    !info->fabric_attr->name || !info->fabric_attr->prov_name) {
		kfi_freeinfo(info);
		return NULL;
	}
	return info;
}

static void addr_out(void **addr, size_t *len, const struct kofi_addr *from)
{
	*len = min_t(size_t, from->len, sizeof(from->bytes));
	if (*len) {
		memcpy(*addr, from->bytes, *len);
	} else {
		kfree(*addr);
		*addr = NULL;
	}
}

/* Writes a record into an info of kapi_info_new(), all but the handle. Cannot fail. */
void kapi_info_fill(struct kfi_info *info, const struct kofi_info *from)
{
	info->caps = from->caps;
	info->mode = from->mode;
	info->addr_format = from->addr_format;
	addr_out(&info->src_addr, &info->src_addrlen, &from->src_addr);
	addr_out(&info->dest_addr, &info->dest_addrlen, &from->dest_addr);
	info->handle = NULL;

	*info->tx_attr = (struct kfi_tx_attr) {
		.caps = from->tx.caps,
		.mode = from->tx.mode,
		.op_flags = from->tx.op_flags,
		.msg_order = from->tx.msg_order,
		.comp_order = from->tx.comp_order,
		.inject_size = from->tx.inject_size,
		.size = from->tx.size,
		.iov_limit = from->tx.iov_limit,
		.rma_iov_limit = from->tx.rma_iov_limit,
		.tclass = from->tx.tclass,
	};
	*info->rx_attr = (struct kfi_rx_attr) {
		.caps = from->rx.caps,
		.mode = from->rx.mode,
		.op_flags = from->rx.op_flags,
		.msg_order = from->rx.msg_order,
		.comp_order = from->rx.comp_order,
		.total_buffered_recv = from->rx.total_buffered_recv,
		.size = from->rx.size,
		.iov_limit = from->rx.iov_limit,
	};
	*info->ep_attr = (struct kfi_ep_attr) {
		.type = from->ep.type,
		.protocol = protocol_out(from->ep.protocol),
		.protocol_version = from->ep.protocol_version,
		.max_msg_size = from->ep.max_msg_size,
		.msg_prefix_size = from->ep.msg_prefix_size,
		.max_order_raw_size = from->ep.max_order_raw_size,
		.max_order_war_size = from->ep.max_order_war_size,
		.max_order_waw_size = from->ep.max_order_waw_size,
		.mem_tag_format = from->ep.mem_tag_format,
		.tx_ctx_cnt = from->ep.tx_ctx_cnt,
		.rx_ctx_cnt = from->ep.rx_ctx_cnt,
	};
	*info->domain_attr = (struct kfi_domain_attr) {
		.name = info->domain_attr->name,
		.threading = from->domain.threading,
		.control_progress = from->domain.control_progress,
		.data_progress = from->domain.data_progress,
		.resource_mgmt = from->domain.resource_mgmt,
		.av_type = from->domain.av_type,
		.mr_mode = mr_mode_out(from->domain.mr_mode),
		.mr_key_size = from->domain.mr_key_size,
		.cq_data_size = from->domain.cq_data_size,
		.cq_cnt = from->domain.cq_cnt,
		.ep_cnt = from->domain.ep_cnt,
		.tx_ctx_cnt = from->domain.tx_ctx_cnt,
		.rx_ctx_cnt = from->domain.rx_ctx_cnt,
		.max_ep_tx_ctx = from->domain.max_ep_tx_ctx,
		.max_ep_rx_ctx = from->domain.max_ep_rx_ctx,
		.max_ep_stx_ctx = from->domain.max_ep_stx_ctx,
		.max_ep_srx_ctx = from->domain.max_ep_srx_ctx,
		.cntr_cnt = from->domain.cntr_cnt,
		.mr_iov_limit = from->domain.mr_iov_limit,
		.caps = from->domain.caps,
		.mode = from->domain.mode,
		.max_err_data = from->domain.max_err_data,
		.mr_cnt = from->domain.mr_cnt,
		.tclass = from->domain.tclass,
	};
	strscpy(info->domain_attr->name, from->domain.name, KOFI_NAME_MAX);
	strscpy(info->fabric_attr->name, from->fabric.name, KOFI_NAME_MAX);
	strscpy(info->fabric_attr->prov_name, from->fabric.prov_name, KOFI_NAME_MAX);
	info->fabric_attr->fabric = NULL;
	info->fabric_attr->prov_version = from->fabric.prov_version;
	info->fabric_attr->api_version = from->fabric.api_version;
}

static int addr_in(struct kofi_addr *addr, const void *from, size_t len)
{
	if (!from || !len)
		return 0;
	if (len > sizeof(addr->bytes))
		return -EINVAL;
	memcpy(addr->bytes, from, len);
	addr->len = len;
	return 0;
}

static int name_in(char *name, const char *from)
{
	/* No name of ours is as long as that: it fits nothing. */
	if (from && strscpy(name, from, KOFI_NAME_MAX) < 0)
		return -ENODATA;
	return 0;
}

/* @attr is zeroed. */
int kapi_fabric_attr_in(struct kofi_fabric_attr *attr, const struct kfi_fabric_attr *from)
{
	attr->prov_version = from->prov_version;
	attr->api_version = from->api_version;
	return name_in(attr->name, from->name) ?: name_in(attr->prov_name, from->prov_name);
}

/* Translates all but the handle. @info is zeroed. */
int kapi_info_in(struct kofi_info *info, const struct kfi_info *from)
{
	int error;

	info->caps = from->caps;
	info->mode = from->mode;
	info->addr_format = kapi_addr_format_in(from->addr_format);
	error = addr_in(&info->src_addr, from->src_addr, from->src_addrlen) ?:
		addr_in(&info->dest_addr, from->dest_addr, from->dest_addrlen);
	if (error)
		return error;

	if (from->tx_attr) {
		const struct kfi_tx_attr *tx = from->tx_attr;

		info->present |= KOFI_HAS_TX_ATTR;
		info->tx = (struct kofi_tx_attr) {
			.caps = tx->caps,
			.mode = tx->mode,
			.op_flags = tx->op_flags,
			.msg_order = tx->msg_order,
			.comp_order = tx->comp_order,
			.inject_size = tx->inject_size,
			.size = tx->size,
			.iov_limit = tx->iov_limit,
			.rma_iov_limit = tx->rma_iov_limit,
			.tclass = tx->tclass,
		};
	}
	if (from->rx_attr) {
		const struct kfi_rx_attr *rx = from->rx_attr;

		info->present |= KOFI_HAS_RX_ATTR;
		info->rx = (struct kofi_rx_attr) {
			.caps = rx->caps,
			.mode = rx->mode,
			.op_flags = rx->op_flags,
			.msg_order = rx->msg_order,
			.comp_order = rx->comp_order,
			.total_buffered_recv = rx->total_buffered_recv,
			.size = rx->size,
			.iov_limit = rx->iov_limit,
		};
	}
	if (from->ep_attr) {
		const struct kfi_ep_attr *ep = from->ep_attr;

		info->present |= KOFI_HAS_EP_ATTR;
		info->ep = (struct kofi_ep_attr) {
			.type = ep->type,
			.protocol = kapi_protocol_in(ep->protocol),
			.protocol_version = ep->protocol_version,
			.max_msg_size = ep->max_msg_size,
			.msg_prefix_size = ep->msg_prefix_size,
			.max_order_raw_size = ep->max_order_raw_size,
			.max_order_war_size = ep->max_order_war_size,
			.max_order_waw_size = ep->max_order_waw_size,
			.mem_tag_format = ep->mem_tag_format,
			.tx_ctx_cnt = ep->tx_ctx_cnt,
			.rx_ctx_cnt = ep->rx_ctx_cnt,
			.auth_key_size = ep->auth_key_size,
		};
	}
	if (from->domain_attr) {
		const struct kfi_domain_attr *domain = from->domain_attr;

		info->present |= KOFI_HAS_DOMAIN_ATTR;
		info->domain = (struct kofi_domain_attr) {
			.threading = domain->threading,
			.control_progress = domain->control_progress,
			.data_progress = domain->data_progress,
			.resource_mgmt = domain->resource_mgmt,
			.av_type = domain->av_type,
			.tclass = domain->tclass,
			.mr_mode = kapi_mr_mode_in(domain->mr_mode),
			.mr_key_size = domain->mr_key_size,
			.cq_data_size = domain->cq_data_size,
			.cq_cnt = domain->cq_cnt,
			.ep_cnt = domain->ep_cnt,
			.tx_ctx_cnt = domain->tx_ctx_cnt,
			.rx_ctx_cnt = domain->rx_ctx_cnt,
			.max_ep_tx_ctx = domain->max_ep_tx_ctx,
			.max_ep_rx_ctx = domain->max_ep_rx_ctx,
			.max_ep_stx_ctx = domain->max_ep_stx_ctx,
			.max_ep_srx_ctx = domain->max_ep_srx_ctx,
			.cntr_cnt = domain->cntr_cnt,
			.mr_iov_limit = domain->mr_iov_limit,
			.caps = domain->caps,
			.mode = domain->mode,
			.auth_key_size = domain->auth_key_size,
			.max_err_data = domain->max_err_data,
			.mr_cnt = domain->mr_cnt,
		};
		error = name_in(info->domain.name, domain->name);
		if (error)
			return error;
	}
	if (from->fabric_attr) {
		info->present |= KOFI_HAS_FABRIC_ATTR;
		error = kapi_fabric_attr_in(&info->fabric, from->fabric_attr);
	}
	return error;
}

void kapi_infos_exit(void)
{
	long left = atomic_long_read(&alive);

	if (left)
		pr_warn("LEAK: %ld infos that nobody gave to kfi_freeinfo\n", left);
}
