//! Tests that this machine cannot run, for example because they need root. A machine that must run
//! them all sets `PINCH_ALL=1`; there a skipped test fails.

/// Prints that a test is skipped, and why.
///
/// # Panics
///
/// Panics if `PINCH_ALL` is set.
#[expect(
    clippy::print_stderr,
    reason = "the test output must name the tests that were skipped"
)]
pub fn skip(reason: &str) {
    assert!(
        std::env::var_os("PINCH_ALL").is_none(),
        "PINCH_ALL is set, but this test cannot run here: {reason}"
    );
    eprintln!("skipped: {reason}");
}

/// Prints that a test is left to a later run, for which something is still missing, and why.
#[expect(
    clippy::print_stderr,
    reason = "the test output must name the tests that were skipped"
)]
pub fn leave(reason: &str) {
    eprintln!("skipped: {reason}");
}

/// Returns whether the test runs as root. If it does not, the test is skipped.
///
/// # Panics
///
/// Panics if the test does not run as root and `PINCH_ALL` is set.
#[must_use]
pub fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        skip("it needs root");
    }
    root
}
