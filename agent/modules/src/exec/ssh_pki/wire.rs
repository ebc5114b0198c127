//! The binary encoding of SSH (RFC 4251, section 5).

/// A reader of consecutive fields. Each method returns `None` if the data ends too early.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (field, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(field)
    }

    /// Reads a number of 32 bits.
    pub(super) fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().map(u32::from_be_bytes).ok()
    }

    /// Reads a number of 64 bits.
    pub(super) fn u64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().map(u64::from_be_bytes).ok()
    }

    /// Reads bytes after their length.
    pub(super) fn string(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.u32()?).ok()?;
        self.take(length)
    }

    /// Reads a positive number of any size and returns its bytes without leading zeros.
    pub(super) fn number(&mut self) -> Option<&'a [u8]> {
        let bytes = self.string()?;
        let is_negative = bytes.first().is_some_and(|first| first & 0x80 != 0);
        (!is_negative).then(|| bare(bytes))
    }

    /// Succeeds if nothing is left.
    pub(super) fn end(&self) -> Option<()> {
        self.0.is_empty().then_some(())
    }
}

/// Returns the bytes of a number without leading zeros.
pub(super) fn bare(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes.get(zeros..).unwrap_or_default()
}

/// Appends bytes after their length.
pub(super) fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    // A key, a certificate or a part of one, of at most a few megabytes.
    out.extend((bytes.len() as u32).to_be_bytes());
    out.extend(bytes);
}

/// Appends a positive number of any size.
pub(super) fn put_number(out: &mut Vec<u8>, bytes: &[u8]) {
    let bytes = bare(bytes);
    match bytes.first() {
        Some(first) if first & 0x80 != 0 => put(out, &[&[0], bytes].concat()),
        _ => put(out, bytes),
    }
}

/// Returns the remainder of a division of two positive numbers.
pub(super) fn remainder(number: &[u8], divisor: &[u8]) -> Vec<u8> {
    let mut left = vec![0; divisor.len() + 1];
    let divisor = [&[0], divisor].concat();
    for byte in number {
        for bit in (0..8).rev() {
            let mut carry = byte >> bit & 1;
            for digit in left.iter_mut().rev() {
                (*digit, carry) = (*digit << 1 | carry, *digit >> 7);
            }
            if left >= divisor {
                subtract(&mut left, &divisor);
            }
        }
    }
    bare(&left).to_vec()
}

/// Subtracts a number of the same length that is not greater.
fn subtract(from: &mut [u8], number: &[u8]) {
    let mut borrowed = false;
    for (digit, other) in from.iter_mut().zip(number).rev() {
        let (rest, first) = digit.overflowing_sub(*other);
        let (rest, second) = rest.overflowing_sub(u8::from(borrowed));
        (*digit, borrowed) = (rest, first || second);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_as_they_were_written() {
        let mut out = Vec::new();
        put(&mut out, b"ssh");
        put_number(&mut out, &[0, 0x80, 1]);
        put_number(&mut out, &[0, 0]);
        let mut reader = Reader(&out);
        assert_eq!(reader.string(), Some(&b"ssh"[..]));
        assert_eq!(reader.number(), Some(&[0x80, 1][..]));
        assert_eq!(reader.number(), Some(&[][..]));
        assert_eq!(reader.end(), Some(()));
        assert_eq!(Reader(&[0, 0, 0, 9, 1]).string(), None);
        assert_eq!(Reader(&[0, 0, 0, 1, 0x80]).number(), None);
    }

    #[test]
    fn remainders_are_those_of_integer_division() {
        let of = |number: u64, divisor: u64| {
            let divisor = divisor.to_be_bytes();
            let left = remainder(&number.to_be_bytes(), bare(&divisor));
            left.iter().fold(0, |all, byte| all << 8 | u64::from(*byte))
        };
        for (number, divisor) in [
            (1_000_003, 17),
            (u64::MAX, 65_537),
            (5, 7),
            (0, 3),
            (u64::MAX, u64::MAX - 1),
        ] {
            assert_eq!(
                of(number, divisor),
                number % divisor,
                "{number} % {divisor}"
            );
        }
    }
}
