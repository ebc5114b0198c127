//! How the binary is linked, and what it says of itself.
#![allow(clippy::print_stdout, reason = "that is how cargo is told")]
#![allow(
    clippy::disallowed_methods,
    reason = "a build writes into its own folder"
)]

use std::path::Path;

/// A release does not unwind: it needs no tables for that, and they would be an eighth of it.
const SCRIPT: &str =
    "SECTIONS { /DISCARD/ : { *(.eh_frame) *(.eh_frame_hdr) } } INSERT AFTER .text;\n";

fn main() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name| std::env::var(name).unwrap_or_default();
    println!("cargo::rerun-if-env-changed=PINCH_COMMIT");
    println!("cargo::rustc-env=PINCH_TARGET={}", variable("TARGET"));
    println!(
        "cargo::rustc-env=PINCH_RUSTC={}",
        compiler(&variable("RUSTC"))?
    );
    if variable("CARGO_CFG_TARGET_ENV") != "gnu" {
        return Ok(());
    }
    // A position independent binary has half a megabyte of relocations; packed they are six kilobytes.
    println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    if variable("PROFILE") == "release" {
        let script = Path::new(&variable("OUT_DIR")).join("link.ld");
        std::fs::write(&script, SCRIPT)?;
        println!("cargo::rustc-link-arg-bins=-Wl,-T,{}", script.display());
    }
    Ok(())
}

/// `rustc 1.95.0 (…)`: std is of the same version, whether it came with the compiler or is built from source.
fn compiler(rustc: &str) -> std::io::Result<String> {
    let output = std::process::Command::new(rustc)
        .arg("--version")
        .output()?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
