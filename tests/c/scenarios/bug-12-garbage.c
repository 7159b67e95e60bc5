// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * BUG-12 Garbage at the listener.
 *
 * 200 of each kind of malformed first bytes (all of them kinds that a sound
 * peer closes), mixed with 20 honest clients: each raw socket is closed
 * or refused within 1 s, no FI_CONNREQ for any, all honest clients connect,
 * descriptors are back, logging is bounded.  Build with SAN=address as well.
 *
 * Environment ROUNDS: how many of each kind (default 200).
 */
#include "../common.h"

enum kind { HTTP, ZEROS, VERSION2, VERSION4, TYPE1, TYPE6, LEN_FFFF, LEN_257, NOISE, RST, N_KINDS };
static const char *const name[N_KINDS] = { "HTTP request", "32 zero bytes", "version 2", "version 4", "type 1",
	"type 6", "length 0xFFFF", "length 257", "64 KiB of noise", "immediate reset" };

static int throw_one(struct srv *s, enum kind k, unsigned round)
{
	static unsigned char noise[64 * 1024];
	unsigned char cm[RAW_CM_LEN];
	int fd = raw_connect(s);

	if (fd < 0)
		return -1;
	raw_cm(cm, 3, 0, 0);
	switch (k) {
	case HTTP:     raw_write(fd, "GET / HTTP/1.1\r\n\r\n", 18); break;
	case ZEROS:    memset(cm, 0, sizeof(cm)); raw_write(fd, cm, sizeof(cm)); break;
	case VERSION2: cm[0] = 2; raw_write(fd, cm, sizeof(cm)); break;
	case VERSION4: cm[0] = 4; raw_write(fd, cm, sizeof(cm)); break;
	case TYPE1:    cm[1] = 1; raw_write(fd, cm, sizeof(cm)); break;
	case TYPE6:    cm[1] = 6; raw_write(fd, cm, sizeof(cm)); break;
	case LEN_FFFF: cm[2] = cm[3] = 0xff; raw_write(fd, cm, sizeof(cm)); break;
	case LEN_257:  cm[2] = 1; cm[3] = 1; raw_write(fd, cm, sizeof(cm)); break;
	case NOISE:
		pattern_fill(noise, sizeof(noise), round + 77);
		noise[0] |= 0x80;               /* never a valid version */
		fcntl(fd, F_SETFL, O_NONBLOCK); /* the peer may stop reading: do not block */
		raw_write(fd, noise, sizeof(noise));
		break;
	case RST: {
		struct linger l = { 1, 0 };
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l));
		close(fd);
		return -2;
	}
	default: break;
	}
	return fd;
}

int main(void)
{
	struct opts o = OPTS_DEFAULT;
	const char *r = getenv("ROUNDS");
	int rounds = r ? atoi(r) : 200, batch = 10, honest = 0;
	struct srv s;
	char path[T_PATH];
	int saved, log;

	t_begin("BUG-12", 40);
	srv_open(&s, &o);
	/* warm up, so that lazily opened descriptors do not count */
	struct ep c, p;
	pair_join(&s, &c, &p, &o);
	ep_close(&c);
	ep_close(&p);
	pump_ms(20);
	int fds = count_fds();

	/* count what the library logs */
	log = t_temp(path, "bug12");
	unlink(path);
	fflush(stderr);
	saved = dup(2);
	dup2(log, 2);

	int sent = 0;
	for (int at = 0; at < rounds; at += batch) {
		int fd[N_KINDS * 10];
		for (int k = 0; k < N_KINDS; k++)
			for (int i = 0; i < batch; i++) {
				t_step("round %d, %s", at + i, name[k]);
				fd[k * batch + i] = throw_one(&s, (enum kind)k, (unsigned)(at + i));
				sent++;
			}
		/* an honest client in the middle of each batch */
		t_step("round %d, honest client", at);
		pair_join(&s, &c, &p, &o);      /* fails on a wrong FI_CONNREQ */
		xfer(&c, &p, 200, (uint64_t)at);
		ep_close(&c);
		ep_close(&p);
		honest++;
		double end = now_ms() + 1000;
		int open;
		do {
			open = 0;
			pump();
			for (int i = 0; i < N_KINDS * batch; i++) {
				if (fd[i] < 0)
					continue;
				if (raw_is_closed(fd[i])) {
					close(fd[i]);
					fd[i] = -2;
				} else {
					open++;
				}
			}
		} while (open && now_ms() < end);
		for (int i = 0; i < N_KINDS * batch; i++)
			if (fd[i] >= 0) {
				dup2(saved, 2);
				t_bad("%s: socket still open after 1 s", name[i / batch]);
				dup2(log, 2);
				close(fd[i]);
			}
		struct cm_event ev;
		ssize_t n = eq_next(s.eq, &ev, 0);
		if (n == -FI_EAVAIL) {
			struct fi_eq_err_entry err;
			eq_error(s.eq, &err);
			t_bad("an error entry appeared at the server's EQ: %d (%s)", err.err, fi_strerror(abs(err.err)));
		} else {
			EXPECT(n == -FI_EAGAIN || ev.event == FI_SHUTDOWN, "unexpected event at the server: %s", ev_name(ev.event));
		}
	}
	dup2(saved, 2);
	close(saved);

	/* log volume */
	long lines = 0;
	char buf[4096];
	ssize_t n;
	for (off_t off = 0; (n = pread(log, buf, sizeof(buf), off)) > 0; off += n)
		for (ssize_t i = 0; i < n; i++)
			lines += buf[i] == '\n';
	close(log);
	EXPECT(lines <= sent, "%ld log lines for %d bad clients", lines, sent);
	t_note("%d bad clients, %d honest ones, %ld log lines", sent, honest, lines);

	t_step("afterwards");
	pump_ms(50);
	EXPECT(count_fds() <= fds + 2, "descriptors grew from %d to %d", fds, count_fds());
	pair_join(&s, &c, &p, &o);
	xfer(&c, &p, 200, 1);
	ep_close(&c);
	ep_close(&p);
	srv_close(&s);
	t_end("%d bad clients closed in time, %d honest ones connected, no event for garbage", sent, honest);
}
