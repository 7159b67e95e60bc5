/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * fabric.h - fi_*: the calls with the names and signatures of the deck of 2015, and of libfabric
 *
 * "Kernel Open Fabrics Interface Server End point setup" (March 2015) shows these calls. The
 * headers of this directory are a layer of names: a struct fid_pep is a struct kfid_pep, an fi_info
 * is a kfi_info, FI_MSG is KFI_MSG, and each fi_* call is the kfi_* call of the same name, whose
 * description, with context, ownership and errors, holds. What differs is said here: fi_eq_open()
 * and fi_cq_open() have no handler argument. Both layers can be used in one file, for the same
 * objects.
 *
 * "struct fid" can only be had by a macro that is there when kfabric.h is read (a macro for fid
 * would hit the members of that name): so a file that uses both layers includes this one first.
 */
#ifndef _FI_FABRIC_H_
#define _FI_FABRIC_H_

#ifdef _KFABRIC_H_
#error "include fi/fabric.h before the headers of kfi/"
#endif

#define kfid				fid
#include "../kfi/kfabric.h"

#define fid_t				kfid_t
#define fid_fabric			kfid_fabric
#define fid_domain			kfid_domain
#define fid_wait			kfid_wait
#define fid_poll			kfid_poll
#define fid_eq				kfid_eq
#define fid_cq				kfid_cq
#define fid_cntr			kfid_cntr
#define fid_ep				kfid_ep
#define fid_pep				kfid_pep
#define fid_mr				kfid_mr
#define fid_av				kfid_av

/* The deck's slide 8 calls two of them so. */
#define fi_fid_pep			fid_pep
#define fi_fid_eq			fid_eq

#define fi_info				kfi_info
#define fi_tx_attr			kfi_tx_attr
#define fi_rx_attr			kfi_rx_attr
#define fi_ep_attr			kfi_ep_attr
#define fi_domain_attr			kfi_domain_attr
#define fi_fabric_attr			kfi_fabric_attr
#define fi_context			kfi_context
#define fi_ep_type			kfi_ep_type
#define fi_progress			kfi_progress
#define fi_threading			kfi_threading
#define fi_resource_mgmt		kfi_resource_mgmt
#define fi_type				kfi_type
#define fi_addr_t			kfi_addr_t

#define FI_MAJOR_VERSION		KFI_MAJOR_VERSION
#define FI_MINOR_VERSION		KFI_MINOR_VERSION
#define FI_VERSION(major, minor)	KFI_VERSION(major, minor)
#define FI_MAJOR(version)		KFI_MAJOR(version)
#define FI_MINOR(version)		KFI_MINOR(version)
#define FI_VERSION_GE(v1, v2)		KFI_VERSION_GE(v1, v2)
#define FI_VERSION_LT(v1, v2)		KFI_VERSION_LT(v1, v2)

#define FI_MSG				KFI_MSG
#define FI_RMA				KFI_RMA
#define FI_TAGGED			KFI_TAGGED
#define FI_ATOMIC			KFI_ATOMIC
#define FI_READ				KFI_READ
#define FI_WRITE			KFI_WRITE
#define FI_RECV				KFI_RECV
#define FI_SEND				KFI_SEND
#define FI_TRANSMIT			KFI_TRANSMIT
#define FI_REMOTE_READ			KFI_REMOTE_READ
#define FI_REMOTE_WRITE			KFI_REMOTE_WRITE
#define FI_MULTI_RECV			KFI_MULTI_RECV
#define FI_REMOTE_CQ_DATA		KFI_REMOTE_CQ_DATA
#define FI_MORE				KFI_MORE
#define FI_PEEK				KFI_PEEK
#define FI_FENCE			KFI_FENCE
#define FI_COMPLETION			KFI_COMPLETION
#define FI_INJECT			KFI_INJECT
#define FI_INJECT_COMPLETE		KFI_INJECT_COMPLETE
#define FI_TRANSMIT_COMPLETE		KFI_TRANSMIT_COMPLETE
#define FI_DELIVERY_COMPLETE		KFI_DELIVERY_COMPLETE
#define FI_COMMIT_COMPLETE		KFI_COMMIT_COMPLETE
#define FI_AFFINITY			KFI_AFFINITY
#define FI_TIME_US			KFI_TIME_US
#define FI_TIME_MS			KFI_TIME_MS
#define FI_LOCAL_COMM			KFI_LOCAL_COMM
#define FI_REMOTE_COMM			KFI_REMOTE_COMM
#define FI_PROV_ATTR_ONLY		KFI_PROV_ATTR_ONLY
#define FI_NUMERICHOST			KFI_NUMERICHOST
#define FI_SOURCE			KFI_SOURCE
#define FI_SELECTIVE_COMPLETION		KFI_SELECTIVE_COMPLETION

#define FI_FORMAT_UNSPEC		KFI_FORMAT_UNSPEC
#define FI_SOCKADDR			KFI_SOCKADDR
#define FI_SOCKADDR_IN			KFI_SOCKADDR_IN
#define FI_SOCKADDR_IN6			KFI_SOCKADDR_IN6
#define FI_SOCKADDR_IB			KFI_SOCKADDR_IB
#define FI_ADDR_UNSPEC			KFI_ADDR_UNSPEC
#define FI_ADDR_NOTAVAIL		KFI_ADDR_NOTAVAIL
#define FI_KEY_NOTAVAIL			KFI_KEY_NOTAVAIL

#define FI_MR_LOCAL			KFI_MR_LOCAL
#define FI_MR_VIRT_ADDR			KFI_MR_VIRT_ADDR
#define FI_MR_PROV_KEY			KFI_MR_PROV_KEY

#define FI_PROGRESS_UNSPEC		KFI_PROGRESS_UNSPEC
#define FI_PROGRESS_AUTO		KFI_PROGRESS_AUTO
#define FI_PROGRESS_MANUAL		KFI_PROGRESS_MANUAL
#define FI_THREAD_UNSPEC		KFI_THREAD_UNSPEC
#define FI_THREAD_SAFE			KFI_THREAD_SAFE
#define FI_RM_UNSPEC			KFI_RM_UNSPEC
#define FI_RM_DISABLED			KFI_RM_DISABLED
#define FI_RM_ENABLED			KFI_RM_ENABLED

#define FI_EP_UNSPEC			KFI_EP_UNSPEC
#define FI_EP_MSG			KFI_EP_MSG
#define FI_EP_DGRAM			KFI_EP_DGRAM
#define FI_EP_RDM			KFI_EP_RDM

#define FI_PROTO_UNSPEC			KFI_PROTO_UNSPEC
#define FI_PROTO_RDMA_CM_IB_RC		KFI_PROTO_RDMA_CM_IB_RC
#define FI_PROTO_IWARP			KFI_PROTO_IWARP
#define FI_PROTO_SOCK_TCP		KFI_PROTO_SOCK_TCP

#define FI_CONTEXT			KFI_CONTEXT
#define FI_LOCAL_MR			KFI_LOCAL_MR

#define FI_CLASS_UNSPEC			KFI_CLASS_UNSPEC
#define FI_CLASS_FABRIC			KFI_CLASS_FABRIC
#define FI_CLASS_DOMAIN			KFI_CLASS_DOMAIN
#define FI_CLASS_EP			KFI_CLASS_EP
#define FI_CLASS_PEP			KFI_CLASS_PEP
#define FI_CLASS_MR			KFI_CLASS_MR
#define FI_CLASS_EQ			KFI_CLASS_EQ
#define FI_CLASS_CQ			KFI_CLASS_CQ
#define FI_CLASS_CNTR			KFI_CLASS_CNTR
#define FI_CLASS_WAIT			KFI_CLASS_WAIT
#define FI_CLASS_CONNREQ		KFI_CLASS_CONNREQ

#define FI_BACKLOG			KFI_BACKLOG
#define FI_ENABLE			KFI_ENABLE

#define FI_TYPE_INFO			KFI_TYPE_INFO
#define FI_TYPE_EP_TYPE			KFI_TYPE_EP_TYPE
#define FI_TYPE_CAPS			KFI_TYPE_CAPS
#define FI_TYPE_ADDR_FORMAT		KFI_TYPE_ADDR_FORMAT
#define FI_TYPE_PROTOCOL		KFI_TYPE_PROTOCOL
#define FI_TYPE_MODE			KFI_TYPE_MODE
#define FI_TYPE_VERSION			KFI_TYPE_VERSION
#define FI_TYPE_EQ_EVENT		KFI_TYPE_EQ_EVENT

/* As kfi_version(). */
static inline uint32_t fi_version(void)
{
	return kfi_version();
}

/* As kfi_getinfo(). */
static inline int fi_getinfo(uint32_t version, const char *node, const char *service,
			     uint64_t flags, struct fi_info *hints, struct fi_info **info)
{
	return kfi_getinfo(version, node, service, flags, hints, info);
}

/* As kfi_freeinfo(). */
static inline void fi_freeinfo(struct fi_info *info)
{
	kfi_freeinfo(info);
}

/* As kfi_allocinfo(). */
static inline struct fi_info *fi_allocinfo(void)
{
	return kfi_allocinfo();
}

/* As kfi_dupinfo(). */
static inline struct fi_info *fi_dupinfo(const struct fi_info *info)
{
	return kfi_dupinfo(info);
}

/* As kfi_fabric(). */
static inline int fi_fabric(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context)
{
	return kfi_fabric(attr, fabric, context);
}

/* As kfi_close(). */
static inline int fi_close(struct fid *fid)
{
	return kfi_close(fid);
}

/* As kfi_control(). */
static inline int fi_control(struct fid *fid, int command, void *arg)
{
	return kfi_control(fid, command, arg);
}

/* As kfi_tostr(). */
static inline char *fi_tostr(const void *data, enum fi_type datatype)
{
	return kfi_tostr(data, datatype);
}

#endif /* _FI_FABRIC_H_ */
