//! The scale: each power of two and the numbers up to the next one have four buckets.

/// The number of bits after the highest one that select the bucket.
const BITS: u32 = 2;
/// The number of buckets from a power of two to the next one. Numbers below it are buckets themselves.
const GROUP: u64 = 1 << BITS;

/// Returns the bucket of a number.
pub(crate) fn bucket(value: u64) -> usize {
    let shift = shift(value);
    // The highest bit counts as one group more, because the first group has no such bit.
    let bucket = u64::from(shift) * GROUP + (value >> shift);
    usize::try_from(bucket).unwrap_or(usize::MAX)
}

/// Returns the smallest and the highest number of a bucket.
pub(crate) fn bounds(bucket: usize) -> (u64, u64) {
    let bucket = u64::try_from(bucket).unwrap_or(u64::MAX);
    let group = bucket / GROUP;
    if group < 2 {
        return (bucket, bucket);
    }
    let shift = group - 1;
    let low = (bucket - shift * GROUP) << shift;
    (low, low + ((1 << shift) - 1))
}

/// Returns the middle of a bucket, which is at most half of its width from each of its numbers.
pub(crate) fn middle(bucket: usize) -> u64 {
    let (low, high) = bounds(bucket);
    low + (high - low) / 2
}

/// Returns the number of low bits that do not count.
fn shift(value: u64) -> u32 {
    let bits = u64::BITS - value.leading_zeros();
    bits.saturating_sub(BITS + 1)
}
