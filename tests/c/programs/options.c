// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * fi_getopt and fi_setopt, fi_endpoint(3): FI_OPT_CM_DATA_SIZE, FI_OPT_MIN_MULTI_RECV;
 * -FI_ETOOSMALL with the size that is needed, -FI_ENOPROTOOPT for what there is not,
 * and for what cannot be set.  FI_BACKLOG of a passive endpoint (D6).
 */
#include "../common.h"

int main(void)
{
	struct opts o = OPTS_DEFAULT;
	struct fi_info *h, *info;
	struct fid_fabric *fabric;
	struct fid_pep *pep;
	struct pair p;
	size_t value, len;
	int rc;

	t_begin("options", 20);
	pair_open(&p, &o);
	struct fid *fid[] = { &p.c.ep->fid, &p.s.pep->fid };
	for (int i = 0; i < 2; i++) {
		t_step("FI_OPT_CM_DATA_SIZE of %s", i ? "a passive endpoint" : "an endpoint");
		value = 0;
		len = sizeof(value);
		OK(fi_getopt(fid[i], FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &value, &len));
		EXPECT(value == 256 && len == sizeof(value), "%zu, length %zu", value, len);
		len = 3;
		rc = fi_getopt(fid[i], FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &value, &len);
		EXPECT(rc == -FI_ETOOSMALL && len == sizeof(value), "3 bytes of room: %d, length %zu", rc, len);
		rc = fi_setopt(fid[i], FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &value, sizeof(value));
		EXPECT(rc == -FI_ENOPROTOOPT || rc == -FI_ENOSYS, "setting it: %d", rc);
		rc = fi_getopt(fid[i], FI_OPT_ENDPOINT, 4711, &value, &len);
		EXPECT(rc == -FI_ENOPROTOOPT, "an unknown option: %d", rc);
		len = sizeof(value);
		rc = fi_getopt(fid[i], 4711, FI_OPT_CM_DATA_SIZE, &value, &len);
		EXPECT(rc == -FI_ENOPROTOOPT, "an unknown level: %d", rc);
	}
	t_step("FI_OPT_MIN_MULTI_RECV");
	len = sizeof(value);
	OK(fi_getopt(fid[0], FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, &len));
	EXPECT(value == 16384, "default %zu", value);
	value = 100;
	OK(fi_setopt(fid[0], FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, sizeof(value)));
	value = 0;
	OK(fi_getopt(fid[0], FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, &len));
	EXPECT(value == 100, "%zu, not what was set", value);
	rc = fi_setopt(fid[0], FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &value, 3);
	EXPECT(rc == -FI_EINVAL, "3 bytes: %d", rc);
	pair_close(&p);

	t_step("FI_BACKLOG");
	h = hints_new(&o);
	info = info_get("127.0.0.1", NULL, FI_SOURCE, h);
	fi_freeinfo(h);
	OK(fi_fabric(info->fabric_attr, &fabric, NULL));
	OK(fi_passive_ep(fabric, info, &pep, NULL));
	int backlog = 7;
	rc = fi_control(&pep->fid, FI_BACKLOG, &backlog);
	RULE("fi_cm(3): FI_BACKLOG", !rc, "fi_control: %d", rc);
	OK(fi_close(&pep->fid));
	OK(fi_close(&fabric->fid));
	fi_freeinfo(info);
	t_end("options can be read, set where they can, and are refused where not");
}
