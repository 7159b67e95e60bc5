// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Texts, and the version. */
#include <linux/export.h>
#include <linux/kernel.h>
#include <linux/spinlock.h>
#include <linux/string.h>

#include "api.h"

#define TEXTS		8
#define TEXT_SIZE	4096

uint32_t kfi_version(void)
{
	return KFI_VERSION(KFI_MAJOR_VERSION, KFI_MINOR_VERSION);
}
EXPORT_SYMBOL(kfi_version);

const char *kfi_strerror(int errnum)
{
	return kofi_strerror(errnum);
}
EXPORT_SYMBOL(kfi_strerror);

/* What strerror of a queue gives: @text, which is also put into @buf if there is one. */
const char *kapi_text_in(char *buf, size_t len, const char *text)
{
	if (!buf || !len)
		return text;
	strscpy(buf, text, len);
	return buf;
}

/*
 * An info that has one part: what kfi_info has, the Rust part takes as parts of its own structure.
 */
static int part_tostr(char *text, const void *data, enum kfi_type type)
{
	struct kfi_info whole = {};
	struct kofi_info *info;
	const void *part;
	int error;

	info = kapi_alloc(sizeof(*info));
	if (!info)
		return -ENOMEM;
	part = info;
	switch (type) {
	case KFI_TYPE_TX_ATTR:
		whole.tx_attr = (void *)data;
		part = &info->tx;
		break;
	case KFI_TYPE_RX_ATTR:
		whole.rx_attr = (void *)data;
		part = &info->rx;
		break;
	case KFI_TYPE_EP_ATTR:
		whole.ep_attr = (void *)data;
		part = &info->ep;
		break;
	case KFI_TYPE_DOMAIN_ATTR:
		whole.domain_attr = (void *)data;
		part = &info->domain;
		break;
	case KFI_TYPE_FABRIC_ATTR:
		whole.fabric_attr = (void *)data;
		part = &info->fabric;
		break;
	default:
		whole = *(const struct kfi_info *)data;
		break;
	}
	error = kapi_info_in(info, &whole);
	if (!error)
		error = kofi_tostr(type, part, text, TEXT_SIZE);
	kapi_free(info);
	return error;
}

char *kfi_tostr(const void *data, enum kfi_type datatype)
{
	static char texts[TEXTS][TEXT_SIZE];
	static atomic_t next = ATOMIC_INIT(0);
	char *text = texts[(unsigned int)atomic_inc_return(&next) % TEXTS];
	u64 flags;
	u32 number;
	int len;

	text[0] = '\0';
	if (!data && datatype != KFI_TYPE_VERSION)
		return text;

	switch (datatype) {
	case KFI_TYPE_INFO:
	case KFI_TYPE_TX_ATTR:
	case KFI_TYPE_RX_ATTR:
	case KFI_TYPE_EP_ATTR:
	case KFI_TYPE_DOMAIN_ATTR:
	case KFI_TYPE_FABRIC_ATTR:
		len = part_tostr(text, data, datatype);
		break;
	case KFI_TYPE_EP_TYPE:
	case KFI_TYPE_THREADING:
	case KFI_TYPE_PROGRESS:
	case KFI_TYPE_AV_TYPE:
	case KFI_TYPE_EQ_EVENT:
		number = *(const u32 *)data;
		len = kofi_tostr(datatype, &number, text, TEXT_SIZE);
		break;
	case KFI_TYPE_PROTOCOL:
		number = kapi_protocol_in(*(const u32 *)data);
		len = kofi_tostr(datatype, &number, text, TEXT_SIZE);
		break;
	case KFI_TYPE_ADDR_FORMAT:
		number = kapi_addr_format_in(*(const u32 *)data);
		len = kofi_tostr(datatype, &number, text, TEXT_SIZE);
		break;
	case KFI_TYPE_CAPS:
	case KFI_TYPE_OP_FLAGS:
	case KFI_TYPE_MSG_ORDER:
	case KFI_TYPE_MODE:
	case KFI_TYPE_CQ_EVENT_FLAGS:
		len = kofi_tostr(datatype, data, text, TEXT_SIZE);
		break;
	case KFI_TYPE_MR_MODE:
		flags = kapi_mr_mode_in(*(const int *)data);
		len = kofi_tostr(datatype, &flags, text, TEXT_SIZE);
		break;
	case KFI_TYPE_VERSION:
		len = scnprintf(text, TEXT_SIZE, "%u.%u", KFI_MAJOR_VERSION, KFI_MINOR_VERSION);
		break;
	default:
		len = 0;
		break;
	}
	if (len < 0)
		text[0] = '\0';
	return text;
}
EXPORT_SYMBOL(kfi_tostr);
