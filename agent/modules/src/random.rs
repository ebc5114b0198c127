//! Random bytes and numbers, from the system.

use std::io::Read;

/// So many random bytes.
#[must_use]
pub fn bytes(count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    // A machine without it has no other source; what reads them here guards no secret.
    if let Ok(mut source) = std::fs::File::open("/dev/urandom") {
        let _ = source.read_exact(&mut bytes);
    }
    bytes
}

/// A random number below `end`; 0 when that is 0.
#[must_use]
pub fn below(end: u64) -> u64 {
    let number = bytes(8)
        .iter()
        .fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    number.checked_rem(end).unwrap_or(0)
}
