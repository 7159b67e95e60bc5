/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * kfi_log.h - log lines that begin with a module's name
 *
 * Define MODULE_NAME before including this.
 */
#ifndef _KFI_LOG_H_
#define _KFI_LOG_H_

#include <linux/printk.h>

#ifndef MODULE_NAME
#define MODULE_NAME "KFI"
#endif

#define KFI_LOG_WHERE(print, fmt, ...)	\
	print(MODULE_NAME ": %s:%d: " fmt "\n", __func__, __LINE__, ##__VA_ARGS__)

#define LOG_DEBUG(fmt, ...)	KFI_LOG_WHERE(pr_debug, fmt, ##__VA_ARGS__)
#define LOG_INFO(fmt, ...)	pr_info(MODULE_NAME ": " fmt "\n", ##__VA_ARGS__)
#define LOG_NOTICE(fmt, ...)	pr_notice(MODULE_NAME ": " fmt "\n", ##__VA_ARGS__)
#define LOG_WARN(fmt, ...)	KFI_LOG_WHERE(pr_warn, fmt, ##__VA_ARGS__)
#define LOG_ERR(fmt, ...)	KFI_LOG_WHERE(pr_err, fmt, ##__VA_ARGS__)
#define LOG_ERR_RL(fmt, ...)	KFI_LOG_WHERE(pr_err_ratelimited, fmt, ##__VA_ARGS__)
#define LOG_CRIT(fmt, ...)	KFI_LOG_WHERE(pr_crit, fmt, ##__VA_ARGS__)
#define LOG_ALERT(fmt, ...)	KFI_LOG_WHERE(pr_alert, fmt, ##__VA_ARGS__)
#define LOG_EMERG(fmt, ...)	KFI_LOG_WHERE(pr_emerg, fmt, ##__VA_ARGS__)

#endif /* _KFI_LOG_H_ */
