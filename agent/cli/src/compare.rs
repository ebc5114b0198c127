//! How both binaries compare bytes where the library is musl.
//!
//! musl's `memcmp` takes one byte after the other on every processor, and a run compares some three hundred short texts a state: keys of
//! dictionaries, names of functions. This one takes eight bytes at a time. The linker takes it in the place of the library's.
#![allow(
    unsafe_code,
    reason = "the compiler calls these by their names with addresses; this file is all of it"
)]

use std::cmp::Ordering;
use std::ffi::c_int;

/// The order of the first bytes that differ, as C's function of this name.
///
/// # Safety
/// `count` bytes can be read at both addresses.
// SAFETY: it does what the C standard says of its name.
#[cfg_attr(target_env = "musl", unsafe(no_mangle))]
pub unsafe extern "C" fn memcmp(left: *const u8, right: *const u8, count: usize) -> c_int {
    let mut at = 0;
    while at + 8 <= count {
        // SAFETY: eight bytes from `at` on are among the `count` ones.
        let (one, other) = unsafe { (eight(left, at), eight(right, at)) };
        if one != other {
            return sign(one.cmp(&other));
        }
        at += 8;
    }
    // SAFETY: `last` reads no more than `count` bytes.
    let (one, other) = unsafe { (last(left, count), last(right, count)) };
    sign(one.cmp(&other))
}

/// Zero where the bytes are the same.
///
/// # Safety
/// As for `memcmp`.
// SAFETY: what `memcmp` answers is right for this name too.
#[cfg_attr(target_env = "musl", unsafe(no_mangle))]
pub unsafe extern "C" fn bcmp(left: *const u8, right: *const u8, count: usize) -> c_int {
    // SAFETY: the caller makes the same promise.
    unsafe { memcmp(left, right, count) }
}

fn sign(order: Ordering) -> c_int {
    c_int::from(order as i8)
}

/// The last eight bytes as a number that has their order. Of fewer bytes the first and the last ones, some twice: that changes no order.
unsafe fn last(bytes: *const u8, count: usize) -> u64 {
    match count {
        0 => 0,
        // SAFETY: the first, the middle and the last of one to three bytes.
        1..4 => [0, count / 2, count - 1]
            .into_iter()
            .fold(0, |all, at| all << 8 | u64::from(unsafe { *bytes.add(at) })),
        // SAFETY: four bytes at either end of four to seven.
        4..8 => unsafe { four(bytes, 0) << 32 | four(bytes, count - 4) },
        // SAFETY: there are eight or more.
        _ => unsafe { eight(bytes, count - 8) },
    }
}

unsafe fn four(bytes: *const u8, at: usize) -> u64 {
    // SAFETY: the caller has four bytes there.
    u64::from(u32::from_be(unsafe {
        bytes.add(at).cast::<u32>().read_unaligned()
    }))
}

unsafe fn eight(bytes: *const u8, at: usize) -> u64 {
    // SAFETY: the caller has eight bytes there.
    u64::from_be(unsafe { bytes.add(at).cast::<u64>().read_unaligned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All texts of two letters up to a length, and long ones that differ at one place.
    fn texts() -> Vec<Vec<u8>> {
        let short = (0..10_u32).flat_map(|length| {
            (0..1 << length).map(move |bits| {
                let letter = |at| if bits >> at & 1 == 0 { 1 } else { 200 };
                (0..length).map(letter).collect()
            })
        });
        let long = (0..40).map(|place| {
            let letter = |at| if at == place { 255 } else { 7 };
            (0..40).map(letter).collect()
        });
        short.chain(long).collect()
    }

    #[test]
    fn bytes_have_the_order_that_slices_have() {
        let texts = texts();
        for left in &texts {
            for right in texts.iter().filter(|right| right.len() == left.len()) {
                // SAFETY: both have as many bytes.
                let found = unsafe { memcmp(left.as_ptr(), right.as_ptr(), left.len()) };
                assert_eq!(found, sign(left.cmp(right)), "{left:?} {right:?}");
                // SAFETY: as above.
                let same = unsafe { bcmp(left.as_ptr(), right.as_ptr(), left.len()) } == 0;
                assert_eq!(same, left == right);
            }
        }
    }
}
