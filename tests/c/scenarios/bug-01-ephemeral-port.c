// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * BUG-01 Ephemeral port is real and printable.
 *
 * A listener opened without a service must have a real port after fi_listen,
 * fi_getname must report it with the right family, and a client must be able
 * to connect to what was reported.  A short buffer gives -FI_ETOOSMALL, the
 * needed size, and no byte past the given length is touched.
 */
#include "../common.h"

static void one(const char *node, uint32_t format, int family, const char *connect_to)
{
	struct opts o = OPTS_DEFAULT;
	struct srv s;
	struct ep c, p;
	unsigned char buf[64];
	size_t len = 4;
	int rc;

	t_step("listener on %s", node);
	o.addr_format = format;
	srv_open_at(&s, &o, node, NULL);
	EXPECT(s.port != 0, "%s: port 0 reported after fi_listen", node);
	EXPECT(s.addr.ss_family == family, "%s: family %d reported, wanted %d",
	       node, s.addr.ss_family, family);
	EXPECT(s.addrlen == (family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in)),
	       "%s: addrlen %zu", node, s.addrlen);

	canary_fill(buf, sizeof(buf));
	rc = fi_getname(&s.pep->fid, buf, &len);
	EXPECT(rc == -FI_ETOOSMALL, "%s: fi_getname with 4 bytes returned %d (%s), not -FI_ETOOSMALL",
	       node, rc, t_err(rc));
	EXPECT(len == s.addrlen, "%s: short fi_getname set addrlen to %zu, needed is %zu",
	       node, len, s.addrlen);
	/* canary bytes 4.. must be untouched: compare with a fresh pattern */
	unsigned char fresh[64];
	canary_fill(fresh, sizeof(fresh));
	EXPECT(!memcmp(buf + 4, fresh + 4, sizeof(buf) - 4),
	       "%s: fi_getname wrote past the 4 bytes it was given", node);

	snprintf(s.node, sizeof(s.node), "%s", connect_to);
	t_step("client to %s port %s", connect_to, s.service);
	pair_join(&s, &c, &p, &o);
	xfer(&c, &p, 100, 1);
	ep_close(&c);
	ep_close(&p);
	srv_close(&s);
}

static bool have_ipv6_loopback(void)
{
	struct sockaddr_in6 a = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	int fd = socket(AF_INET6, SOCK_STREAM, 0);
	bool ok = fd >= 0 && !bind(fd, (struct sockaddr *)&a, sizeof(a));
	if (fd >= 0)
		close(fd);
	return ok;
}

int main(void)
{
	t_begin("BUG-01", 50);
	one("127.0.0.1", FI_SOCKADDR_IN, AF_INET, "127.0.0.1");
	one("0.0.0.0", FI_SOCKADDR_IN, AF_INET, "127.0.0.1");
	if (have_ipv6_loopback())
		one("::1", FI_SOCKADDR_IN6, AF_INET6, "::1");
	else
		t_note("no ::1 on this host, IPv6 part not run");
	t_end("real ports, right families, short buffer handled, client connects");
}
