/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What hints give and what they refuse: run on stock libfabric's tcp and on kofi, the output is the same. Left out are
 * hints that kofi meets and stock 1.17 does not (multi-receive, several buffers in a region, FI_MATCH_COMPLETE), and
 * the other way round (persistent memory, the orders of atomic operations, which neither has). */
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

static struct fi_info *hints;

static void begin(void)
{
	hints = fi_allocinfo();
	hints->mode = ~0ull;
	hints->ep_attr->type = FI_EP_MSG;
	hints->fabric_attr->prov_name = strdup("tcp");
	hints->domain_attr->mode = ~0ull;
}

/* Directions and orders of what is granted; secondary capabilities are each provider's own. */
static const uint64_t granted = FI_MSG | FI_RMA | FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ |
				FI_REMOTE_WRITE | FI_SOURCE;

static void ask(const char *what, unsigned long long value, uint32_t version)
{
	struct fi_info *info = NULL;
	int ret = fi_getinfo(version, "127.0.0.1", "5000", 0, hints, &info);

	printf("%s %llx, %d.%d: %d", what, value, FI_MAJOR(version), FI_MINOR(version), ret);
	if (!ret) {
		printf(" caps %llx tx %llx rx %llx mode %llx mr_mode %x format %d threading %d rm %d av %d",
		       (unsigned long long) (info->caps & granted), (unsigned long long) (info->tx_attr->caps & granted),
		       (unsigned long long) (info->rx_attr->caps & granted), (unsigned long long) info->mode,
		       info->domain_attr->mr_mode, info->addr_format, info->domain_attr->threading,
		       info->domain_attr->resource_mgmt, info->domain_attr->av_type);
		printf(" size %zu %zu inject %zu iov %zu %zu %zu contexts %zx %zx op_flags %llx %llx api %x dest %s\n",
		       info->tx_attr->size, info->rx_attr->size, info->tx_attr->inject_size, info->tx_attr->iov_limit,
		       info->tx_attr->rma_iov_limit, info->rx_attr->iov_limit, info->ep_attr->tx_ctx_cnt,
		       info->ep_attr->rx_ctx_cnt, (unsigned long long) info->tx_attr->op_flags,
		       (unsigned long long) info->rx_attr->op_flags, info->fabric_attr->api_version,
		       info->dest_addr ? "there" : "not there");
		fi_freeinfo(info);
	} else {
		printf("\n");
	}
	fi_freeinfo(hints);
}

#define TRY_AT(field, value, version) do { begin(); hints->field = (value); ask(#field, (value), (version)); } while (0)
#define TRY(field, value) TRY_AT(field, value, FI_VERSION(1, 17))

static void modes_of_registration(void)
{
	static const uint32_t versions[] = { FI_VERSION(1, 0), FI_VERSION(1, 4), FI_VERSION(1, 5), FI_VERSION(1, 17) };
	static const int modes[] = {
		0, FI_MR_BASIC, FI_MR_SCALABLE, FI_MR_BASIC | FI_MR_SCALABLE, FI_MR_LOCAL, FI_MR_VIRT_ADDR,
		FI_MR_ALLOCATED, FI_MR_PROV_KEY, FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY,
		FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY, FI_MR_BASIC | FI_MR_LOCAL,
		FI_MR_SCALABLE | FI_MR_LOCAL, 0x7fff, ~3,
	};
	size_t m, v;

	for (m = 0; m < sizeof(modes) / sizeof(*modes); m++)
		for (v = 0; v < sizeof(versions) / sizeof(*versions); v++)
			TRY_AT(domain_attr->mr_mode, modes[m], versions[v]);
}

static void capabilities(void)
{
	static const uint64_t caps[] = {
		0, FI_MSG, FI_RMA, FI_MSG | FI_RMA, FI_TAGGED, FI_MSG | FI_TAGGED, FI_ATOMIC, FI_MSG | FI_SEND,
		FI_MSG | FI_RECV, FI_RMA | FI_WRITE, FI_RMA | FI_READ | FI_REMOTE_WRITE, FI_MSG | FI_SOURCE,
		FI_MSG | FI_RMA_EVENT, FI_MSG | FI_LOCAL_COMM, FI_MSG | FI_REMOTE_COMM, FI_MSG | FI_DIRECTED_RECV,
		FI_MSG | FI_HMEM, FI_MSG | FI_FENCE, FI_MSG | FI_TRIGGER, FI_SEND | FI_RECV, FI_MULTICAST,
		FI_MSG | FI_SHARED_AV, FI_MSG | FI_NAMED_RX_CTX, FI_MSG | FI_COLLECTIVE,
	};
	size_t i;

	for (i = 0; i < sizeof(caps) / sizeof(*caps); i++)
		TRY(caps, caps[i]);
	TRY(tx_attr->caps, FI_MSG | FI_SEND);
	TRY(rx_attr->caps, FI_MSG | FI_RECV);
	TRY(rx_attr->caps, FI_TAGGED | FI_RECV);
	TRY(domain_attr->caps, FI_LOCAL_COMM);
	TRY(domain_attr->caps, FI_SHARED_AV);
	TRY(mode, 0);
	TRY(domain_attr->mode, 0);
	TRY(tx_attr->mode, FI_CONTEXT);
	TRY(rx_attr->mode, FI_CONTEXT2);
}

static void domain(void)
{
	unsigned n;

	for (n = 0; n < 7; n++) {
		TRY(domain_attr->threading, n);
		TRY(domain_attr->resource_mgmt, n);
		TRY(domain_attr->av_type, n);
	}
	for (n = 0; n < 3; n++) {
		TRY(domain_attr->control_progress, n);
		TRY(domain_attr->data_progress, n);
	}
	TRY(domain_attr->cq_data_size, 8);
	TRY(domain_attr->cq_data_size, 9);
	TRY(domain_attr->mr_key_size, 16);
	TRY(domain_attr->cq_cnt, 1000000);
	TRY(domain_attr->ep_cnt, 1000000);
	TRY(domain_attr->cntr_cnt, 1000000);
	TRY(domain_attr->mr_iov_limit, 9);
	TRY(domain_attr->max_err_data, 1000);
	TRY(domain_attr->tclass, FI_TC_BULK_DATA);
	TRY(domain_attr->max_ep_tx_ctx, 5);
	TRY(domain_attr->max_ep_srx_ctx, 5);
	TRY(fabric_attr->prov_version, FI_VERSION(1, 0));
	TRY(fabric_attr->prov_version, FI_VERSION(117, 0));
	TRY(fabric_attr->prov_version, FI_VERSION(999, 0));
}

static void endpoint(void)
{
	unsigned n;

	for (n = 0; n < 17; n++)
		if (n != FI_SOCKADDR_IN6)
			TRY(addr_format, n);
	TRY(ep_attr->protocol, FI_PROTO_SOCK_TCP);
	TRY(ep_attr->protocol, FI_PROTO_RXM);
	TRY(ep_attr->protocol_version, 1);
	TRY(ep_attr->max_msg_size, 1 << 20);
	TRY(ep_attr->msg_prefix_size, 8);
	TRY(ep_attr->tx_ctx_cnt, 1);
	TRY(ep_attr->tx_ctx_cnt, 2);
	TRY(ep_attr->tx_ctx_cnt, FI_SHARED_CONTEXT);
	TRY(ep_attr->rx_ctx_cnt, 1);
	TRY(ep_attr->rx_ctx_cnt, 2);
	TRY(ep_attr->rx_ctx_cnt, FI_SHARED_CONTEXT);
	TRY(ep_attr->max_order_raw_size, 100);
	TRY(ep_attr->max_order_waw_size, 100);
	TRY(ep_attr->mem_tag_format, ~0ull);
	TRY(tx_attr->size, 1);
	TRY(tx_attr->size, 1024);
	TRY(tx_attr->size, 65537);
	TRY(rx_attr->size, 1024);
	TRY(rx_attr->size, 65536);
	TRY(rx_attr->size, 65537);
	TRY(tx_attr->inject_size, 64);
	TRY(tx_attr->inject_size, 128);
	TRY(tx_attr->inject_size, 129);
	TRY(tx_attr->iov_limit, 4);
	TRY(tx_attr->iov_limit, 5);
	TRY(tx_attr->rma_iov_limit, 4);
	TRY(tx_attr->rma_iov_limit, 5);
	TRY(rx_attr->iov_limit, 5);
	TRY(tx_attr->op_flags, FI_COMPLETION);
	TRY(tx_attr->op_flags, FI_INJECT);
	TRY(tx_attr->op_flags, FI_DELIVERY_COMPLETE);
	TRY(tx_attr->op_flags, FI_MORE);
	TRY(tx_attr->op_flags, FI_FENCE);
	TRY(rx_attr->op_flags, FI_COMPLETION);
	for (n = 0; n < 9; n++) {
		TRY(tx_attr->msg_order, 1ull << n);
		TRY(rx_attr->msg_order, 1ull << n);
	}
	for (n = 32; n < 36; n++)
		TRY(tx_attr->msg_order, 1ull << n);
	TRY(tx_attr->comp_order, FI_ORDER_STRICT);
	TRY(tx_attr->comp_order, FI_ORDER_DATA);
	TRY(rx_attr->comp_order, FI_ORDER_STRICT);
	TRY(rx_attr->comp_order, FI_ORDER_DATA);
	TRY(rx_attr->total_buffered_recv, 1 << 20);
	TRY(tx_attr->tclass, FI_TC_LOW_LATENCY);
}

static void addresses(void)
{
	static const struct { const char *node, *service; uint64_t flags; } queries[] = {
		{ NULL, NULL, 0 }, { NULL, NULL, FI_SOURCE }, { "127.0.0.1", NULL, FI_SOURCE }, { NULL, "5000", FI_SOURCE },
		{ NULL, "http", FI_SOURCE }, { NULL, "no such service", FI_SOURCE }, { "localhost", "1", 0 },
		{ "127.0.0.1", "1", FI_NUMERICHOST }, { "127.0.0.1", "no such service", 0 }, { "", "", 0 },
		{ NULL, NULL, FI_PROV_ATTR_ONLY }, { NULL, NULL, 1ull << 59 },
	};
	struct fi_info *info;
	size_t i;

	for (i = 0; i < sizeof(queries) / sizeof(*queries); i++) {
		begin();
		printf("query %zu: %d\n", i, fi_getinfo(FI_VERSION(1, 17), queries[i].node, queries[i].service,
		       queries[i].flags, hints, &info));
		fi_freeinfo(info);
		fi_freeinfo(hints);
	}
	begin();
	ask("version", 9, FI_VERSION(9, 0));
	begin();
	free(hints->fabric_attr->prov_name);
	hints->fabric_attr->prov_name = strdup("none");
	ask("provider", 0, FI_VERSION(1, 17));
}

int main(void)
{
	modes_of_registration();
	capabilities();
	domain();
	endpoint();
	addresses();
	return 0;
}
