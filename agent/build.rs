//! The options for linking the program.
#![allow(clippy::print_stdout, reason = "cargo reads this output")]
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
