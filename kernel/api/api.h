/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The C faces: what kfi_* and fi_* objects are made of.
 *
 * An object is its public structure, the handle of the Rust part's object, and what translating
 * between the two needs. All rules are the Rust part's; here are memory, tables and translations
 * only.
 */
#ifndef KOFI_API_H
#define KOFI_API_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/types.h>

#include "../include-private/kofi_kernel.h"
#include "../include/kfi/kfi_enosys.h"

struct kapi_fabric {
	struct kfid_fabric	pub;
	struct kofi_fabric	*handle;
	struct mutex		lock;		/* of requests */
	struct list_head	requests;	/* read, and neither accepted nor rejected */
};

struct kapi_domain {
	struct kfid_domain	pub;
	struct kofi_domain	*handle;
	struct kapi_fabric	*fabric;
};

struct kapi_wait {
	struct kfid_wait	pub;
	struct kofi_wait_set	*handle;
};

/* What a connection request needs, allocated before the event is taken out of the queue. */
struct kapi_spare {
	struct kapi_request	*request;
	struct kfi_info		*info;
};

struct kapi_eq {
	struct kfid_eq		pub;
	struct kofi_eq		*handle;
	struct kapi_fabric	*fabric;
	struct kapi_spare	*spare;		/* taken and put back by xchg */
};

struct kapi_cq {
	struct kfid_cq		pub;
	struct kofi_cq		*handle;
	enum kfi_cq_format	format;
	bool			threshold;	/* blocking reads wait for several */
};

struct kapi_cntr {
	struct kfid_cntr	pub;
	struct kofi_cntr	*handle;
};

struct kapi_mr {
	struct kfid_mr		pub;
	struct kofi_mr		*handle;
};

struct kapi_pep {
	struct kfid_pep		pub;
	struct kofi_pep		*handle;
	struct kapi_fabric	*fabric;
};

struct kapi_ep {
	struct kfid_ep		pub;
	struct kofi_ep		*handle;
	struct kapi_fabric	*fabric;
	u64			request;	/* the request that it is for, or 0 */
};

struct kapi_srx {
	struct kfid_ep		pub;
	struct kofi_srx		*handle;
};

/* A connection request, as kfi_info.handle names it. */
struct kapi_request {
	struct kfid		fid;
	u64			handle;
	struct kapi_fabric	*fabric;
	struct list_head	link;
};

/* object.c */
void *kapi_alloc(size_t size);
void kapi_free(void *memory);
void kapi_init(struct kfid *fid, size_t fclass, struct kfi_ops *ops, void *context);
bool kapi_is(const struct kfid *fid, size_t fclass, const struct kfi_ops *ops);
int kapi_close_begin(struct kfid *fid);
void kapi_close_failed(struct kfid *fid);
void kapi_retire(struct kfid *fid, void *memory);
void kapi_objects_exit(void);

/* info.c */
struct kfi_info *kapi_info_new(void);
void kapi_info_fill(struct kfi_info *info, const struct kofi_info *from);
int kapi_info_in(struct kofi_info *info, const struct kfi_info *from);
int kapi_fabric_attr_in(struct kofi_fabric_attr *attr, const struct kfi_fabric_attr *from);
u32 kapi_protocol_in(u32 protocol);
u32 kapi_addr_format_in(u32 format);
u64 kapi_mr_mode_in(int mode);
void kapi_infos_exit(void);

/* request.c */
struct kapi_spare *kapi_spare_get(struct kapi_eq *eq);
void kapi_spare_put(struct kapi_eq *eq, struct kapi_spare *spare);
void kapi_spare_free(struct kapi_spare *spare);
struct kfi_info *kapi_request_new(struct kapi_eq *eq, struct kapi_spare *spare,
				  const struct kofi_info *info);
u64 kapi_request_find(struct kapi_fabric *fabric, struct kfid *fid);
void kapi_request_end(struct kapi_fabric *fabric, u64 handle);
void kapi_requests_end(struct kapi_fabric *fabric);

/* text.c */
const char *kapi_text_in(char *buf, size_t len, const char *text);

/* registry.c */
int kapi_registry_init(void);
void kapi_registry_exit(void);

/* fabric.c */
extern struct kfi_provider kapi_tcp;

/* One file for each object */
int kapi_domain_open(struct kfid_fabric *fabric, struct kfi_info *info,
		     struct kfid_domain **domain, void *context);
int kapi_wait_open(struct kfid_fabric *fabric, struct kfi_wait_attr *attr,
		   struct kfid_wait **waitset);
int kapi_wait_in(u32 wait_obj, struct kfid_wait *set, u32 *obj, struct kofi_wait_set **handle);
int kapi_eq_open(struct kfid_fabric *fabric, struct kfi_eq_attr *attr, struct kfid_eq **eq,
		 kfi_event_handler handler, void *context);
struct kofi_eq *kapi_eq_of(struct kfid *fid);
int kapi_cq_open(struct kfid_domain *domain, struct kfi_cq_attr *attr, struct kfid_cq **cq,
		 kfi_comp_handler handler, void *context);
struct kofi_cq *kapi_cq_of(struct kfid *fid);
int kapi_cntr_open(struct kfid_domain *domain, struct kfi_cntr_attr *attr,
		   struct kfid_cntr **cntr, void *context);
struct kofi_cntr *kapi_cntr_of(struct kfid *fid);
int kapi_pep_open(struct kfid_fabric *fabric, struct kfi_info *info, struct kfid_pep **pep,
		  void *context);
int kapi_ep_open(struct kfid_domain *domain, struct kfi_info *info, struct kfid_ep **ep,
		 void *context);
int kapi_srx_open(struct kfid_domain *domain, struct kfi_rx_attr *attr, struct kfid_ep **srx,
		  void *context);
struct kofi_srx *kapi_srx_of(struct kfid *fid);

/* msg.c, rma.c */
extern struct kfi_ops_msg kapi_msg_ops;
extern struct kfi_ops_rma kapi_rma_ops;
int kapi_memory_in(struct kofi_memory *memory, enum kfi_iov_type type, const void *segments,
		   size_t count);
int kapi_buffer_in(struct kofi_memory *memory, struct kvec *segment, const void *buf, size_t len);
int kapi_op_buffer(struct kofi_op *op, struct kvec *segment, const void *buf, size_t len,
		   void *context);
int kapi_op_pieces(struct kofi_op *op, enum kfi_iov_type type, const void *pieces, size_t count,
		   void *context);
int kapi_op_msg(struct kofi_op *op, const struct kfi_msg *msg, uint64_t flags);

/* mr.c */
extern struct kfi_ops_mr kapi_mr_ops;

/* no_ops.c */
extern struct kfi_ops_fabric kapi_no_ops_fabric;
extern struct kfi_ops_wait kapi_no_ops_wait;
extern struct kfi_ops_poll kapi_no_ops_poll;
extern struct kfi_ops_eq kapi_no_ops_eq;
extern struct kfi_ops_cq kapi_no_ops_cq;
extern struct kfi_ops_cntr kapi_no_ops_cntr;
extern struct kfi_ops_av kapi_no_ops_av;
extern struct kfi_ops_domain kapi_no_ops_domain;
extern struct kfi_ops_mr kapi_no_ops_mr;
extern struct kfi_ops_ep kapi_no_ops_ep;
extern struct kfi_ops_msg kapi_no_ops_msg;
extern struct kfi_ops_cm kapi_no_ops_cm;
extern struct kfi_ops_rma kapi_no_ops_rma;
extern struct kfi_ops_tagged kapi_no_ops_tagged;
extern struct kfi_ops_atomic kapi_no_ops_atomic;

/* faces.c, for the module */
int kofi_faces_init(void);
void kofi_faces_exit(void);

#endif
