//! `--version` and `--versions-report`.

use std::io::Write;
use std::process::ExitCode;

use cli::failure::Exit;

/// The Salt whose behaviour this is.
const SALT: &str = "3008.5";

/// Prints the version, or what the program is made of.
pub(crate) fn print(report: bool) -> ExitCode {
    let version = env!("CARGO_PKG_VERSION");
    if report {
        let target = env!("PINCH_TARGET");
        let commit = option_env!("PINCH_COMMIT").unwrap_or("none named, a build for oneself");
        let rustc = env!("PINCH_RUSTC");
        put(&format!(
            "Pinch: {version}\nBehaves as Salt: {SALT}\nCommit: {commit}\nTarget: {target}\nCompiler and std: {rustc}\n"
        ))
    } else {
        put(&format!("pinch {version} (behaves as salt {SALT})\n"))
    }
}

/// Writes to stdout; one who has stopped reading is no error.
pub(crate) fn put(text: &str) -> ExitCode {
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
    Exit::Ok.into()
}
