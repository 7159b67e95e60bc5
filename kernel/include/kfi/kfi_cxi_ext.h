/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * kfi_cxi_ext.h - what clients of kfabric's cxi provider compile with
 *
 * No provider of this module has these operations: kfi_open_ops() of their names answers -ENOSYS,
 * which clients take as "not there".
 */
#ifndef _KFI_CXI_EXT_H_
#define _KFI_CXI_EXT_H_

#include <linux/device.h>
#include <linux/types.h>

#include "kfabric.h"

#define KFI_CXI_FAB_OPS_1	"cxi_fab_ops_v1"

struct kfi_cxi_fabric_ops {
	int	(*enable_dynamic_rsrc_alloc)(struct kfid *fid, bool enable);
};

#define KFI_CXI_DOM_OPS_1	"cxi_dom_ops_v1"

struct kfi_cxi_domain_ops {
	int	(*get_device)(struct kfid *fid, struct device **device);
};

/* What addresses of KFI_ADDR_CXI are */
struct kcxi_addr {
	union {
		struct {
			uint64_t	pid:12;
			uint64_t	nic:20;
			uint64_t	flags:10;
		};
		uint64_t		qw;
	};
};

#endif /* _KFI_CXI_EXT_H_ */
