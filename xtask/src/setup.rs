// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//! `cargo xtask setup`: installs what the tests need and this machine lacks.

use std::fs;
use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::Command;

use crate::freestanding::Toolchain;
use crate::process::{self, succeeds};
use crate::workspace;

/// Something outside the workspace that a step of the tests needs.
pub(crate) struct Tool {
    pub(crate) what: &'static str,
    /// The Debian packages that bring it; none where it comes with Rust.
    packages: &'static [&'static str],
    /// The crate that brings it, and which version `cargo install` is to take.
    program: Option<(&'static str, &'static str)>,
    /// How to get it where there is no apt.
    otherwise: &'static str,
    /// Why it cannot be used, if so.
    missing: fn() -> Option<String>,
}

pub(crate) const RUSTFMT: Tool = Tool {
    what: "rustfmt",
    packages: &[],
    program: None,
    otherwise: "rustup component add rustfmt",
    missing: || absent(workspace::cargo().args(["fmt", "--version"])),
};

pub(crate) const CLIPPY: Tool = Tool {
    what: "clippy",
    packages: &[],
    program: None,
    otherwise: "rustup component add clippy",
    missing: || absent(workspace::cargo().args(["clippy", "--version"])),
};

pub(crate) const RUST_SOURCE: Tool = Tool {
    what: "a Rust compiler with the source of its library",
    packages: &["rustc-web", "rust-web-src"],
    program: None,
    otherwise: "rustup component add rust-src",
    missing: || Toolchain::find().err(),
};

pub(crate) const STOCK_PROGRAMS: Tool = Tool {
    what: "stock libfabric's programs",
    packages: &["libfabric-bin"],
    program: None,
    otherwise: "build libfabric with its fi_info and fi_pingpong, and put them on PATH",
    missing: || ["fi_info", "fi_pingpong"].into_iter().find_map(not_on_path),
};

pub(crate) const STOCK_HEADERS: Tool = Tool {
    what: "a C compiler and stock libfabric's headers",
    packages: &["gcc", "pkg-config", "libfabric-dev"],
    program: None,
    otherwise: "install a C compiler, pkg-config and libfabric's headers",
    missing: || {
        let libfabric = || absent(Command::new("pkg-config").args(["--exists", "libfabric"]));
        not_on_path("cc").or_else(libfabric)
    },
};

pub(crate) const CXX: Tool = Tool {
    what: "a C++ compiler (for libFuzzer)",
    packages: &["g++"],
    program: None,
    otherwise: "install a C++ compiler",
    missing: || not_on_path("c++"),
};

pub(crate) const CARGO_FUZZ: Tool = Tool {
    what: "cargo-fuzz",
    packages: &[],
    program: Some(("cargo-fuzz", "0.13.2")),
    otherwise: "cargo install --locked cargo-fuzz@0.13.2",
    missing: || absent(workspace::cargo().args(["fuzz", "--version"])),
};

pub(crate) const CARGO_DEB: Tool = Tool {
    what: "cargo-deb",
    packages: &[],
    program: Some(("cargo-deb", "3.8.0")),
    otherwise: "cargo install --locked cargo-deb@3.8.0",
    missing: || absent(workspace::cargo().args(["deb", "--version"])),
};

pub(crate) const VALGRIND: Tool = Tool {
    what: "valgrind",
    packages: &["valgrind"],
    program: None,
    otherwise: "install valgrind",
    missing: || not_on_path("valgrind"),
};

pub(crate) const KERNEL_BUILD: Tool = Tool {
    what: "what modules of the kernel are built with",
    packages: &["make", "gcc", "binutils", "libelf-dev", "kmod"],
    program: None,
    otherwise: "install make, gcc, binutils, libelf's headers and kmod",
    missing: || ["make", "gcc", "ld", "objcopy"].into_iter().find_map(not_on_path),
};

pub(crate) const DKMS: Tool = Tool {
    what: "DKMS",
    packages: &["dkms"],
    program: None,
    otherwise: "install dkms",
    missing: || absent(Command::new("/usr/sbin/dkms").arg("--version")),
};

pub(crate) const MACHINE: Tool = Tool {
    what: "virtual machines",
    packages: &["qemu-system-x86", "busybox-static", "cpio", "iproute2", "xz-utils"],
    program: None,
    otherwise: "install QEMU, a static busybox in /bin, cpio and iproute2",
    missing: || {
        let busybox = || (!Path::new("/bin/busybox").exists()).then(|| "there is no /bin/busybox".to_owned());
        ["qemu-system-x86_64", "cpio", "gzip", "ip"].into_iter().find_map(not_on_path).or_else(busybox)
    },
};

pub(crate) const KERNEL_SOURCE: Tool = Tool {
    what: "a kernel's source, and what kernels are built with",
    packages: &["linux-source-6.12", "flex", "bison", "bc", "libelf-dev", "xz-utils"],
    program: None,
    otherwise: "put the source of Linux 6.12 at /usr/src/linux-source-6.12.tar.xz, and install flex, bison and bc",
    missing: || {
        let source = Path::new(KERNEL_SOURCE_ARCHIVE);
        let missing = || (!source.exists()).then(|| format!("there is no {}", source.display()));
        ["make", "gcc", "flex", "bison", "bc", "xz"].into_iter().find_map(not_on_path).or_else(missing)
    },
};

/// Where that package puts it.
pub(crate) const KERNEL_SOURCE_ARCHIVE: &str = "/usr/src/linux-source-6.12.tar.xz";

pub(crate) const KERNEL_6_1: Tool =
    kernel(&["linux-image-6.1.0-57-amd64", "linux-headers-6.1.0-57-amd64"], || no_kernel("6.1."));

pub(crate) const KERNEL_6_12: Tool =
    kernel(&["linux-image-6.12.117+deb12-amd64", "linux-headers-6.12.117+deb12-amd64"], || {
        no_kernel("6.12.")
    });

/// A kernel of Debian 12 to test on; any other of the same series does, too.
const fn kernel(packages: &'static [&'static str], missing: fn() -> Option<String>) -> Tool {
    let (what, otherwise) = ("a kernel to test on", "install a kernel of that series with its headers");
    Tool { what, packages, program: None, otherwise, missing }
}

fn no_kernel(series: &str) -> Option<String> {
    let found = fs::read_dir("/lib/modules").into_iter().flatten().flatten().any(|entry| {
        let release = entry.file_name().to_string_lossy().into_owned();
        release.starts_with(series)
            && entry.path().join("build/Makefile").exists()
            && Path::new(&format!("/boot/vmlinuz-{release}")).exists()
    });
    (!found).then(|| format!("there is no Linux {series}x with headers and image"))
}

/// What `cargo xtask test` needs.
const ALL: [&Tool; 11] = [
    &RUSTFMT,
    &CLIPPY,
    &RUST_SOURCE,
    &STOCK_PROGRAMS,
    &STOCK_HEADERS,
    &CXX,
    &CARGO_FUZZ,
    &KERNEL_BUILD,
    &MACHINE,
    &KERNEL_6_1,
    &KERNEL_6_12,
];

impl Tool {
    /// Why a step that needs this tool cannot run, and what to do about it.
    pub(crate) fn missing(&self) -> Option<String> {
        (self.missing)().map(|why| format!("needs {} ({why}); to get it: {}", self.what, self.how_to_get()))
    }

    fn how_to_get(&self) -> String {
        if self.packages.is_empty() || !has_apt() {
            return self.otherwise.to_owned();
        }
        format!("apt-get install {}, or {}", self.packages.join(" "), self.otherwise)
    }
}

fn absent(command: &mut Command) -> Option<String> {
    (!succeeds(command)).then(|| format!("`{}` does not run", process::line(command)))
}

fn not_on_path(program: &str) -> Option<String> {
    let found = succeeds(Command::new("sh").args(["-c", "command -v -- \"$0\"", program]));
    (!found).then(|| format!("{program} is not on PATH"))
}

fn has_apt() -> bool {
    not_on_path("apt-get").is_none()
}

/// Installs what `cargo xtask test` needs.
pub(crate) fn run() -> Result<(), String> {
    if ALL.iter().all(|tool| (tool.missing)().is_none()) {
        println!("setup: nothing to install");
    }
    provide(&ALL);
    Ok(())
}

/// Installs what is missing, announcing each package; what cannot be had is said, and is no error here:
/// what needs it says so again.
pub(crate) fn provide(tools: &[&Tool]) {
    let missing: Vec<&Tool> = tools.iter().copied().filter(|tool| (tool.missing)().is_some()).collect();
    let installable: Vec<&Tool> = missing.iter().copied().filter(|tool| !tool.packages.is_empty()).collect();
    if !installable.is_empty() {
        match Apt::find() {
            Ok(apt) => apt.install(&installable),
            Err(why) => println!("setup: cannot install packages: {why}"),
        }
    }
    for (name, version) in missing.iter().filter_map(|tool| tool.program) {
        println!("setup: installing {name} {version} (by cargo install)");
        if let Err(why) = cargo_install(name, version) {
            println!("setup: {why}");
        }
    }
    for tool in missing {
        if let Some(why) = tool.missing() {
            println!("setup: still missing: {why}");
        }
    }
}

fn cargo_install(name: &str, version: &str) -> Result<(), String> {
    let mut command = workspace::cargo();
    command.args(["install", "--quiet", "--locked"]).arg(format!("{name}@{version}"));
    process::run(&mut command)
}

/// apt-get, with the right to install.
struct Apt {
    sudo: bool,
}

impl Apt {
    fn find() -> Result<Self, String> {
        if !has_apt() {
            return Err("this is no Debian (there is no apt-get)".to_owned());
        }
        if process::stdout(Command::new("id").arg("-u")).is_some_and(|id| id.trim() == "0") {
            return Ok(Self { sudo: false });
        }
        // Without a terminal nobody can type the password.
        let sudo = succeeds(Command::new("sudo").args(["-n", "true"]))
            || (io::stdin().is_terminal() && not_on_path("sudo").is_none());
        if sudo { Ok(Self { sudo }) } else { Err("not root, and no sudo to become root".to_owned()) }
    }

    fn install(&self, tools: &[&Tool]) {
        let mut packages = Vec::new();
        for tool in tools {
            for package in tool.packages.iter().filter(|package| !is_installed(package)) {
                println!("setup: installing {package} (for {})", tool.what);
                packages.push(*package);
            }
            // All there, yet the tool does not work, so a newer version may help (an old rustc-web).
            if tool.packages.iter().all(|package| is_installed(package)) {
                println!("setup: upgrading {} (for {})", tool.packages.join(" "), tool.what);
                packages.extend(tool.packages);
            }
        }
        let known = packages.iter().all(|package| has_candidate(package));
        if known && self.apt_get("install", &packages).is_ok() {
            return;
        }
        println!("setup: updating the package lists");
        if let Err(why) = self.apt_get("update", &[]) {
            println!("setup: {why}");
        }
        // One unknown name makes apt-get refuse them all.
        packages.retain(|package| {
            let known = has_candidate(package);
            if !known {
                println!("setup: apt knows no package {package}");
            }
            known
        });
        if packages.is_empty() {
            return;
        }
        if let Err(why) = self.apt_get("install", &packages) {
            println!("setup: {why}");
        }
    }

    fn apt_get(&self, action: &str, packages: &[&str]) -> Result<(), String> {
        let mut command = Command::new(if self.sudo { "sudo" } else { "env" });
        if self.sudo {
            command.arg("env");
        }
        command
            .args([
                "DEBIAN_FRONTEND=noninteractive",
                // Kernels are for virtual machines, which bring their own.
                "INITRD=No",
                "apt-get",
                "-qq",
                "-o",
                "DPkg::Lock::Timeout=600",
                action,
            ])
            .args((action == "install").then_some(["-y", "--no-install-recommends"]).into_iter().flatten())
            .args(packages);
        let output =
            command.output().map_err(|why| format!("cannot run `{}`: {why}", process::line(&command)))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("`{}` failed ({}):\n{}", process::line(&command), output.status, said.trim_end()))
    }
}

fn is_installed(package: &str) -> bool {
    let query =
        process::stdout(Command::new("dpkg-query").args(["-W", "-f", "${db:Status-Status}", package]));
    query.is_some_and(|status| status == "installed")
}

/// Whether apt's lists have a version of the package.
fn has_candidate(package: &str) -> bool {
    process::stdout(Command::new("apt-cache").args(["show", "--no-all-versions", package]))
        .is_some_and(|record| !record.trim().is_empty())
}
