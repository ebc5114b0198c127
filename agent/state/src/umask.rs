//! The global state argument `umask`: a file mode creation mask for a single thread.
//!
//! Linux keeps the umask in a structure that threads share. A chunk with `umask` first creates a
//! copy of that structure for its thread (`unshare(2)` with `CLONE_FS`), so that neither other
//! chunks nor the rest of the program use the changed mask.

use std::cell::Cell;
use std::io;
use std::sync::LazyLock;

use rustix::fs::Mode;
use rustix::process::umask;
use rustix::thread::UnshareFlags;

thread_local! {
    static CURRENT: Cell<Option<u32>> = const { Cell::new(None) };
}

/// The file with this process's mask.
const STATUS: &str = "/proc/self/status";

/// The mask with which the program was started. The program never changes it.
static INHERITED: LazyLock<u32> = LazyLock::new(|| {
    let status = value::read::or_log(STATUS, std::fs::read_to_string(STATUS)).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    mask.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok())
        .unwrap_or(0o022)
});

/// Returns the mask for new files of this thread.
#[must_use]
pub fn current() -> u32 {
    CURRENT.get().unwrap_or_else(|| *INHERITED)
}

/// Restores the previous mask of this thread when dropped.
#[derive(Debug)]
pub(crate) struct Umask {
    mask: Mode,
    current: Option<u32>,
}

impl Umask {
    /// Sets the mask of this thread.
    ///
    /// # Errors
    /// When the kernel does not allow this thread a separate mask, as in some containers.
    pub(crate) fn set(mask: u32) -> io::Result<Self> {
        unshare()?;
        Ok(Self {
            mask: umask(Mode::from_raw_mode(mask)),
            current: CURRENT.replace(Some(mask)),
        })
    }
}

impl Drop for Umask {
    fn drop(&mut self) {
        umask(self.mask);
        CURRENT.set(self.current);
    }
}

#[expect(
    unsafe_code,
    reason = "the call is only unsafe with CLONE_FILES, which is not used here"
)]
fn unshare() -> io::Result<()> {
    // SAFETY: only the umask, the root and the working directory are no longer shared with other
    // threads, and the program changes none of these for another thread to see.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::FS) }.map_err(io::Error::from)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn mode_of_new_file(dir: &std::path::Path, name: &str) -> u32 {
        let path = dir.join(name);
        std::fs::write(&path, "").unwrap();
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_mask_holds_for_its_thread_until_it_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let outside = mode_of_new_file(dir.path(), "before");
        let guard = Umask::set(0o077).unwrap();
        assert_eq!(mode_of_new_file(dir.path(), "within"), 0o600);
        assert_eq!(current(), 0o077);
        let other = std::thread::scope(|scope| {
            let started = std::thread::spawn(current);
            let inner = Umask::set(0o027).unwrap();
            assert_eq!(mode_of_new_file(dir.path(), "nested"), 0o640);
            drop(inner);
            scope.spawn(|| ()).join().unwrap();
            started.join().unwrap()
        });
        assert_ne!(other, 0o077);
        assert_eq!(mode_of_new_file(dir.path(), "again"), 0o600);
        drop(guard);
        assert_eq!(mode_of_new_file(dir.path(), "after"), outside);
    }
}
