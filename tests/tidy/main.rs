//! Rules that the sources as a whole must always follow.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a failing test panics with the findings"
)]

mod attacks;
mod crates;
mod literals;
mod modules;
mod project;
mod rooms;
mod signatures;
mod sizes;
mod source;
mod sources;
mod texts;
mod uplink;
mod waits;
mod words;

/// Fails if there are findings, and lists each on a separate line.
fn none(findings: &[String], rule: &str) {
    assert!(findings.is_empty(), "{rule}:\n  {}", findings.join("\n  "));
}
