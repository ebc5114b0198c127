//! Byte comparison for binaries that are linked with musl.
//!
//! musl's `memcmp` compares one byte at a time on every processor, and a run compares about three
//! hundred short texts for each state: keys of dictionaries, names of functions. The function in
//! this file compares eight bytes at a time. The linker uses it instead of musl's.
#![allow(
    unsafe_code,
    reason = "the compiler calls these by their names with addresses; this file is all of it"
)]

use std::ffi::c_int;

/// Compares the first bytes that differ, like the C function of this name.
///
/// # Safety
/// `count` bytes can be read at both addresses.
// SAFETY: this function does what the C standard says about its name.
#[cfg_attr(target_env = "musl", unsafe(no_mangle))]
pub unsafe extern "C" fn memcmp(left: *const u8, right: *const u8, count: usize) -> c_int {
    // This function calls no other function, because most texts are so short that a call costs more
    // than the comparison.
    let mut at = 0;
    while at + 8 < count {
        // SAFETY: the eight bytes from `at` are within the `count` bytes.
        let (one, other) = unsafe { (eight(left, at), eight(right, at)) };
        if one != other {
            return sign(one, other);
        }
        at += 8;
    }
    // SAFETY: `last` reads no more than `count` bytes.
    unsafe { sign(last(left, count), last(right, count)) }
}

/// Returns zero if the bytes are the same.
///
/// # Safety
/// The same as for [`memcmp`].
// SAFETY: the result of `memcmp` is a correct result for this name too.
#[cfg_attr(target_env = "musl", unsafe(no_mangle))]
pub unsafe extern "C" fn bcmp(left: *const u8, right: *const u8, count: usize) -> c_int {
    // SAFETY: the caller makes the same promise.
    unsafe { memcmp(left, right, count) }
}

#[inline(always)]
fn sign(one: u64, other: u64) -> c_int {
    c_int::from(one > other) - c_int::from(one < other)
}

/// Returns the last eight bytes as a number that sorts in their order. If there are fewer bytes, it
/// combines the first and the last ones, so some count twice. That does not change the order.
#[inline(always)]
unsafe fn last(bytes: *const u8, count: usize) -> u64 {
    if count >= 8 {
        // SAFETY: there are at least eight bytes.
        unsafe { eight(bytes, count - 8) }
    } else if count >= 4 {
        // SAFETY: there are at least four bytes from the start and up to the end.
        unsafe { four(bytes, 0) << 32 | four(bytes, count - 4) }
    } else if count > 0 {
        // SAFETY: these are the first, the middle and the last of one to three bytes.
        unsafe { one(bytes, 0) << 16 | one(bytes, count / 2) << 8 | one(bytes, count - 1) }
    } else {
        0
    }
}

#[inline(always)]
unsafe fn one(bytes: *const u8, at: usize) -> u64 {
    // SAFETY: the caller guarantees a byte at this address.
    u64::from(unsafe { *bytes.add(at) })
}

#[inline(always)]
unsafe fn four(bytes: *const u8, at: usize) -> u64 {
    // SAFETY: the caller guarantees four bytes at this address.
    let bytes = unsafe { bytes.add(at).cast::<u32>().read_unaligned() };
    u64::from(u32::from_be(bytes))
}

#[inline(always)]
unsafe fn eight(bytes: *const u8, at: usize) -> u64 {
    // SAFETY: the caller guarantees eight bytes at this address.
    u64::from_be(unsafe { bytes.add(at).cast::<u64>().read_unaligned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns all texts of two letters up to a maximum length, and long ones that differ at one
    /// position.
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
                // SAFETY: both slices have the same length.
                let found = unsafe { memcmp(left.as_ptr(), right.as_ptr(), left.len()) };
                assert_eq!(found, left.cmp(right) as c_int, "{left:?} {right:?}");
                // SAFETY: both slices have the same length.
                let same = unsafe { bcmp(left.as_ptr(), right.as_ptr(), left.len()) } == 0;
                assert_eq!(same, left == right);
            }
        }
    }
}
