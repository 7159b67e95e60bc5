// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * fi_ep_alias, fi_endpoint(3): the same endpoint with other default flags; its
 * operations complete in the same queues; the alias is closed before the endpoint.
 */
#include "../common.h"

static void hints(struct fi_info *h) { h->tx_attr->op_flags = 0; }

int main(void)
{
	struct opts o = OPTS_DEFAULT;
	struct pair p;
	struct fid_ep *alias = NULL;
	struct fi_cq_data_entry c;
	struct fi_cq_err_entry err;
	char in[32], out[32] = "alias";

	t_begin("alias", 20);
	o.selective = true;
	o.hints = hints;
	pair_open(&p, &o);
	int rc = fi_ep_alias(p.c.ep, &alias, FI_TRANSMIT | FI_COMPLETION);
	if (rc == -FI_ENOSYS && t_stock())
		t_na("stock tcp has no fi_ep_alias");
	REQUIRE(!rc, "fi_ep_alias: %d (%s)", rc, t_err(rc));
	EXPECT(alias && alias != p.c.ep && alias->fid.fclass == FI_CLASS_EP, "no endpoint of its own");
	OK(fi_recv(p.p.ep, in, sizeof(in), NULL, 0, in));
	OK(fi_send(alias, out, sizeof(out), NULL, 0, out));
	REQUIRE(cq_next(p.p.cq, &c, &err, 5000) == 1, "the alias' message did not arrive");
	EXPECT(!memcmp(in, out, sizeof(in)), "bytes differ");
	REQUIRE(cq_next(p.c.cq, &c, &err, 5000) == 1 && c.op_context == out, "the alias' flags do not count");
	OK(fi_close(&alias->fid));
	/* the endpoint itself is selective still */
	OK(fi_recv(p.p.ep, in, sizeof(in), NULL, 0, in));
	OK(fi_send(p.c.ep, out, sizeof(out), NULL, 0, out));
	REQUIRE(cq_next(p.p.cq, &c, &err, 5000) == 1, "the endpoint does not send without its alias");
	EXPECT(fi_cq_read(p.c.cq, &c, 1) == -FI_EAGAIN, "the endpoint's sends complete like the alias'");
	pair_close(&p);
	t_end("an alias is its endpoint, with flags of its own");
}
