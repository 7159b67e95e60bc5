// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Addresses, fi_cm(3): fi_getname and fi_getpeer of both sides name each other; the
 * request's dest_addr is the client; a client's own address and port are used; over
 * IPv4 and, where there is one, IPv6 loopback.
 */
#include "../common.h"

static bool same(const void *a, size_t alen, const void *b, size_t blen)
{
	const struct sockaddr_in *v4 = a, *w4 = b;
	const struct sockaddr_in6 *v6 = a, *w6 = b;

	if (alen != blen || v4->sin_family != w4->sin_family || v4->sin_port != w4->sin_port)
		return false;
	return v4->sin_family == AF_INET6 ? !memcmp(&v6->sin6_addr, &w6->sin6_addr, 16) : v4->sin_addr.s_addr == w4->sin_addr.s_addr;
}

struct name { struct sockaddr_storage a; size_t len; };

static void scene(const char *node, uint32_t format)
{
	struct opts o = OPTS_DEFAULT;
	struct srv s;
	struct ep c, p;
	struct cm_event ev;
	struct name cn, cp, pn, pp, request;

	t_step("%s", node);
	o.addr_format = format;
	srv_open_at(&s, &o, node, NULL);
	cli_make(&c, &s, &o);
	OK(cli_connect(&c, NULL, 0));
	srv_take(&s, &ev, 5000);
	REQUIRE(ev.e.info->dest_addr, "%s: the request does not tell who asks", node);
	request.len = ev.e.info->dest_addrlen;
	memcpy(&request.a, ev.e.info->dest_addr, request.len);
	srv_accept(&s, &ev, &p, &o, NULL, 0);
	eq_need(s.eq, FI_CONNECTED, &ev, 5000);
	eq_need(c.eq, FI_CONNECTED, &ev, 5000);
	cn.len = cp.len = pn.len = pp.len = sizeof(cn.a);
	OK(fi_getname(&c.ep->fid, &cn.a, &cn.len));
	OK(fi_getpeer(c.ep, &cp.a, &cp.len));
	OK(fi_getname(&p.ep->fid, &pn.a, &pn.len));
	OK(fi_getpeer(p.ep, &pp.a, &pp.len));
	EXPECT(same(&cn.a, cn.len, &pp.a, pp.len), "%s: the server's peer is not the client", node);
	EXPECT(same(&cp.a, cp.len, &pn.a, pn.len), "%s: the client's peer is not the server", node);
	EXPECT(same(&cp.a, cp.len, &s.addr, s.addrlen), "%s: the client's peer is not who listens", node);
	EXPECT(same(&request.a, request.len, &cn.a, cn.len), "%s: the request's dest_addr is not the client", node);
	/* too little room: what fits, and the length that is needed */
	struct name little = { .len = 4 };
	int rc = fi_getpeer(c.ep, &little.a, &little.len);
	EXPECT(rc == -FI_ETOOSMALL && little.len == cp.len, "%s: fi_getpeer with 4 bytes: %d, length %zu", node, rc, little.len);
	xfer(&c, &p, 100, 1);
	ep_close(&c);
	ep_close(&p);
	srv_close(&s);
}

/* hints->src_addr: the client's own address and port. */
static void source(void)
{
	struct opts o = OPTS_DEFAULT;
	struct srv s;
	struct ep c, p;
	struct cm_event ev;
	uint16_t port;
	struct name n = { .len = sizeof(n.a) };

	t_step("source address");
	close(raw_listen(&port));
	srv_open(&s, &o);
	struct fi_info *h = hints_new(&o);
	struct sockaddr_in *from = calloc(1, sizeof(*from));
	*from = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	h->src_addr = from;
	h->src_addrlen = sizeof(*from);
	struct fi_info *info = info_get(s.node, s.service, 0, h);
	fi_freeinfo(h);
	ep_make(&c, info, &o, NULL, NULL, NULL);
	OK(cli_connect(&c, NULL, 0));
	srv_take(&s, &ev, 5000);
	srv_accept(&s, &ev, &p, &o, NULL, 0);
	eq_need(s.eq, FI_CONNECTED, &ev, 5000);
	eq_need(c.eq, FI_CONNECTED, &ev, 5000);
	OK(fi_getpeer(p.ep, &n.a, &n.len));
	EXPECT(((struct sockaddr_in *)&n.a)->sin_port == htons(port), "the client comes from port %u, not %u", ntohs(((struct sockaddr_in *)&n.a)->sin_port), port);
	ep_close(&c);
	ep_close(&p);
	srv_close(&s);
}

int main(void)
{
	t_begin("addresses", 30);
	scene("127.0.0.1", FI_SOCKADDR_IN);
	int fd = socket(AF_INET6, SOCK_STREAM, 0);
	struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	if (fd >= 0 && !bind(fd, (struct sockaddr *)&six, sizeof(six)))
		scene("::1", FI_SOCKADDR_IN6);
	else
		t_note("this host has no ::1");
	close(fd);
	source();
	t_end("both sides know who they are and whom they talk to");
}
