// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! `libfabric.so.1`.

use kofi_abi as _;
