// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The Rust part's functions for the tests' modules: not there in what is installed, where only the faces are public. */
#include <linux/export.h>
#include <linux/module.h>
#include <linux/uio.h>
#include "shim.h"

EXPORT_SYMBOL_GPL(kofi_cancel);
EXPORT_SYMBOL_GPL(kofi_cntr_add);
EXPORT_SYMBOL_GPL(kofi_cntr_adderr);
EXPORT_SYMBOL_GPL(kofi_cntr_close);
EXPORT_SYMBOL_GPL(kofi_cntr_open);
EXPORT_SYMBOL_GPL(kofi_cntr_read);
EXPORT_SYMBOL_GPL(kofi_cntr_readerr);
EXPORT_SYMBOL_GPL(kofi_cntr_set);
EXPORT_SYMBOL_GPL(kofi_cntr_seterr);
EXPORT_SYMBOL_GPL(kofi_cntr_wait);
EXPORT_SYMBOL_GPL(kofi_cq_close);
EXPORT_SYMBOL_GPL(kofi_cq_open);
EXPORT_SYMBOL_GPL(kofi_cq_read);
EXPORT_SYMBOL_GPL(kofi_cq_readerr);
EXPORT_SYMBOL_GPL(kofi_cq_signal);
EXPORT_SYMBOL_GPL(kofi_cq_sread);
EXPORT_SYMBOL_GPL(kofi_cq_strerror);
EXPORT_SYMBOL_GPL(kofi_domain_close);
EXPORT_SYMBOL_GPL(kofi_domain_open);
EXPORT_SYMBOL_GPL(kofi_dupinfo);
EXPORT_SYMBOL_GPL(kofi_ep_accept);
EXPORT_SYMBOL_GPL(kofi_ep_bind_cntr);
EXPORT_SYMBOL_GPL(kofi_ep_bind_cq);
EXPORT_SYMBOL_GPL(kofi_ep_bind_eq);
EXPORT_SYMBOL_GPL(kofi_ep_close);
EXPORT_SYMBOL_GPL(kofi_ep_connect);
EXPORT_SYMBOL_GPL(kofi_ep_enable);
EXPORT_SYMBOL_GPL(kofi_ep_getname);
EXPORT_SYMBOL_GPL(kofi_ep_getopt);
EXPORT_SYMBOL_GPL(kofi_ep_getpeer);
EXPORT_SYMBOL_GPL(kofi_ep_open);
EXPORT_SYMBOL_GPL(kofi_ep_setopt);
EXPORT_SYMBOL_GPL(kofi_ep_shutdown);
EXPORT_SYMBOL_GPL(kofi_eq_close);
EXPORT_SYMBOL_GPL(kofi_eq_open);
EXPORT_SYMBOL_GPL(kofi_eq_read);
EXPORT_SYMBOL_GPL(kofi_eq_readerr);
EXPORT_SYMBOL_GPL(kofi_eq_sread);
EXPORT_SYMBOL_GPL(kofi_eq_strerror);
EXPORT_SYMBOL_GPL(kofi_eq_write);
EXPORT_SYMBOL_GPL(kofi_fabric_close);
EXPORT_SYMBOL_GPL(kofi_fabric_open);
EXPORT_SYMBOL_GPL(kofi_freeinfo);
EXPORT_SYMBOL_GPL(kofi_getinfo);
EXPORT_SYMBOL_GPL(kofi_inject);
EXPORT_SYMBOL_GPL(kofi_inject_write);
EXPORT_SYMBOL_GPL(kofi_mr_base);
EXPORT_SYMBOL_GPL(kofi_mr_close);
EXPORT_SYMBOL_GPL(kofi_mr_key);
EXPORT_SYMBOL_GPL(kofi_mr_reg);
EXPORT_SYMBOL_GPL(kofi_pep_bind_eq);
EXPORT_SYMBOL_GPL(kofi_pep_close);
EXPORT_SYMBOL_GPL(kofi_pep_getname);
EXPORT_SYMBOL_GPL(kofi_pep_listen);
EXPORT_SYMBOL_GPL(kofi_pep_open);
EXPORT_SYMBOL_GPL(kofi_pep_reject);
EXPORT_SYMBOL_GPL(kofi_pep_set_backlog);
EXPORT_SYMBOL_GPL(kofi_pep_setname);
EXPORT_SYMBOL_GPL(kofi_read);
EXPORT_SYMBOL_GPL(kofi_recv);
EXPORT_SYMBOL_GPL(kofi_send);
EXPORT_SYMBOL_GPL(kofi_strerror);
EXPORT_SYMBOL_GPL(kofi_tostr);
EXPORT_SYMBOL_GPL(kofi_version);
EXPORT_SYMBOL_GPL(kofi_wait);
EXPORT_SYMBOL_GPL(kofi_wait_close);
EXPORT_SYMBOL_GPL(kofi_wait_open);
EXPORT_SYMBOL_GPL(kofi_write);
EXPORT_SYMBOL_GPL(kofi_test_allocations_made);
EXPORT_SYMBOL_GPL(kofi_test_fail_nth);
