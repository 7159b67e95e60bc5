/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The library's own functions, with all that they print: run on stock libfabric and on kofi, the output is the same.
 * Built with headers of 1.17; needs FI_LOG_LEVEL=debug. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

static void texts(void)
{
	static const struct { enum fi_type type; int last; } numbers[] = {
		{ FI_TYPE_EP_TYPE, 3 }, { FI_TYPE_ADDR_FORMAT, 15 }, { FI_TYPE_THREADING, 5 }, { FI_TYPE_PROGRESS, 2 },
		{ FI_TYPE_PROTOCOL, 6 }, { FI_TYPE_AV_TYPE, 3 }, { FI_TYPE_ATOMIC_TYPE, 13 }, { FI_TYPE_ATOMIC_OP, 18 },
		{ FI_TYPE_EQ_EVENT, 7 }, { FI_TYPE_COLLECTIVE_OP, 9 }, { FI_TYPE_HMEM_IFACE, 5 },
		{ FI_TYPE_OP_TYPE, 11 }, { FI_TYPE_CQ_FORMAT, 5 }, { FI_TYPE_LOG_LEVEL, 4 }, { FI_TYPE_LOG_SUBSYS, 10 },
	};
	static const struct { enum fi_type type; uint64_t bits; } flags[] = {
		{ FI_TYPE_CAPS, FI_MSG | FI_RMA | FI_SEND | FI_RECV | FI_MULTI_RECV | FI_SOURCE | FI_HMEM },
		{ FI_TYPE_CAPS, 0 },
		{ FI_TYPE_OP_FLAGS, FI_COMPLETION | FI_INJECT | FI_MORE | FI_SEND },
		{ FI_TYPE_MSG_ORDER, FI_ORDER_SAS | FI_ORDER_RAW | FI_ORDER_RMA_WAW },
		{ FI_TYPE_MODE, FI_CONTEXT | FI_LOCAL_MR | FI_MSG_PREFIX },
		{ FI_TYPE_CQ_EVENT_FLAGS, FI_RECV | FI_MSG | FI_REMOTE_CQ_DATA | FI_MULTI_RECV },
		{ FI_TYPE_MR_MODE, FI_MR_LOCAL | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR },
		{ FI_TYPE_MR_MODE, FI_MR_BASIC },
	};
	struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons(5000) };
	struct fi_info *info = fi_allocinfo();
	char small[8];
	size_t i;
	int n;

	for (i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		for (n = 0; n <= numbers[i].last; n++)
			printf("%d %d %s\n", numbers[i].type, n, fi_tostr(&n, numbers[i].type));
	for (i = 0; i < sizeof(flags) / sizeof(*flags); i++)
		printf("%d %llx %s\n", flags[i].type, (unsigned long long) flags[i].bits,
		       fi_tostr(&flags[i].bits, flags[i].type));
	n = 1;
	printf("%s\n", fi_tostr(&n, 9999));
	printf("%d\n", fi_tostr(NULL, FI_TYPE_INFO) == NULL);
	/* As much as fits; stock leaves a byte more than it has to. */
	fi_tostr_r(small, sizeof(small), &n, FI_TYPE_EP_TYPE);
	printf("%d %d\n", !strncmp(small, "FI_EP_MSG", strlen(small)), fi_tostr_r(small, 0, &n, FI_TYPE_EP_TYPE) == NULL);

	inet_pton(AF_INET, "192.0.2.1", &addr.sin_addr);
	info->caps = FI_MSG;
	info->addr_format = FI_SOCKADDR_IN;
	info->src_addr = malloc(sizeof(addr));
	memcpy(info->src_addr, &addr, sizeof(addr));
	info->src_addrlen = sizeof(addr);
	info->tx_attr->op_flags = FI_COMPLETION;
	info->tx_attr->comp_order = FI_ORDER_STRICT;
	info->tx_attr->tclass = FI_TC_LOW_LATENCY;
	info->rx_attr->comp_order = FI_ORDER_DATA;
	info->ep_attr->type = FI_EP_MSG;
	info->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
	info->ep_attr->mem_tag_format = 0xaaaa;
	info->domain_attr->name = strdup("lo");
	info->domain_attr->mr_mode = FI_MR_LOCAL;
	info->fabric_attr->prov_version = FI_VERSION(117, 3);
	printf("%s", fi_tostr(info, FI_TYPE_INFO));
	printf("%s", fi_tostr(info->tx_attr, FI_TYPE_TX_ATTR));
	printf("%s", fi_tostr(info->fabric_attr, FI_TYPE_FABRIC_ATTR));
	free(info->tx_attr);
	info->tx_attr = NULL;
	printf("%s", fi_tostr(info, FI_TYPE_INFO));
	fi_freeinfo(info);
	for (n = -300; n <= 300; n++)
		if (abs(n) < FI_ENORX + 1)
			printf("%d %s\n", n, fi_strerror(n));
}

static struct fi_provider provider = { .name = "own", .fi_version = FI_VERSION(1, 17) };

static void variables(void)
{
	struct fi_param *params;
	char *text = NULL;
	size_t size = 0;
	int n = 7, count, i, own = 0;

	/* Stock forgets what was defined before it started up. */
	fi_getparams(&params, &count);
	fi_freeparams(params);
	printf("define %d\n", fi_param_define(&provider, "text", FI_PARAM_STRING, "plain"));
	printf("define %d\n", fi_param_define(&provider, "number", FI_PARAM_INT, "%s %d %ld %c %.2f %d %s %.1f %d",
		"one", 2, 3L, '4', 5.25, 6, "seven", 8.5, -9));
	printf("define %d\n", fi_param_define(&provider, "size", FI_PARAM_SIZE_T, "%.0f %.0f %.0f %.0f %.0f %.0f %.0f "
		"%.0f %.0f %.0f", 1., 2., 3., 4., 5., 6., 7., 8., 9., 10.));
	printf("define %d\n", fi_param_define(&provider, "truth", FI_PARAM_BOOL, "yes or no"));
	printf("define %d\n", fi_param_define(NULL, "nobody", FI_PARAM_INT, "of nobody"));
	printf("define %d %d\n", fi_param_define(&provider, NULL, FI_PARAM_INT, "x"),
	       fi_param_define(&provider, "empty", FI_PARAM_INT, ""));
	printf("get %d\n", fi_param_get_str(&provider, "text", &text));
	setenv("FI_OWN_TEXT", "some words", 1);
	setenv("FI_OWN_NUMBER", "0x10", 1);
	setenv("FI_OWN_SIZE", "123456789012", 1);
	setenv("FI_NOBODY", "-3", 1);
	printf("get %d %s\n", fi_param_get_str(&provider, "text", &text), text);
	printf("get %d %d\n", fi_param_get_int(&provider, "number", &n), n);
	printf("get %d %zu\n", fi_param_get_size_t(&provider, "size", &size), size);
	printf("get %d %d\n", fi_param_get_int(NULL, "nobody", &n), n);
	setenv("FI_OWN_TRUTH", "On", 1);
	printf("get %d %d\n", fi_param_get_bool(&provider, "truth", &n), n);
	setenv("FI_OWN_TRUTH", "no", 1);
	printf("get %d %d\n", fi_param_get_bool(&provider, "truth", &n), n);
	setenv("FI_OWN_TRUTH", "perhaps", 1);
	printf("get %d %d\n", fi_param_get_bool(&provider, "truth", &n), n);
	printf("get %d\n", fi_param_get_int(&provider, "unknown", &n));
	printf("get %d\n", fi_param_get(&provider, "number", NULL));
	printf("list %d\n", fi_getparams(&params, &count));
	for (i = 0; i < count; i++) {
		if (strncmp(params[i].name, "FI_OWN_", 7) && strcmp(params[i].name, "FI_NOBODY"))
			continue;
		own++;
		printf("%s %d %s %s\n", params[i].name, params[i].type, params[i].help_string,
		       params[i].value ? params[i].value : "-");
	}
	printf("own %d, end %d\n", own, params[count].name == NULL);
	fi_freeparams(params);
}

static void logging(void)
{
	struct fid *fid = NULL;

	printf("enabled %d %d %d\n", fi_log_enabled(&provider, FI_LOG_WARN, FI_LOG_CORE),
	       fi_log_enabled(&provider, FI_LOG_DEBUG, FI_LOG_CORE), fi_log_enabled(&provider, FI_LOG_DEBUG, FI_LOG_MR));
	fi_log(&provider, FI_LOG_WARN, FI_LOG_EP_CTRL, "here", 42, "%s %d %.1f %s %.1f\n", "text", 1, 2.5, "more", 3.5);
	fi_log(&provider, FI_LOG_INFO, FI_LOG_CQ, "there", 43, "plain\n");
	printf("open %d\n", fi_open(FI_VERSION(1, 17), "nothing", NULL, 0, 0, &fid, NULL));
	printf("version %d\n", fi_version() >= FI_VERSION(1, 17));
}

/* Infos as old programs have them, of exactly the sizes that they had. */
static void old_layouts(void)
{
	static const char *const nodes[] = { "FABRIC_1.0", "FABRIC_1.1", "FABRIC_1.2", "FABRIC_1.3" };
	static const size_t sizes[][4] = { { 112, 120, 80, 72 }, { 112, 184, 96, 72 }, { 120, 184, 96, 72 }, { 120, 192, 96, 80 } };
	struct fi_info *info, *copy, *list;
	size_t i;

	for (i = 0; i < sizeof(nodes) / sizeof(*nodes); i++) {
		struct fi_info *(*dup)(const struct fi_info *) = dlvsym(RTLD_DEFAULT, "fi_dupinfo", nodes[i]);
		void (*release)(struct fi_info *) = dlvsym(RTLD_DEFAULT, "fi_freeinfo", nodes[i]);
		int (*getinfo)(uint32_t, const char *, const char *, uint64_t, const struct fi_info *, struct fi_info **) =
			dlvsym(RTLD_DEFAULT, "fi_getinfo", nodes[i]);

		if (!dup || !release || !getinfo) {
			printf("%s is not there\n", nodes[i]);
			continue;
		}
		info = calloc(1, sizes[i][0]);
		info->caps = FI_MSG;
		info->domain_attr = calloc(1, sizes[i][1]);
		info->domain_attr->name = strdup("lo");
		info->ep_attr = calloc(1, sizes[i][2]);
		info->ep_attr->type = FI_EP_MSG;
		info->tx_attr = calloc(1, sizes[i][3]);
		copy = dup(info);
		printf("%s %d %s %d\n", nodes[i], copy->ep_attr->type, copy->domain_attr->name, copy->nic == NULL);
		release(copy);
		info->fabric_attr = calloc(1, 32);
		info->fabric_attr->prov_name = strdup("tcp");
		printf("getinfo %d\n", getinfo(FI_VERSION(1, 4), NULL, NULL, 0, info, &list));
		for (copy = list; copy && strcmp(copy->domain_attr->name, "lo"); copy = copy->next)
			;
		printf("lo %d\n", copy && copy->domain_attr->mr_mode == FI_MR_BASIC);
		release(list);
		copy = dup(NULL);
		printf("empty %d\n", copy && copy->tx_attr && copy->rx_attr && copy->ep_attr && copy->domain_attr &&
		       copy->fabric_attr);
		release(copy);
		free(info->fabric_attr->prov_name);
		free(info->fabric_attr);
		free(info->domain_attr->name);
		free(info->domain_attr);
		free(info->ep_attr);
		free(info->tx_attr);
		free(info);
	}
}

int main(void)
{
	texts();
	variables();
	logging();
	old_layouts();
	return 0;
}
