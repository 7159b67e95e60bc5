// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! The layouts and values of this module against the headers that are installed (libfabric-dev 1.17 of Debian 12),
//! by a C program that prints them. What is younger than those is compared with a table.

use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use kofi_core::Errno;

/// A structure as this module has it.
pub(super) struct Struct {
    pub(super) name: &'static str,
    pub(super) size: usize,
    /// Name, offset, size.
    pub(super) fields: &'static [(&'static str, usize, usize)],
}

const STRUCTS: &[&[Struct]] = &[
    super::av::LAYOUT,
    super::cntr::LAYOUT,
    super::cq::LAYOUT,
    super::ep::LAYOUT,
    super::eq::LAYOUT,
    super::fabric::LAYOUT,
    super::info::LAYOUT,
    super::mr::LAYOUT,
    super::object::LAYOUT,
    super::op::LAYOUT,
    super::provider::LAYOUT,
    super::wait::LAYOUT,
];

/// A structure that has changed since 1.17: its name, its size then and now, and the fields that are new, with
/// their offsets.
type Changed = (&'static str, Option<usize>, usize, &'static [(&'static str, usize)]);

const CHANGED: &[Changed] = &[
    (
        "fi_domain_attr",
        Some(192),
        232,
        &[
            ("max_ep_auth_key", 192),
            ("max_group_id", 200),
            ("max_cntr_value", 208),
            ("max_err_cntr_value", 216),
            ("max_xpu_ctx_cnt", 224),
        ],
    ),
    ("fi_ep_attr", Some(96), 104, &[("xpu_ctx", 96)]),
    ("fi_ops_domain", Some(96), 104, &[("xpu_ctx", 96)]),
    (
        "fi_mr_attr",
        Some(80),
        112,
        &[("hmem_data", 80), ("page_size", 88), ("base_mr", 96), ("sub_mr_cnt", 104)],
    ),
    ("fi_mr_dmabuf", None, 32, &[("fd", 0), ("offset", 8), ("len", 16), ("base_addr", 24)]),
    ("fi_mr_modify", Some(88), 120, &[]),
    (
        "fi_ops_av",
        Some(64),
        96,
        &[("insert_auth_key", 64), ("lookup_auth_key", 72), ("set_user_id", 80), ("lookup2", 88)],
    ),
    ("fi_ops_ep", Some(64), 72, &[("export_xpu", 64)]),
    ("fi_ops_cq", Some(64), 72, &[("export_xpu", 64)]),
    ("fi_cq_attr", Some(40), 48, &[("xpu_ctx", 40)]),
    ("fi_cq_err_entry", Some(80), 88, &[("src_addr", 80)]),
    ("fi_ops_cntr", Some(64), 72, &[("export_xpu", 64)]),
    ("fi_cntr_attr", Some(24), 32, &[("xpu_ctx", 24)]),
    ("fi_ops_log", None, 32, &[("size", 0), ("enabled", 8), ("ready", 16), ("log", 24)]),
    ("fid_logging", None, 32, &[("fid", 0), ("ops", 24)]),
];

/// Names that the headers of 1.17 lack.
const NEW_CONSTANTS: &[&str] = &[
    "FI_CLASS_PEER_CNTR",
    "FI_CLASS_PROFILE",
    "FI_CLASS_XPU_CTX",
    "FI_GET_FD",
    "FI_GET_MR_XPU_DESC",
    "FI_RESCAN",
    "FI_FIREWALL_ADDR",
    "FI_XPU",
    "FI_TAGGED_DIRECTED_RECV",
    "FI_TAGGED_MULTI_RECV",
    "FI_EXACT_DIRECTED_RECV",
    "FI_AUTH_KEY",
    "FI_MR_DMABUF",
    "FI_MR_SINGLE_USE",
    "FI_MR_XPU_DESC",
    "FI_AV_AUTH_KEY",
    "FI_ADDR_UCX",
    "FI_SOCKADDR_IP",
    "FI_PROTO_COLL",
    "FI_PROTO_UCX",
    "FI_PROTO_SM2",
    "FI_PROTO_CXI_RNR",
    "FI_PROTO_LPP",
    "FI_PROTO_LNX",
    "FI_OPT_CUDA_API_PERMITTED",
    "FI_OPT_SHARED_MEMORY_PERMITTED",
    "FI_OPT_MAX_MSG_SIZE",
    "FI_OPT_MAX_TAGGED_SIZE",
    "FI_OPT_MAX_RMA_SIZE",
    "FI_OPT_MAX_ATOMIC_SIZE",
    "FI_OPT_INJECT_MSG_SIZE",
    "FI_OPT_INJECT_TAGGED_SIZE",
    "FI_OPT_INJECT_RMA_SIZE",
    "FI_OPT_INJECT_ATOMIC_SIZE",
    "FI_OPT_FIREWALL_ADDR",
    "FI_PROGRESS_CONTROL_UNIFIED",
    "FI_TYPE_AV_ATTR",
    "FI_TYPE_CQ_ATTR",
    "FI_TYPE_MR_ATTR",
    "FI_TYPE_CNTR_ATTR",
    "FI_TYPE_CQ_ERR_ENTRY",
    "FI_TYPE_CQ_WAIT_COND",
    "FI_TYPE_WAIT_OBJ",
    "FI_FLOAT16",
    "FI_BFLOAT16",
    "FI_FLOAT8_E4M3",
    "FI_FLOAT8_E5M2",
    "FI_DIFF",
    "FI_CNTR_EVENTS_BYTES",
];

fn changed(name: &str) -> Option<&'static Changed> {
    CHANGED.iter().find(|changed| changed.0 == name)
}

fn is_new(of: &str, field: &str) -> bool {
    changed(of).is_some_and(|changed| changed.3.iter().any(|(name, _)| *name == field))
}

fn constants() -> impl Iterator<Item = (&'static str, u64)> {
    let enums = super::constants::ENUMS.iter().copied().flatten();
    let enums = enums.map(|(name, value)| (*name, u64::from(*value)));
    super::constants::CONSTANTS.iter().copied().chain(enums).filter(|(name, _)| !NEW_CONSTANTS.contains(name))
}

/// What the C program prints: `name value`, `struct.field offset size`.
fn source() -> String {
    let mut lines = String::new();
    let mut print = |name: &str, values: &[String]| {
        let (formats, values) = (" %llu".repeat(values.len()), values.join(", (unsigned long long) "));
        writeln!(lines, "\tprintf(\"{name}{formats}\\n\", (unsigned long long) {values});").unwrap();
    };
    for of in STRUCTS.iter().copied().flatten() {
        if changed(of.name).is_some_and(|changed| changed.1.is_none()) {
            continue;
        }
        let name = of.name;
        print(name, &[format!("sizeof(struct {name})")]);
        for (field, _, size) in of.fields.iter().filter(|field| !is_new(name, field.0)) {
            let field = field.trim_start_matches("r#");
            // A flexible array has no size in C.
            let size = match size {
                0 => "0".into(),
                _ => format!("sizeof(((struct {name} *) 0)->{field})"),
            };
            print(&format!("{name}.{field}"), &[format!("offsetof(struct {name}, {field})"), size]);
        }
    }
    for (name, _) in constants() {
        print(name, &[format!("({name})")]);
    }
    for errno in errnos() {
        print(errno, &[errno.to_string()]);
    }
    format!(
        "#include <stddef.h>\n#include <stdio.h>\n#include <rdma/fabric.h>\n#include <rdma/fi_atomic.h>\n\
         #include <rdma/fi_cm.h>\n#include <rdma/fi_collective.h>\n#include <rdma/fi_domain.h>\n\
         #include <rdma/fi_endpoint.h>\n#include <rdma/fi_eq.h>\n#include <rdma/fi_errno.h>\n\
         #include <rdma/fi_ext.h>\n#include <rdma/fi_rma.h>\n#include <rdma/fi_tagged.h>\n\
         #include <rdma/fi_trigger.h>\n\
         #include <rdma/providers/fi_log.h>\n#include <rdma/providers/fi_prov.h>\n\n\
         int main(void)\n{{\n{lines}\treturn 0;\n}}\n"
    )
}

/// The names of errors that 1.17 has, too.
fn errnos() -> impl Iterator<Item = &'static str> {
    (1..300)
        .filter(|number| !(Errno::ENOMR.raw()..=Errno::EFIREWALLADDR.raw()).contains(number))
        .filter_map(|number| Errno::from_raw(number).name())
        .filter(|name| !["FI_EEXIST", "FI_ENFILE", "FI_EPIPE", "FI_EPROTONOSUPPORT"].contains(name))
}

#[test]
fn is_what_the_headers_say() {
    let directory = env::temp_dir().join(format!("kofi-abi-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let (file, program) = (directory.join("layout.c"), directory.join("layout"));
    fs::write(&file, source()).unwrap();
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".into());
    let compiled = Command::new(compiler).arg("-w").arg(&file).arg("-o").arg(&program).output();
    let problem = match &compiled {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => Some(error.to_string()),
    };
    if let Some(problem) = problem {
        fs::remove_dir_all(&directory).unwrap();
        let absent = problem.contains("rdma/fabric.h: No such file");
        assert!(absent && env::var("KOFI_INTEROP").as_deref() != Ok("require"), "{problem}");
        println!("NOT TESTED: needs libfabric's headers (libfabric-dev)");
        return;
    }
    let output = Command::new(&program).output().unwrap();
    fs::remove_dir_all(&directory).unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let told: BTreeMap<&str, Vec<u64>> = text
        .lines()
        .map(|line| {
            let mut words = line.split(' ');
            (words.next().unwrap(), words.map(|word| word.parse().unwrap()).collect())
        })
        .collect();

    let mut wrong = Vec::new();
    let mut compare = |name: String, ours: Vec<u64>| match told.get(name.as_str()) {
        Some(theirs) if *theirs == ours => {}
        theirs => wrong.push(format!("{name}: {ours:?} here, {theirs:?} in C")),
    };
    for of in STRUCTS.iter().copied().flatten() {
        let size = changed(of.name).map_or(Some(of.size), |changed| changed.1);
        let Some(size) = size else { continue };
        compare(of.name.into(), vec![size as u64]);
        for (field, offset, size) in of.fields.iter().filter(|field| !is_new(of.name, field.0)) {
            let field = field.trim_start_matches("r#");
            // Holds a structure that has grown.
            if (of.name, field) == ("fi_mr_modify", "attr") {
                continue;
            }
            compare(format!("{}.{field}", of.name), vec![*offset as u64, *size as u64]);
        }
    }
    for (name, value) in constants() {
        compare(name.into(), vec![value]);
    }
    for name in errnos() {
        let number = (1..300).find(|number| Errno::from_raw(*number).name() == Some(name)).unwrap();
        compare(name.into(), vec![number as u64]);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_younger_is_where_the_newest_headers_have_it() {
    for (name, _, size, fields) in CHANGED {
        let of = STRUCTS.iter().copied().flatten().find(|of| of.name == *name).unwrap();
        assert_eq!(of.size, *size, "size of {name}");
        for (field, offset) in *fields {
            let found = of.fields.iter().find(|(name, ..)| name == field).unwrap();
            assert_eq!(found.1, *offset, "{name}.{field}");
        }
    }
}
