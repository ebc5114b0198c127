//! Releases the resident memory of a daemon's program code.
//!
//! Reading a configuration, opening stores and the first handshake load most of the program's code
//! into the daemon's memory. While the daemon waits, it needs none of that again. The kernel keeps
//! mapped pages longer than others, so this module releases them. Code that is needed again is read
//! from the file, at the price of a page fault.
#![allow(
    unsafe_code,
    reason = "pages of the program's own code are taken out of its memory; this file is all of it"
)]

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::ptr::with_exposed_provenance_mut;
use std::time::Duration;

use rustix::mm::{Advice, madvise};

/// The time after its start at which a daemon is idle.
pub const AT_REST: Duration = Duration::from_secs(10);

/// Releases the pages of the program's code from this process's memory, and returns the size of the
/// released address ranges in bytes. If `/proc` does not show where the code is, it does nothing.
pub fn let_code_go() -> usize {
    let Ok(program) = std::fs::metadata("/proc/self/exe") else {
        return 0;
    };
    let Ok(maps) = File::open("/proc/self/maps") else {
        return 0;
    };
    let lines = BufReader::new(maps).lines().map_while(Result::ok);
    let of_program = lines.filter_map(|line| code(&line, program.ino()));
    of_program.map(|(from, to)| let_go(from, to)).sum()
}

/// Returns the address range in a line of `/proc/self/maps`, if it is code of the file with the
/// given inode number.
fn code(line: &str, inode: u64) -> Option<(usize, usize)> {
    let mut words = line.split_ascii_whitespace();
    let (range, rights) = (words.next()?, words.next()?);
    let of: u64 = words.nth(2)?.parse().ok()?;
    if rights != "r-xp" || of != inode {
        return None;
    }
    let (from, to) = range.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    Some((address(from)?, address(to)?))
}

fn let_go(from: usize, to: usize) -> usize {
    let bytes = to.saturating_sub(from);
    // SAFETY: the pages are mapped from the program's file, readable and executable but not
    // writable, and no code has written to them: these programs have no relocations in their code.
    // The kernel reads each page from the file again at its next access.
    let taken = unsafe {
        madvise(
            with_exposed_provenance_mut(from),
            bytes,
            Advice::LinuxDontNeed,
        )
    };
    taken.map_or(0, |()| bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_of_the_program_is_let_go() {
        let line = |rights: &str, inode: u64| {
            format!("011cf000-0195a000 {rights} 001ce000 fe:00 {inode}    /usr/bin/pinch")
        };
        let range = Some((0x011c_f000, 0x0195_a000));
        assert_eq!(code(&line("r-xp", 7), 7), range);
        assert_eq!(code(&line("r-xp", 8), 7), None);
        assert_eq!(code(&line("r--p", 7), 7), None);
        assert_eq!(code(&line("rwxp", 7), 7), None);
        assert_eq!(
            code("7fd7b993a000-7fd7b9b7d000 rw-p 00000000 00:00 0", 0),
            None
        );
        assert_eq!(code("", 0), None);
    }

    #[test]
    fn a_program_goes_on_without_its_code_in_memory() {
        assert!(let_code_go() > 0);
        assert_eq!("still here".to_uppercase(), "STILL HERE");
    }
}
