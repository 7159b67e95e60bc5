// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * BUG-20 "No match" is clean, quiet and exact.
 *
 * Each case runs in its own child, because environment variables are read
 * once.  The child's stdout and stderr go to a file that must stay empty.
 */
#include "../common.h"
#include <ifaddrs.h>
#include <net/if.h>

enum { NOMATCH = 10, MATCH = 11, POISON = 12, LOOPBACK = 13, OTHER = 14, TCP_SEEN = 15 };

static bool is_loopback(const void *a)
{
	const struct sockaddr *sa = a;
	if (!sa)
		return false;
	if (sa->sa_family == AF_INET)
		return (ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24) == 127;
	if (sa->sa_family == AF_INET6)
		return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr);
	return false;
}

typedef int (*body)(void *arg);

/* Run body in a child with output captured; *out gets the number of bytes
 * printed.  Returns the child's status. */
static int captured(body f, void *arg, long *out, char *first, size_t cap)
{
	char path[T_PATH];
	int fd = t_temp(path, "bug20");
	struct stat st;

	unlink(path);
	pid_t pid = t_fork(20);
	if (pid == 0) {
		dup2(fd, 1);
		dup2(fd, 2);
		_exit(f(arg));
	}
	int rc = t_wait(pid, 25000);
	fstat(fd, &st);
	*out = (long)st.st_size;
	ssize_t n = pread(fd, first, cap - 1, 0);
	first[n > 0 ? n : 0] = 0;
	close(fd);
	return rc;
}

/* arg: a hints structure made by the parent; result code as above */
static int ask(void *arg)
{
	struct fi_info *info = (struct fi_info *)(uintptr_t)0xdead0001, *i;
	int rc = fi_getinfo(T_API, NULL, NULL, 0, arg, &info), ret = MATCH;

	if (rc == -FI_ENODATA)
		return info == NULL ? NOMATCH : POISON;
	if (rc)
		return OTHER;
	for (i = info; i; i = i->next) {
		if (i->fabric_attr->prov_name && !strncmp(i->fabric_attr->prov_name, "tcp", 3))
			ret = TCP_SEEN;
	}
	for (i = info; i; i = i->next)
		if (is_loopback(i->src_addr))
			ret = LOOPBACK;
	fi_freeinfo(info);
	return ret;
}

static struct { const char *key, *val; struct fi_info *h; } env_case;
static int ask_env(void *arg)
{
	(void)arg;
	setenv(env_case.key, env_case.val, 1);
	return ask(env_case.h);
}

static void quiet(const char *what, long out, const char *text)
{
	if (out) {
		char line[100];
		snprintf(line, sizeof(line), "%.90s", text);
		for (char *c = line; *c; c++)
			if (*c == '\n')
				*c = '|';
		t_bad("%s: printed %ld bytes at the default log level: %s", what, out, line);
	}
}

int main(void)
{
	struct opts o = OPTS_DEFAULT;
	struct fi_info *h;
	char text[512];
	long out;
	int rc;

	t_begin("BUG-20", 55);

	t_step("(a) unknown provider");
	h = hints_new(&o);
	free(h->fabric_attr->prov_name);
	h->fabric_attr->prov_name = strdup("no-such-provider");
	rc = captured(ask, h, &out, text, sizeof(text));
	EXPECT(rc == NOMATCH, "(a) unknown provider: %s", rc == POISON ? "-FI_ENODATA but *info not NULL" : "not -FI_ENODATA");
	quiet("(a)", out, text);
	fi_freeinfo(h);

	t_step("(b) huge max_msg_size");
	h = hints_new(&o);
	h->ep_attr->max_msg_size = UINT64_MAX - 1;
	rc = captured(ask, h, &out, text, sizeof(text));
	if (rc == MATCH || rc == TCP_SEEN || rc == LOOPBACK) {
		/* Legal only if the provider really offers that much. */
		struct fi_info *info;
		fi_getinfo(T_API, NULL, NULL, 0, h, &info);
		EXPECT(info && info->ep_attr->max_msg_size >= UINT64_MAX - 1,
		       "(b) max_msg_size UINT64_MAX-1 matched by an entry that offers less");
		t_note("(b) the provider offers max_msg_size 0x%zx, so the hint matches", info ? info->ep_attr->max_msg_size : 0);
		fi_freeinfo(info);
	} else {
		EXPECT(rc == NOMATCH, "(b) max_msg_size UINT64_MAX-1: neither a match nor clean -FI_ENODATA (%d)", rc);
	}
	quiet("(b)", out, text);
	fi_freeinfo(h);

	t_step("(c) interface filter that matches nothing");
	h = hints_new(&o);
	env_case.key = "FI_TCP_IFACE";
	env_case.val = "nonexistent0";
	env_case.h = h;
	if (!strcmp(t_prov(), "tcp")) {
		rc = captured(ask_env, NULL, &out, text, sizeof(text));
		EXPECT(rc == NOMATCH || rc == MATCH, "(c) FI_TCP_IFACE=nonexistent0 still lists tcp entries");
		if (out)
			t_note("(c) printed: %.100s", text);
		/* other providers must not be hidden by it */
		free(h->fabric_attr->prov_name);
		h->fabric_attr->prov_name = NULL;
		h->ep_attr->type = FI_EP_UNSPEC;
		h->addr_format = FI_FORMAT_UNSPEC;
		struct fi_info *list = NULL, *other;
		fi_getinfo(T_API, NULL, NULL, 0, h, &list);
		for (other = list; other && !strncmp(other->fabric_attr->prov_name, "tcp", 3);)
			other = other->next;
		rc = captured(ask_env, NULL, &out, text, sizeof(text));
		EXPECT(!other || rc != NOMATCH,
		       "(c) an interface filter of tcp hides every other provider");
		fi_freeinfo(list);
	}
	fi_freeinfo(h);

	t_step("(d) real interface");
	struct ifaddrs *ifa, *a;
	const char *name = NULL;
	REQUIRE(!getifaddrs(&ifa), "getifaddrs");
	for (a = ifa; a && !name; a = a->ifa_next)
		if (a->ifa_addr && a->ifa_addr->sa_family == AF_INET &&
		    !(a->ifa_flags & IFF_LOOPBACK) && (a->ifa_flags & IFF_UP))
			name = a->ifa_name;
	if (name && !strcmp(t_prov(), "tcp")) {
		h = hints_new(&o);
		h->addr_format = FI_FORMAT_UNSPEC;
		env_case.val = name;
		env_case.h = h;
		rc = captured(ask_env, NULL, &out, text, sizeof(text));
		EXPECT(rc == TCP_SEEN, "(d) FI_TCP_IFACE=<real interface>: %s",
		       rc == LOOPBACK ? "a loopback address is listed" :
		       rc == NOMATCH ? "no entry at all" : "unexpected result");
		quiet("(d)", out, text);
		fi_freeinfo(h);
	} else {
		t_note("(d) no interface besides loopback, part not run");
	}
	freeifaddrs(ifa);

	t_step("(e) FI_REMOTE_COMM only");
	h = hints_new(&o);
	h->addr_format = FI_FORMAT_UNSPEC;
	h->caps |= FI_REMOTE_COMM;
	rc = captured(ask, h, &out, text, sizeof(text));
	EXPECT(rc != LOOPBACK, "(e) FI_REMOTE_COMM without FI_LOCAL_COMM lists a loopback address");
	EXPECT(rc == TCP_SEEN || rc == MATCH || rc == NOMATCH || rc == LOOPBACK, "(e) unexpected result %d", rc);
	quiet("(e)", out, text);
	fi_freeinfo(h);

	t_step("(f) verbs without hardware");
	if (access("/sys/class/infiniband", F_OK)) {
		h = hints_new(&o);
		free(h->fabric_attr->prov_name);
		h->fabric_attr->prov_name = strdup("verbs");
		rc = captured(ask, h, &out, text, sizeof(text));
		EXPECT(rc == NOMATCH, "(f) verbs without hardware: not a clean -FI_ENODATA (%d)", rc);
		quiet("(f)", out, text);
		fi_freeinfo(h);
	}
	t_end("no match is -FI_ENODATA with a NULL list and no output");
}
