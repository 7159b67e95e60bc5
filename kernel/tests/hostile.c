// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * A peer that does not keep to the protocol: hostile ADDRESS PORT
 *
 * Goes with "kofi_selftest.ko run=server", which is to go on serving others whatever comes. Connections here ask for "echo".
 */
#include <arpa/inet.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct sockaddr_in server;

static int dial(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	if (connect(fd, (void *)&server, sizeof(server))) {
		perror("connect");
		exit(1);
	}
	return fd;
}

/* Whether the other side ends the connection within so many milliseconds. */
static int is_ended(int fd, int limit)
{
	struct pollfd p = { fd, POLLIN, 0 };
	char waste[4096];

	while (poll(&p, 1, limit) == 1)
		if (read(fd, waste, sizeof(waste)) <= 0)
			return 1;
	return 0;
}

static void put(int fd, const void *bytes, size_t len)
{
	/* Whoever is hung up on has reached its aim. */
	if (send(fd, bytes, len, MSG_NOSIGNAL) < 0)
		return;
}

/* A connection request; version, type and length as they are to be. */
static size_t request(uint8_t *to, uint8_t version, uint8_t type, uint16_t len, const char *data)
{
	uint64_t probe = 1;

	memset(to, 0, 32);
	to[0] = version;
	to[1] = type;
	to[2] = len >> 8;
	to[3] = len;
	memcpy(to + 24, &probe, 8);
	memcpy(to + 32, data, strlen(data));
	return 32 + strlen(data);
}

static int report(const char *name, int ok)
{
	printf("TEST hostile: %s %s\n", name, ok ? "ok" : "FAILED");
	fflush(stdout);
	return !ok;
}

static int bad_request(const char *name, const void *bytes, size_t len)
{
	int fd = dial(), ended;

	put(fd, bytes, len);
	ended = is_ended(fd, 10000);
	close(fd);
	return report(name, ended);
}

/* Asks, is accepted, and sends what is no record. */
static int bad_record(const char *name, const void *bytes, size_t len)
{
	uint8_t message[64], answer[64];
	int fd = dial(), ended;
	size_t got = 0;
	ssize_t n;

	put(fd, message, request(message, 3, 0, 4, "echo"));
	while (got < 37 && (n = read(fd, answer + got, 37 - got)) > 0)
		got += n;
	if (got != 37 || answer[1] != 1)
		return report(name, 0);
	put(fd, bytes, len);
	ended = is_ended(fd, 10000);
	close(fd);
	return report(name, ended);
}

/* Asks, and is gone at some point. */
static int vanish(const char *name, int accepted, size_t more)
{
	struct linger hard = { 1, 0 };
	uint8_t message[64], answer[64], header[16] = { 3, 0, 0, 0, 0, 0, 16, 0, 0, 0, 1 };
	int fd = dial();

	put(fd, message, request(message, 3, 0, 4, "echo"));
	if (accepted && recv(fd, answer, 37, MSG_WAITALL) != 37)
		return report(name, 0);
	/* The beginning of a message of 64 KiB. */
	put(fd, header, more < 16 ? more : 16);
	setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
	close(fd);
	return report(name, 1);
}

int main(int count, char **words)
{
	static const char http[] = "GET / HTTP/1.0\r\n\r\n";
	uint8_t bytes[4096];
	int failed = 0, i, fds[64];
	size_t len;

	if (count != 3)
		return 2;
	server.sin_family = AF_INET;
	server.sin_port = htons(atoi(words[2]));
	inet_pton(AF_INET, words[1], &server.sin_addr);

	failed |= bad_request("http", http, sizeof(http) - 1);
	memset(bytes, 0xff, sizeof(bytes));
	failed |= bad_request("ones", bytes, sizeof(bytes));
	memset(bytes, 0, sizeof(bytes));
	failed |= bad_request("zeros", bytes, sizeof(bytes));
	len = request(bytes, 4, 0, 4, "echo");
	failed |= bad_request("another version", bytes, len);
	len = request(bytes, 3, 1, 4, "echo");
	failed |= bad_request("an answer instead of a request", bytes, len);
	len = request(bytes, 3, 0, 257, "echo");
	failed |= bad_request("too much data", bytes, len);

	/* Silent, and slow ones: their time is over soon (handshake_timeout). */
	for (i = 0; i < 64; i++)
		fds[i] = dial();
	len = request(bytes, 3, 0, 4, "echo");
	for (i = 0; i < 10; i++) {
		put(fds[0], bytes + i, 1);
		usleep(50000);
	}
	for (i = 0; i < 64 && is_ended(fds[i], 10000); i++)
		close(fds[i]);
	failed |= report("silent and slow ones", i == 64);

	memset(bytes, 0xff, sizeof(bytes));
	failed |= bad_record("ones as records", bytes, sizeof(bytes));
	memset(bytes, 0, sizeof(bytes));
	failed |= bad_record("zeros as records", bytes, sizeof(bytes));
	for (i = 0; i < 256; i++)
		bytes[i] = i * 37;
	failed |= bad_record("noise as records", bytes, 256);
	/* An acknowledgement that nobody waits for. */
	memset(bytes, 0, 16);
	bytes[0] = 3;
	bytes[4] = 2;
	bytes[6] = 16;
	bytes[8] = 16;
	failed |= bad_record("a stray acknowledgement", bytes, 16);
	/* A read of memory that is not there: operation 2, one segment. */
	memset(bytes, 0, 40);
	bytes[0] = 3;
	bytes[1] = 2;
	bytes[5] = 1;
	bytes[6] = 40;
	bytes[8] = 40;
	bytes[25] = 1;
	failed |= bad_record("a read of what is not there", bytes, 40);
	/* A response that nobody asked for. */
	memset(bytes, 0, 32);
	bytes[0] = 3;
	bytes[1] = 3;
	bytes[6] = 16;
	bytes[8] = 32;
	failed |= bad_record("a stray response", bytes, 32);

	failed |= vanish("gone after asking", 0, 0);
	failed |= vanish("gone when accepted", 1, 0);
	failed |= vanish("gone in a header", 1, 7);
	failed |= vanish("gone in a message", 1, 16);
	return failed;
}
