//! Sets the build data that the binaries show: the target that they are built for, and the
//! compiler.
#![allow(
    clippy::print_stdout,
    reason = "cargo reads the stdout of build scripts"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "a build asks the compiler for its version"
)]

fn main() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=PINCH_COMMIT");
    let variable = |name| std::env::var(name).unwrap_or_default();
    println!("cargo::rustc-env=PINCH_TARGET={}", variable("TARGET"));
    let compiler = compiler(&variable("RUSTC"))?;
    println!("cargo::rustc-env=PINCH_RUSTC={compiler}");
    Ok(())
}

/// Returns the compiler's version, such as `rustc 1.95.0 (…)`. std has the same version, whether it
/// came with the compiler or is built from source.
fn compiler(rustc: &str) -> std::io::Result<String> {
    let output = std::process::Command::new(rustc)
        .arg("--version")
        .output()?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
