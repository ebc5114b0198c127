//! Git, for the repositories of tests.

use std::path::Path;
use std::process::Command;

/// Runs git in a folder, as an author.
///
/// # Panics
/// When git fails.
pub fn git(folder: &Path, words: &[&str]) {
    let done = Command::new("git")
        .args(["-c", "user.name=a", "-c", "user.email=a@example.org", "-C"])
        .arg(folder)
        .args(words)
        .status();
    assert!(done.unwrap().success());
}
