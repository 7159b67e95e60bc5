// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * BUG-32 Close order is checked, not fatal.
 *
 * With a live connection, closing a parent first returns -FI_EBUSY and changes
 * nothing: traffic flows, a further connection works, and the right order
 * then returns 0 at each step.  Each early close runs in its own child.
 */
#include "../common.h"

enum victim { C_DOMAIN, C_FABRIC, C_EQ, C_CQ, C_MR_DOMAIN, S_EQ, S_FABRIC, RDM_AV, RDM_CQ, N_VICTIMS };
static const char *const name[N_VICTIMS] = { "domain with an endpoint", "fabric with a domain", "EQ bound to an endpoint",
	"CQ bound to an endpoint", "domain with a memory region", "EQ bound to a passive endpoint",
	"fabric with a passive endpoint", "AV bound to an RDM endpoint", "CQ bound to an RDM endpoint" };

static void busy(int rc)
{
	EXPECT(rc == -FI_EBUSY, "fi_close returned %d (%s), not -FI_EBUSY", rc, rc ? t_err(rc) : "closed");
	if (rc == 0)
		t_child_exit();       /* the object is gone, nothing more to check */
}

static void msg_case(enum victim v)
{
	struct opts o = OPTS_DEFAULT;
	struct pair p;
	struct ep c2, p2;
	struct fid_domain *dom = NULL;
	struct fid_mr *mr = NULL;
	static char mem[4096];

	pair_open(&p, &o);
	xfer(&p.c, &p.p, 500, 1);
	switch (v) {
	case C_DOMAIN: busy(fi_close(&p.c.domain->fid)); break;
	case C_FABRIC: busy(fi_close(&p.c.fabric->fid)); break;
	case C_EQ:     busy(fi_close(&p.c.eq->fid)); break;
	case C_CQ:     busy(fi_close(&p.c.cq->fid)); break;
	case S_EQ:     busy(fi_close(&p.s.eq->fid)); break;
	case S_FABRIC: busy(fi_close(&p.s.fabric->fid)); break;
	case C_MR_DOMAIN:
		OK(fi_domain(p.c.fabric, p.c.info, &dom, NULL));
		OK(fi_mr_reg(dom, mem, sizeof(mem), FI_SEND | FI_RECV, 0, 0, 0, &mr, NULL));
		busy(fi_close(&dom->fid));
		OK_SOFT(fi_close(&mr->fid));
		OK_SOFT(fi_close(&dom->fid));
		break;
	default: break;
	}
	/* nothing has changed */
	t_step("traffic after the refused close");
	xfer(&p.c, &p.p, 5000, 2);
	xfer(&p.p, &p.c, 5000, 3);
	t_step("a second connection");
	pair_join(&p.s, &c2, &p2, &o);
	xfer(&c2, &p2, 500, 4);
	ep_close(&c2);
	ep_close(&p2);
	/* events still work on this EQ */
	t_step("shutdown event");
	struct cm_event ev;
	OK(fi_shutdown(p.p.ep, 0));
	eq_need(p.c.eq, FI_SHUTDOWN, &ev, 3000);
	pair_close(&p);
}

static void rdm_case(enum victim v)
{
	struct opts o = OPTS_DEFAULT;
	struct fi_info *h = hints_new(&o), *info = NULL;
	struct fi_av_attr ava = { .type = FI_AV_TABLE };
	struct fi_cq_attr cqa = { .size = 64, .format = FI_CQ_FORMAT_TAGGED };
	struct fid_fabric *fab;
	struct fid_domain *dom;
	struct fid_av *av;
	struct fid_cq *cq;
	struct fid_ep *ep;

	h->ep_attr->type = FI_EP_RDM;
	h->addr_format = FI_FORMAT_UNSPEC;
	int rc = fi_getinfo(T_API, "127.0.0.1", NULL, FI_SOURCE, h, &info);
	fi_freeinfo(h);
	if (rc) {
		t_note("%s offers no FI_EP_RDM, case not run", t_prov());
		t_child_exit();
	}
	OK(fi_fabric(info->fabric_attr, &fab, NULL));
	OK(fi_domain(fab, info, &dom, NULL));
	OK(fi_av_open(dom, &ava, &av, NULL));
	OK(fi_cq_open(dom, &cqa, &cq, NULL));
	OK(fi_endpoint(dom, info, &ep, NULL));
	OK(fi_ep_bind(ep, &av->fid, 0));
	OK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
	OK(fi_enable(ep));
	busy(v == RDM_AV ? fi_close(&av->fid) : fi_close(&cq->fid));
	OK_SOFT(fi_close(&ep->fid));
	OK_SOFT(fi_close(&cq->fid));
	OK_SOFT(fi_close(&av->fid));
	OK_SOFT(fi_close(&dom->fid));
	OK_SOFT(fi_close(&fab->fid));
	fi_freeinfo(info);
}

static void one(void *arg)
{
	enum victim v = *(enum victim *)arg;

	t_step("early close");
	if (v >= RDM_AV)
		rdm_case(v);
	else
		msg_case(v);
}

int main(void)
{
	t_begin("BUG-32", 58);
	for (enum victim v = 0; v < N_VICTIMS; v++) {
		t_step("%s", name[v]);
		t_isolated(name[v], 8, one, &v);
	}
	t_end("each early close is refused with -FI_EBUSY and harmless");
}
