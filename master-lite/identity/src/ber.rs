//! Reads BER, the encoding of certificates and signed messages; DER is its strict form. AWS writes
//! elements of indefinite length.

/// The maximum nesting of elements of indefinite length.
const DEPTH_MAX: usize = 16;
/// The bit in the tag of an element that contains elements.
const CONSTRUCTED: u8 = 0x20;

pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const BIT_STRING: u8 = 0x03;
pub(crate) const OCTETS: u8 = 0x04;
pub(crate) const OID: u8 = 0x06;
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;

/// A sequence of elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ber<'a>(pub(crate) &'a [u8]);

/// An element.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'a> {
    pub(crate) tag: u8,
    pub(crate) inside: &'a [u8],
    /// The element with its tag and length.
    pub(crate) whole: &'a [u8],
}

/// Returns the tag, the length if it is definite, and the rest.
fn head(bytes: &[u8]) -> Option<(u8, Option<usize>, &[u8])> {
    let (tag, rest) = bytes.split_first()?;
    let (first, rest) = rest.split_first()?;
    if tag & 0x1f == 0x1f {
        return None;
    }
    match *first {
        short @ 0..=0x7f => Some((*tag, Some(usize::from(short)), rest)),
        0x80 => (tag & CONSTRUCTED != 0).then_some((*tag, None, rest)),
        long => {
            let (length, rest) = rest.split_at_checked(usize::from(long & 0x7f))?;
            let length = (length.len() <= 4).then_some(length)?;
            let add = |all: usize, byte: &u8| all << 8 | usize::from(*byte);
            Some((*tag, Some(length.iter().fold(0, add)), rest))
        }
    }
}

fn part(bytes: &[u8], depth: usize) -> Option<(Part<'_>, &[u8])> {
    let (tag, length, rest) = head(bytes)?;
    let (inside, rest) = match length {
        Some(length) => rest.split_at_checked(length)?,
        None => unbounded(rest, depth.checked_sub(1)?)?,
    };
    let whole = bytes.get(..bytes.len() - rest.len())?;
    Some((Part { tag, inside, whole }, rest))
}

/// Returns the content of an element of indefinite length, and the bytes after its end.
fn unbounded(bytes: &[u8], depth: usize) -> Option<(&[u8], &[u8])> {
    let mut rest = bytes;
    loop {
        if let Some(after) = rest.strip_prefix(&[0, 0]) {
            return Some((bytes.get(..bytes.len() - rest.len())?, after));
        }
        rest = part(rest, depth)?.1;
    }
}

impl<'a> Ber<'a> {
    pub(crate) fn next(&mut self) -> Option<Part<'a>> {
        let (part, rest) = part(self.0, DEPTH_MAX)?;
        self.0 = rest;
        Some(part)
    }

    /// Returns the next element, if it has this tag.
    pub(crate) fn take(&mut self, tag: u8) -> Option<Part<'a>> {
        (self.0.first() == Some(&tag)).then(|| self.next())?
    }

    pub(crate) fn parts(self) -> impl Iterator<Item = Part<'a>> {
        let mut ber = self;
        std::iter::from_fn(move || ber.next())
    }
}

impl<'a> Part<'a> {
    pub(crate) fn ber(self) -> Ber<'a> {
        Ber(self.inside)
    }

    /// Returns the bytes of an octet string, which may be split into pieces.
    pub(crate) fn octets(self) -> Option<Vec<u8>> {
        match self.tag {
            OCTETS => Some(self.inside.to_vec()),
            tag if tag == OCTETS | CONSTRUCTED => {
                let mut pieces = self.ber();
                let mut bytes = Vec::new();
                while !pieces.0.is_empty() {
                    bytes.extend(pieces.take(OCTETS)?.inside);
                }
                Some(bytes)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_lengths_before_them_or_an_end_behind_them() {
        let mut ber = Ber(&[0x02, 1, 5, 0x24, 0x80, 4, 1, 9, 4, 2, 8, 7, 0, 0, 0x30, 0]);
        assert_eq!(ber.take(INTEGER).unwrap().inside, [5]);
        let octets = ber.next().unwrap();
        assert_eq!(octets.octets().unwrap(), [9, 8, 7]);
        assert_eq!(octets.whole.len(), 11);
        assert!(ber.take(OCTETS).is_none());
        assert!(ber.take(SEQUENCE).unwrap().inside.is_empty());
        assert!(ber.next().is_none());
    }

    #[test]
    fn what_is_cut_short_or_too_deep_is_no_part() {
        for bytes in [
            &[0x30][..],
            &[0x30, 3, 0],
            &[0x30, 0x84, 0xff, 0xff, 0xff, 0xff],
            &[0x30, 0x85, 0, 0, 0, 0, 1, 0],
            &[0x30, 0x80, 4, 1, 1],
            &[0x04, 0x80, 0, 0],
            &[0x1f, 0],
        ] {
            assert!(Ber(bytes).next().is_none(), "{bytes:?}");
        }
        let deep = |levels: usize| {
            let open = [0x30, 0x80].repeat(levels);
            [open, vec![0; levels * 2]].concat()
        };
        assert!(Ber(&deep(DEPTH_MAX)).next().is_some());
        assert!(Ber(&deep(DEPTH_MAX + 1)).next().is_none());
        assert!(Ber(&deep(100_000)).next().is_none());
    }
}
