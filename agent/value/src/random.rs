//! Random bytes and numbers from getrandom(2).
//!
//! This is the only source of randomness. The call needs no file, so it works without `/dev`, and
//! its failure is returned as an error. There is no fallback, because a fallback would go untested.

use rustix::rand::{GetRandomFlags, getrandom};

use crate::log;

/// The reason why there is no random number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The kernel refused.
    #[error("Cannot get random bytes from the kernel (getrandom: {})", reason(*.0))]
    Kernel(rustix::io::Errno),
    /// The caller wants a number from an empty range.
    #[error("Cannot choose a random number below 0")]
    EmptyRange,
}

fn reason(errno: rustix::io::Errno) -> String {
    let text = std::io::Error::from(errno).to_string();
    text.split(" (os error").next().unwrap_or_default().into()
}

/// Fills a buffer with random bytes.
///
/// Early during boot it waits until the kernel has collected its first randomness: secrets that are
/// made before then would be predictable.
///
/// # Errors
/// When the kernel returns none.
pub fn bytes(mut buffer: &mut [u8]) -> Result<(), Error> {
    while !buffer.is_empty() {
        let filled = rustix::io::retry_on_intr(|| getrandom(&mut *buffer, GetRandomFlags::empty()))
            .map_err(Error::Kernel)?;
        buffer = buffer.get_mut(filled..).unwrap_or_default();
    }
    Ok(())
}

/// Returns an array of random bytes.
///
/// # Errors
/// When the kernel returns none.
pub fn array<const N: usize>() -> Result<[u8; N], Error> {
    let mut array = [0; N];
    bytes(&mut array)?;
    Ok(array)
}

/// Returns `count` random bytes.
///
/// # Errors
/// When the kernel returns none.
pub fn vec(count: usize) -> Result<Vec<u8>, Error> {
    let mut vec = vec![0; count];
    bytes(&mut vec)?;
    Ok(vec)
}

/// Returns a number from zero to below `end`, each with the same probability.
///
/// # Errors
/// When `end` is zero, or the kernel returns no random bytes.
pub fn below(end: u64) -> Result<u64, Error> {
    // 2^64 modulo `end`: with this many of the lowest numbers, some results would be likelier than
    // others.
    let unfair = end
        .wrapping_neg()
        .checked_rem(end)
        .ok_or(Error::EmptyRange)?;
    loop {
        let number = u64::from_ne_bytes(array()?);
        if number >= unfair {
            return Ok(number % end);
        }
    }
}

/// Returns an index into a list of that length.
///
/// # Errors
/// When the list is empty, or the kernel returns no random bytes.
pub fn index(length: usize) -> Result<usize, Error> {
    let end = u64::try_from(length).map_err(|_| Error::EmptyRange)?;
    usize::try_from(below(end)?).map_err(|_| Error::EmptyRange)
}

/// Returns a number from zero to `most`, for the length of a wait.
///
/// Such a number keeps machines from acting at the same moment; it protects no secret. If the
/// kernel returns no random bytes, the error is logged and half of `most` is returned, so that a
/// daemon continues to run.
pub fn jitter(most: u64) -> u64 {
    let drawn = match most.checked_add(1) {
        Some(end) => below(end),
        None => array().map(u64::from_ne_bytes),
    };
    drawn.unwrap_or_else(|error| {
        log::error(format_args!(
            "{error}; using a fixed delay instead of a random one"
        ));
        most / 2
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_filled_to_their_ends() {
        // More than the 256 bytes that a single call always fills.
        let all: [[u8; 4096]; 2] = [array().unwrap(), array().unwrap()];
        assert_ne!(all[0], all[1]);
        for part in all[0].chunks(64) {
            assert!(part.iter().any(|byte| *byte != 0));
        }
        assert_eq!(bytes(&mut []), Ok(()));
        assert_eq!(vec(3).unwrap().len(), 3);
    }

    #[test]
    fn numbers_below_an_end_are_all_drawn() {
        let mut counts = [0_u32; 3];
        for _ in 0..3000 {
            counts[index(3).unwrap()] += 1;
        }
        assert!(
            counts.iter().all(|count| (800..1200).contains(count)),
            "{counts:?}"
        );
        assert_eq!(below(1), Ok(0));
        // `end` is three quarters of all numbers: without another draw, half of the results would
        // be below `1 << 62`.
        let end = 3 << 62;
        let low = (0..3000).filter(|_| below(end).unwrap() < 1 << 62).count();
        assert!((800..1200).contains(&low), "{low}");
    }

    #[test]
    fn an_empty_range_is_an_error() {
        assert_eq!(below(0), Err(Error::EmptyRange));
        assert_eq!(index(0), Err(Error::EmptyRange));
    }

    #[test]
    fn jitter_reaches_both_ends() {
        let drawn: Vec<u64> = (0..200).map(|_| jitter(1)).collect();
        assert!(drawn.contains(&0) && drawn.contains(&1));
        assert_eq!(jitter(0), 0);
        jitter(u64::MAX);
    }

    #[test]
    fn a_failure_names_the_call_and_the_reason() {
        let error = Error::Kernel(rustix::io::Errno::NOSYS);
        assert_eq!(
            error.to_string(),
            "Cannot get random bytes from the kernel (getrandom: Function not implemented)"
        );
    }
}
