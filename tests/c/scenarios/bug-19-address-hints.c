// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * BUG-19 Address hints mean what they say.
 *
 * (a) addr_format is respected by every entry; (b) node+service with
 * FI_SOURCE is src_addr; (c) without it dest_addr; (d) a dest_addr hint comes
 * back unchanged; (e) a src_addr hint with a port is what the server sees;
 * (f) the scope id of a link-local source survives.
 */
#include "../common.h"
#include <ifaddrs.h>
#include <net/if.h>

static uint16_t free_port(void)
{
	uint16_t port;
	close(raw_listen(&port));
	return port;
}

int main(void)
{
	struct opts o = OPTS_DEFAULT;
	struct fi_info *h, *info, *i;
	struct sockaddr_in *sin;
	struct srv s;
	struct ep c, p;
	struct cm_event ev;

	t_begin("BUG-19", 50);

	t_step("(a) addr_format");
	for (int v6 = 0; v6 < 2; v6++) {
		h = hints_new(&o);
		h->addr_format = v6 ? FI_SOCKADDR_IN6 : FI_SOCKADDR_IN;
		int rc = fi_getinfo(T_API, NULL, NULL, 0, h, &info);
		if (rc == -FI_ENODATA && v6) {
			t_note("(a) no IPv6 entries on this host");
		} else {
			REQUIRE(!rc, "(a) fi_getinfo: %d (%s)", rc, t_err(rc));
			for (i = info; i; i = i->next) {
				EXPECT(i->addr_format == h->addr_format, "(a) asked for format %u, got an entry with %u",
				       h->addr_format, i->addr_format);
				if (i->src_addr)
					EXPECT(((struct sockaddr *)i->src_addr)->sa_family == (v6 ? AF_INET6 : AF_INET),
					       "(a) src_addr of the wrong family");
			}
			fi_freeinfo(info);
		}
		fi_freeinfo(h);
	}

	t_step("(b) FI_SOURCE");
	h = hints_new(&o);
	info = info_get("127.0.0.1", "23456", FI_SOURCE, h);
	for (i = info; i; i = i->next) {
		sin = i->src_addr;
		EXPECT(sin && i->src_addrlen >= sizeof(*sin), "(b) no src_addr");
		if (sin)
			EXPECT(sin->sin_addr.s_addr == htonl(INADDR_LOOPBACK) && sin->sin_port == htons(23456),
			       "(b) src_addr is not the node and service given");
		EXPECT(!i->dest_addr, "(b) dest_addr set although FI_SOURCE was given");
	}
	fi_freeinfo(info);

	t_step("(c) no FI_SOURCE");
	info = info_get("127.0.0.1", "23456", 0, h);
	for (i = info; i; i = i->next) {
		sin = i->dest_addr;
		EXPECT(sin && i->dest_addrlen >= sizeof(*sin), "(c) no dest_addr");
		if (sin)
			EXPECT(sin->sin_addr.s_addr == htonl(INADDR_LOOPBACK) && sin->sin_port == htons(23456),
			       "(c) dest_addr is not the node and service given");
	}
	fi_freeinfo(info);

	t_step("(d) dest_addr hint");
	h->dest_addr = calloc(1, sizeof(*sin));
	h->dest_addrlen = sizeof(*sin);
	sin = h->dest_addr;
	sin->sin_family = AF_INET;
	sin->sin_port = htons(34567);
	sin->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	info = info_get(NULL, NULL, 0, h);
	for (i = info; i; i = i->next) {
		EXPECT(i->dest_addr && i->dest_addrlen == sizeof(*sin), "(d) dest_addr hint lost");
		if (i->dest_addr && i->dest_addrlen == sizeof(*sin)) {
			struct sockaddr_in *d = i->dest_addr;
			EXPECT(i->dest_addr != h->dest_addr, "(d) dest_addr shares the hint's memory");
			EXPECT(d->sin_family == AF_INET && d->sin_port == sin->sin_port &&
			       d->sin_addr.s_addr == sin->sin_addr.s_addr, "(d) dest_addr differs from the hint");
		}
	}
	fi_freeinfo(info);
	fi_freeinfo(h);

	t_step("(e) src_addr hint with port");
	srv_open(&s, &o);
	uint16_t port = free_port();
	h = hints_new(&o);
	h->src_addr = calloc(1, sizeof(*sin));
	h->src_addrlen = sizeof(*sin);
	sin = h->src_addr;
	sin->sin_family = AF_INET;
	sin->sin_port = htons(port);
	sin->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	info = info_get(s.node, s.service, 0, h);
	EXPECT(info->src_addr && ((struct sockaddr_in *)info->src_addr)->sin_port == htons(port),
	       "(e) the returned info has not the source port of the hint");
	fi_freeinfo(h);
	ep_make(&c, info, &o, NULL, NULL, NULL);
	OK(cli_connect(&c, NULL, 0));
	srv_take(&s, &ev, 5000);
	EXPECT(ev.e.info->dest_addr, "(e) CONNREQ info without dest_addr");
	if (ev.e.info->dest_addr) {
		uint16_t seen = ntohs(((struct sockaddr_in *)ev.e.info->dest_addr)->sin_port);
		EXPECT(seen == port, "(e) the client's source port hint is ignored: the CONNREQ shows another port");
	}
	srv_accept(&s, &ev, &p, &o, NULL, 0);
	eq_need(s.eq, FI_CONNECTED, &ev, 5000);
	eq_need(c.eq, FI_CONNECTED, &ev, 5000);
	xfer(&c, &p, 64, 1);
	ep_close(&c);
	ep_close(&p);
	srv_close(&s);

	t_step("(f) link-local scope");
	struct ifaddrs *ifa, *a;
	bool ran = false;
	REQUIRE(!getifaddrs(&ifa), "getifaddrs");
	for (a = ifa; a && !ran; a = a->ifa_next) {
		struct sockaddr_in6 *s6 = (void *)a->ifa_addr;
		char node[INET6_ADDRSTRLEN + IF_NAMESIZE + 2];
		if (!s6 || s6->sin6_family != AF_INET6 || !IN6_IS_ADDR_LINKLOCAL(&s6->sin6_addr))
			continue;
		inet_ntop(AF_INET6, &s6->sin6_addr, node, INET6_ADDRSTRLEN);
		strcat(strcat(node, "%"), a->ifa_name);
		h = hints_new(&o);
		h->addr_format = FI_SOCKADDR_IN6;
		if (!fi_getinfo(T_API, node, "23456", FI_SOURCE, h, &info)) {
			ran = true;
			for (i = info; i; i = i->next)
				EXPECT(i->src_addr && ((struct sockaddr_in6 *)i->src_addr)->sin6_scope_id == if_nametoindex(a->ifa_name),
				       "(f) scope id lost");
			fi_freeinfo(info);
		}
		fi_freeinfo(h);
	}
	freeifaddrs(ifa);
	if (!ran)
		t_note("(f) no usable link-local address on this host, part not run");
	t_end("formats, source, destination, hints and source port respected");
}
