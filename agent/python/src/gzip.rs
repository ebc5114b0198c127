//! Python's `gzip`: unpacks data that is in memory.

/// The sizes of the codes of lengths, in the order in which a block has them.
const LENGTH_ORDER: [usize; 19] = [
    16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15,
];

/// The maximum length of a code in bits.
const BITS_MAX: usize = 15;

/// Unpacks gzip data of one or more members, to at most `max` bytes.
///
/// # Errors
/// When the data is not gzip, is damaged or cut, or has more than `max` bytes when unpacked.
pub fn decompress(data: &[u8], max: usize) -> Result<Vec<u8>, String> {
    let mut input = Input {
        data,
        at: 0,
        bits: 0,
        count: 0,
    };
    let mut out = Vec::new();
    while input.at < data.len() {
        header(&mut input)?;
        let start = out.len();
        inflate(&mut input, &mut out, start, max)?;
        let (sum, size) = (input.number()?, input.number()?);
        let member = out.get(start..).unwrap_or_default();
        if sum != crc32(member) {
            return Err("CRC check failed".into());
        }
        if size != member.len() as u32 {
            return Err("Incorrect length of data produced".into());
        }
    }
    Ok(out)
}

/// The compressed data, read bit by bit from the lowest one of each byte.
struct Input<'a> {
    data: &'a [u8],
    at: usize,
    bits: u32,
    count: u32,
}

impl Input<'_> {
    fn byte(&mut self) -> Result<u8, String> {
        let cut = || "Compressed file ended before the end-of-stream marker was reached".to_owned();
        let byte = self.data.get(self.at).copied().ok_or_else(cut)?;
        self.at += 1;
        Ok(byte)
    }

    /// Returns the next bits as a number, of at most 16 bits.
    fn take(&mut self, count: u32) -> Result<usize, String> {
        while self.count < count {
            self.bits |= u32::from(self.byte()?) << self.count;
            self.count += 8;
        }
        let taken = self.bits & ((1 << count) - 1);
        self.bits >>= count;
        self.count -= count;
        Ok(taken as usize)
    }

    /// Skips the rest of the current byte.
    fn align(&mut self) {
        (self.bits, self.count) = (0, 0);
    }

    fn number(&mut self) -> Result<u32, String> {
        let bytes = [self.byte()?, self.byte()?, self.byte()?, self.byte()?];
        Ok(u32::from_le_bytes(bytes))
    }

    fn text(&mut self) -> Result<(), String> {
        while self.byte()? != 0 {}
        Ok(())
    }
}

/// Reads the header of a member.
fn header(input: &mut Input<'_>) -> Result<(), String> {
    if (input.byte()?, input.byte()?) != (0x1f, 0x8b) {
        return Err("Not a gzipped file".into());
    }
    if input.byte()? != 8 {
        return Err("Unknown compression method".into());
    }
    let flags = input.byte()?;
    for _ in 0..6 {
        input.byte()?;
    }
    if flags & 4 != 0 {
        let length = u16::from_le_bytes([input.byte()?, input.byte()?]);
        for _ in 0..length {
            input.byte()?;
        }
    }
    for _ in 0..(flags >> 3 & 1) + (flags >> 4 & 1) {
        input.text()?;
    }
    if flags & 2 != 0 {
        input.byte()?;
        input.byte()?;
    }
    Ok(())
}

/// A canonical Huffman code: the number of codes of each length, and the symbols in their order.
struct Code {
    counts: [u16; BITS_MAX + 1],
    symbols: Vec<u16>,
}

impl Code {
    fn from_lengths(lengths: &[u8]) -> Self {
        let mut counts = [0; BITS_MAX + 1];
        let mut symbols: Vec<u16> = Vec::new();
        for length in 1..=BITS_MAX {
            let of_length = lengths
                .iter()
                .zip(0..)
                .filter(|(own, _)| usize::from(**own) == length);
            let before = symbols.len();
            symbols.extend(of_length.map(|(_, symbol): (_, u16)| symbol));
            if let Some(count) = counts.get_mut(length) {
                *count = (symbols.len() - before) as u16;
            }
        }
        Self { counts, symbols }
    }

    fn read(&self, input: &mut Input<'_>) -> Result<usize, String> {
        let (mut code, mut first, mut index) = (0, 0, 0);
        for count in self.counts.iter().skip(1) {
            let count = usize::from(*count);
            code |= input.take(1)?;
            if code < first + count {
                let symbol = self.symbols.get(index + code - first);
                return symbol
                    .map(|symbol| usize::from(*symbol))
                    .ok_or_else(invalid);
            }
            index += count;
            first = (first + count) << 1;
            code <<= 1;
        }
        Err(invalid())
    }
}

fn invalid() -> String {
    "Error -3 while decompressing data: invalid code".to_owned()
}

/// Unpacks the blocks of one member, whose output begins at `start`.
fn inflate(
    input: &mut Input<'_>,
    out: &mut Vec<u8>,
    start: usize,
    max: usize,
) -> Result<(), String> {
    loop {
        let last = input.take(1)? == 1;
        match input.take(2)? {
            0 => stored(input, out, max)?,
            1 => {
                let lengths: Vec<u8> = (0..288)
                    .map(|symbol| match symbol {
                        0..144 => 8,
                        144..256 => 9,
                        256..280 => 7,
                        _ => 8,
                    })
                    .collect();
                let codes = (Code::from_lengths(&lengths), Code::from_lengths(&[5; 30]));
                compressed(input, out, start, max, &codes)?;
            }
            2 => {
                let codes = dynamic(input)?;
                compressed(input, out, start, max, &codes)?;
            }
            _ => return Err(invalid()),
        }
        if last {
            input.align();
            return Ok(());
        }
    }
}

fn put(out: &mut Vec<u8>, byte: u8, max: usize) -> Result<(), String> {
    if out.len() >= max {
        return Err(format!("The data has more than {max} bytes when unpacked"));
    }
    out.push(byte);
    Ok(())
}

fn stored(input: &mut Input<'_>, out: &mut Vec<u8>, max: usize) -> Result<(), String> {
    input.align();
    let length = u16::from_le_bytes([input.byte()?, input.byte()?]);
    let inverse = u16::from_le_bytes([input.byte()?, input.byte()?]);
    if length != !inverse {
        return Err(invalid());
    }
    for _ in 0..length {
        put(out, input.byte()?, max)?;
    }
    Ok(())
}

/// Reads the codes of a block that contains them.
fn dynamic(input: &mut Input<'_>) -> Result<(Code, Code), String> {
    let literals = input.take(5)? + 257;
    let distances = input.take(5)? + 1;
    let count = input.take(4)? + 4;
    let mut lengths = [0; 19];
    for place in LENGTH_ORDER.iter().take(count) {
        let length = input.take(3)? as u8;
        if let Some(own) = lengths.get_mut(*place) {
            *own = length;
        }
    }
    let code = Code::from_lengths(&lengths);
    let mut all: Vec<u8> = Vec::new();
    while all.len() < literals + distances {
        let (length, times) = match code.read(input)? {
            16 => (all.last().copied().ok_or_else(invalid)?, 3 + input.take(2)?),
            17 => (0, 3 + input.take(3)?),
            18 => (0, 11 + input.take(7)?),
            length => (length as u8, 1),
        };
        all.extend(std::iter::repeat_n(length, times));
    }
    if all.len() > literals + distances {
        return Err(invalid());
    }
    let (first, second) = all.split_at_checked(literals).ok_or_else(invalid)?;
    Ok((Code::from_lengths(first), Code::from_lengths(second)))
}

/// Unpacks the symbols of one block.
fn compressed(
    input: &mut Input<'_>,
    out: &mut Vec<u8>,
    start: usize,
    max: usize,
    (literals, distances): &(Code, Code),
) -> Result<(), String> {
    loop {
        match literals.read(input)? {
            byte @ 0..=255 => put(out, byte as u8, max)?,
            256 => return Ok(()),
            symbol => {
                let length = extended(input, symbol - 257, 4, 3)?;
                let length = if symbol == 285 { 258 } else { length };
                let symbol = distances.read(input)?;
                let distance = extended(input, symbol, 2, 1)?;
                copy(out, start, max, length, distance)?;
            }
        }
    }
}

/// Returns the length or distance of a symbol. `group` symbols share a number of extra bits, and
/// the first symbol means `base`.
fn extended(
    input: &mut Input<'_>,
    symbol: usize,
    group: usize,
    base: usize,
) -> Result<usize, String> {
    if symbol >= 30 {
        return Err(invalid());
    }
    if symbol < 2 * group {
        return Ok(base + symbol);
    }
    let bits = symbol / group - 1;
    if group == 4 && bits > 5 {
        // The longest length has no extra bits.
        return Ok(0);
    }
    Ok(base + ((group + symbol % group) << bits) + input.take(bits as u32)?)
}

fn copy(
    out: &mut Vec<u8>,
    start: usize,
    max: usize,
    length: usize,
    distance: usize,
) -> Result<(), String> {
    let from = out
        .len()
        .checked_sub(distance)
        .filter(|from| *from >= start);
    let from = from.ok_or_else(invalid)?;
    for place in from..from + length {
        let byte = out.get(place).copied().ok_or_else(invalid)?;
        put(out, byte, max)?;
    }
    Ok(())
}

fn crc32(data: &[u8]) -> u32 {
    let step = |sum: u32, byte: &u8| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            (sum >> 1) ^ if sum & 1 == 1 { 0xedb8_8320 } else { 0 }
        })
    };
    !data.iter().fold(u32::MAX, step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base64;

    const DYNAMIC: &str = "H4sIAAAAAAACA42UQWrEMAxF9z2Fj2BJtmP3NoFmmECYKdPAXL8tlrJ++4eQ//PXsT+2lNPzltZ0248tvffznt7P19dPOu/rmV7b97aenyl/HP+oAFQmqgAtEzWAjokWskCbbAWs1sk2wJrPXcjLfN8O2OYxDMB2T1eINMmhDXnTmE3USfGtxZASz0OQwOFJC1IYDqUh4TGbaNQeexORppHJQN8pmkJclnCpxGUpMRvVsPveSlxW9UyUuKyL563EZQuXSly2azZxuVx7E5fLlQmqZeRtxOUIl0ZcjvgnhnqZ4xMaKmaOH26omRL1sYpOSvi0hvAovhGhYnFVrLOLFckQpVL/7uEv4kY3nCAHAAA=";
    const BOMB: &str = "H4sIAAAAAAACA+3BMQEAAADCoPVPbQ0PoAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAIBXA32VEdSghgEA";

    fn unpacked(text: &str) -> Result<Vec<u8>, String> {
        decompress(&base64::decode(text).unwrap(), 1 << 20)
    }

    #[test]
    fn data_of_pythons_gzip_is_unpacked() {
        let dynamic: String = (0..40)
            .map(|i| format!("line {i} of a file with words that repeat: {}\n", i * i))
            .collect();
        assert_eq!(
            unpacked("H4sIAAAAAAACA8tIzcnJV8hAkFwAO3yK3xIAAAA=").unwrap(),
            b"hello hello hello\n"
        );
        assert_eq!(
            unpacked("H4sIAAAAAAAEAwEUAOv/AAECAwQFBgcICQoLDA0ODxAREhOk/907FAAAAA==").unwrap(),
            (0..20).collect::<Vec<u8>>()
        );
        assert_eq!(
            unpacked("H4sIAAAAAAACA8vPSwUA8YZsegMAAAAfiwgAAAAAAAIDUygpzwcAViP9bwQAAAA=").unwrap(),
            b"one two"
        );
        assert_eq!(unpacked(DYNAMIC).unwrap(), dynamic.as_bytes());
        assert_eq!(unpacked("").unwrap(), b"");
    }

    #[test]
    fn damaged_data_is_an_error_and_never_a_panic() {
        let good = base64::decode(DYNAMIC).unwrap();
        for place in 0..good.len() {
            assert!(decompress(good.get(..place).unwrap(), 1 << 20).is_err() || place == 0);
            for bit in 0..8 {
                let mut bad = good.clone();
                *bad.get_mut(place).unwrap() ^= 1 << bit;
                drop(decompress(&bad, 1 << 20));
            }
        }
        assert_eq!(decompress(b"plain", 9).unwrap_err(), "Not a gzipped file");
    }

    #[test]
    fn a_bomb_ends_at_the_limit() {
        let bomb = base64::decode(BOMB).unwrap();
        let error = decompress(&bomb, 1000).unwrap_err();
        assert_eq!(error, "The data has more than 1000 bytes when unpacked");
        assert_eq!(decompress(&bomb, 100_000).unwrap().len(), 100_000);
    }
}
