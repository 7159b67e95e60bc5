// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * fi_getinfo(3): every info that is listed can be opened as it is; hints bound
 * what is offered; fi_dupinfo copies deeply; -FI_ENODATA leaves nothing behind,
 * API versions that are too new are -FI_ENOSYS; fi_tostr and fi_strerror have a
 * text for everything.
 */
#include "../common.h"

static void open_all(void)
{
	struct fi_info *h = hints_new(&OPTS_DEFAULT), *list, *i;
	struct fi_eq_attr eqa = { .wait_obj = FI_WAIT_UNSPEC };
	struct fi_cq_attr cqa = { .format = FI_CQ_FORMAT_DATA };
	unsigned n = 0;

	h->addr_format = FI_FORMAT_UNSPEC;
	OK(fi_getinfo(T_API, NULL, NULL, 0, h, &list));
	fi_freeinfo(h);
	for (i = list; i; i = i->next, n++) {
		struct fid_fabric *fabric;
		struct fid_domain *domain;
		struct fid_eq *eq;
		struct fid_cq *cq;
		struct fid_ep *ep;

		t_step("info %u", n);
		EXPECT(i->fabric_attr->api_version == T_API, "info %u: API version 0x%x", n, i->fabric_attr->api_version);
		EXPECT(i->caps & FI_MSG && i->ep_attr->type == FI_EP_MSG && i->fabric_attr->name && i->domain_attr->name, "info %u lacks something", n);
		OK(fi_fabric(i->fabric_attr, &fabric, NULL));
		OK(fi_eq_open(fabric, &eqa, &eq, NULL));
		OK(fi_domain(fabric, i, &domain, NULL));
		OK(fi_cq_open(domain, &cqa, &cq, NULL));
		OK(fi_endpoint(domain, i, &ep, NULL));
		OK(fi_ep_bind(ep, &eq->fid, 0));
		OK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
		OK(fi_enable(ep));
		OK(fi_close(&ep->fid));
		OK(fi_close(&cq->fid));
		OK(fi_close(&domain->fid));
		OK(fi_close(&eq->fid));
		OK(fi_close(&fabric->fid));
	}
	EXPECT(n, "no info");
	fi_freeinfo(list);
}

static void copies(void)
{
	struct fi_info *h = hints_new(&OPTS_DEFAULT), *info = info_get("127.0.0.1", "4711", 0, h), *copy = fi_dupinfo(info);

	t_step("fi_dupinfo");
	fi_freeinfo(h);
	REQUIRE(copy && !copy->next, "a copy has no successor");
	EXPECT(copy->dest_addr != info->dest_addr && !memcmp(copy->dest_addr, info->dest_addr, info->dest_addrlen), "dest_addr");
	EXPECT(copy->fabric_attr->prov_name != info->fabric_attr->prov_name && !strcmp(copy->fabric_attr->prov_name, info->fabric_attr->prov_name), "prov_name");
	EXPECT(copy->domain_attr->name != info->domain_attr->name && !strcmp(copy->domain_attr->name, info->domain_attr->name), "domain name");
	fi_freeinfo(info);
	/* a copy is enough to go on with */
	info = info_get("127.0.0.1", "4711", 0, copy);
	fi_freeinfo(copy);
	fi_freeinfo(info);
	fi_freeinfo(NULL);
}

static void refuse(const char *rule, const char *what, struct fi_info *h)
{
	struct fi_info *info = NULL;
	int rc = fi_getinfo(T_API, "127.0.0.1", "4711", 0, h, &info);

	RULE(rule, rc == -FI_ENODATA, "%s: %d (%s)", what, rc, rc ? t_err(rc) : "offered");
	EXPECT(rc == 0 || !info, "%s: a list in spite of the error", what);
	if (!rc)
		fi_freeinfo(info);
	fi_freeinfo(h);
}

static void hints_bound(void)
{
	struct fi_info *h, *info;

	t_step("hints");
	h = hints_new(&OPTS_DEFAULT);
	h->tx_attr->iov_limit = 1000;
	refuse("fi_getinfo(3): hints bound what is offered", "iov_limit 1000", h);
	h = hints_new(&OPTS_DEFAULT);
	h->caps = FI_MSG | FI_MULTICAST;
	refuse("fi_getinfo(3): hints bound what is offered", "FI_MULTICAST", h);
	h = hints_new(&OPTS_DEFAULT);
	h->ep_attr->protocol = FI_PROTO_RDMA_CM_IB_RC;
	refuse("fi_getinfo(3): hints bound what is offered", "another protocol", h);
	h = hints_new(&OPTS_DEFAULT);
	free(h->fabric_attr->prov_name);
	h->fabric_attr->prov_name = strdup("no-such-provider");
	refuse("fi_getinfo(3): hints bound what is offered", "an unknown provider", h);
	h = hints_new(&OPTS_DEFAULT);
	h->domain_attr->name = strdup("no-such-domain");
	refuse("fi_getinfo(3): hints bound what is offered", "an unknown domain", h);
	h = hints_new(&OPTS_DEFAULT);
	int rc = fi_getinfo(FI_VERSION(9, 0), NULL, NULL, 0, h, &info);
	EXPECT(rc == -FI_ENOSYS, "API version 9.0: %d", rc);
	h->caps = FI_MSG | FI_SEND;
	info = info_get("127.0.0.1", "4711", 0, h);
	EXPECT(!(info->caps & FI_RMA), "FI_RMA is offered to who asked for FI_MSG: 0x%jx", (uintmax_t)info->caps);
	EXPECT(info->caps & FI_SEND && !(info->caps & FI_RECV), "FI_RECV is offered to who asked for FI_SEND: 0x%jx", (uintmax_t)info->caps);
	fi_freeinfo(info);
	fi_freeinfo(h);
}

static void texts(void)
{
	struct fi_info *h = hints_new(&OPTS_DEFAULT), *info = info_get("127.0.0.1", "4711", 0, h);
	char small[64];
	uint64_t caps = FI_MSG | FI_RMA;
	uint32_t format = FI_SOCKADDR_IN;

	t_step("texts");
	fi_freeinfo(h);
	const char *t = fi_tostr(info, FI_TYPE_INFO);
	EXPECT(t && strstr(t, "fi_info:") && strstr(t, "FI_EP_MSG") && strstr(t, "127.0.0.1:4711") && strstr(t, "prov_name"), "fi_tostr of an info");
	EXPECT(!strcmp(fi_tostr(&caps, FI_TYPE_CAPS), "FI_MSG, FI_RMA"), "fi_tostr of capabilities: %s", fi_tostr(&caps, FI_TYPE_CAPS));
	EXPECT(!strcmp(fi_tostr(&format, FI_TYPE_ADDR_FORMAT), "FI_SOCKADDR_IN"), "fi_tostr of an address format: %s", fi_tostr(&format, FI_TYPE_ADDR_FORMAT));
	EXPECT(fi_tostr_r(small, sizeof(small), info, FI_TYPE_INFO) == small && strnlen(small, 64) < 64, "fi_tostr_r without room");
	EXPECT(!strcmp(fi_strerror(FI_ENOEQ), "Missing or unavailable event queue"), "fi_strerror(FI_ENOEQ): %s", fi_strerror(FI_ENOEQ));
	EXPECT(!strcmp(fi_strerror(ENOENT), strerror(ENOENT)), "fi_strerror(ENOENT): %s", fi_strerror(ENOENT));
	for (int e = 0; e < 300; e++)
		EXPECT(fi_strerror(e) && *fi_strerror(e), "fi_strerror(%d)", e);
	if (!t_stock()) {
		/* of a request that was accepted, nothing is left that a handle could lead to */
		info->handle = (struct fid *)(uintptr_t)16;
		EXPECT(strstr(fi_tostr(info, FI_TYPE_INFO), "handle: 0x10\n"), "fi_tostr of a handle that is used up");
		info->handle = NULL;
	}
	fi_freeinfo(info);

	t_step("FI_PROV_ATTR_ONLY");
	OK(fi_getinfo(T_API, NULL, NULL, FI_PROV_ATTR_ONLY, NULL, &info));
	for (struct fi_info *i = info; i; i = i->next)
		EXPECT(i->fabric_attr->prov_name && !i->fabric_attr->name && !(i->domain_attr && i->domain_attr->name), "names of %s", i->fabric_attr->prov_name);
	fi_freeinfo(info);
}

int main(void)
{
	t_begin("infos", 30);
	open_all();
	copies();
	hints_bound();
	texts();
	t_end("what is listed works, hints bound it, texts are there");
}
