//! How both binaries compare bytes where the library is musl.
//!
//! musl's `memcmp` takes one byte after the other on every processor, and a run compares some three hundred short texts a state: keys of
//! dictionaries, names of functions. This one takes eight bytes at a time. The linker takes it in the place of the library's.
#![allow(
    unsafe_code,
    reason = "the compiler calls these by their names with addresses; this file is all of it"
)]

use std::ffi::c_int;

/// The order of the first bytes that differ, as C's function of this name.
///
/// # Safety
/// `count` bytes can be read at both addresses.
// SAFETY: it does what the C standard says of its name.
#[cfg_attr(target_env = "musl", unsafe(no_mangle))]
pub unsafe extern "C" fn memcmp(left: *const u8, right: *const u8, count: usize) -> c_int {
    // Nothing is called here: most texts are shorter than what a call costs.
    let mut at = 0;
    while at + 8 < count {
        // SAFETY: eight bytes from `at` on are among the `count` ones.
        let (one, other) = unsafe { (eight(left, at), eight(right, at)) };
        if one != other {
            return sign(one, other);
        }
        at += 8;
    }
    // SAFETY: `last` reads no more than `count` bytes.
    unsafe { sign(last(left, count), last(right, count)) }
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

#[inline(always)]
fn sign(one: u64, other: u64) -> c_int {
    c_int::from(one > other) - c_int::from(one < other)
}

/// The last eight bytes as a number that has their order. Of fewer bytes the first and the last ones, some twice: that changes no order.
#[inline(always)]
unsafe fn last(bytes: *const u8, count: usize) -> u64 {
    if count >= 8 {
        // SAFETY: there are eight.
        unsafe { eight(bytes, count - 8) }
    } else if count >= 4 {
        // SAFETY: there are four at either end.
        unsafe { four(bytes, 0) << 32 | four(bytes, count - 4) }
    } else if count > 0 {
        // SAFETY: the first, the middle and the last of one to three.
        unsafe { one(bytes, 0) << 16 | one(bytes, count / 2) << 8 | one(bytes, count - 1) }
    } else {
        0
    }
}

#[inline(always)]
unsafe fn one(bytes: *const u8, at: usize) -> u64 {
    // SAFETY: the caller has a byte there.
    u64::from(unsafe { *bytes.add(at) })
}

#[inline(always)]
unsafe fn four(bytes: *const u8, at: usize) -> u64 {
    // SAFETY: the caller has four bytes there.
    let bytes = unsafe { bytes.add(at).cast::<u32>().read_unaligned() };
    u64::from(u32::from_be(bytes))
}

#[inline(always)]
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
                assert_eq!(found, left.cmp(right) as c_int, "{left:?} {right:?}");
                // SAFETY: as above.
                let same = unsafe { bcmp(left.as_ptr(), right.as_ptr(), left.len()) } == 0;
                assert_eq!(same, left == right);
            }
        }
    }
}
