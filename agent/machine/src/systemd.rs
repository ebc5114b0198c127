//! systemd, if it started this machine.

use std::path::Path;
use std::sync::OnceLock;

/// Returns true where systemd started this system. This is checked once, because `systemctl mask
/// --runtime` creates the same folder on other systems.
#[must_use]
pub fn booted() -> bool {
    static BOOTED: OnceLock<bool> = OnceLock::new();
    *BOOTED.get_or_init(|| Path::new("/run/systemd/system").exists())
}
