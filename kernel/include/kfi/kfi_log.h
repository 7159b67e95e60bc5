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

#define LOG_DEBUG(fmt, ...)	pr_debug(MODULE_NAME ": %s:%d: " fmt "\n", __func__, __LINE__, ##__VA_ARGS__)
#define LOG_INFO(fmt, ...)	pr_info(MODULE_NAME ": " fmt "\n", ##__VA_ARGS__)
#define LOG_NOTICE(fmt, ...)	pr_notice(MODULE_NAME ": " fmt "\n", ##__VA_ARGS__)
#define LOG_WARN(fmt, ...)	pr_warn(MODULE_NAME ": %s:%d: " fmt "\n", __func__, __LINE__, ##__VA_ARGS__)
#define LOG_ERR(fmt, ...)	pr_err(MODULE_NAME ": %s:%d: " fmt "\n", __func__, __LINE__, ##__VA_ARGS__)
#define LOG_ERR_RL(fmt, ...)	\
	pr_err_ratelimited(MODULE_NAME ": %s:%d: " fmt "\n", __func__, __LINE__, ##__VA_ARGS__)
#define LOG_CRIT(fmt, ...)	pr_crit(MODULE_NAME ": %s:%d: " fmt "\n", __func__, __LINE__, ##__VA_ARGS__)
#define LOG_ALERT(fmt, ...)	pr_alert(MODULE_NAME ": %s:%d: " fmt "\n", __func__, __LINE__, ##__VA_ARGS__)
#define LOG_EMERG(fmt, ...)	pr_emerg(MODULE_NAME ": %s:%d: " fmt "\n", __func__, __LINE__, ##__VA_ARGS__)

#endif /* _KFI_LOG_H_ */
