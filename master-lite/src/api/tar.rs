//! Writes a tar of a few small files.

/// The size of a block.
const BLOCK: usize = 512;

/// Returns a tar with these files, which only their owner may read.
pub(super) fn archive(files: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, text) in files {
        bytes.extend(header(name, text.len()));
        bytes.extend(text.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    }
    // Two empty blocks are the end.
    bytes.resize(bytes.len() + 2 * BLOCK, 0);
    bytes
}

fn header(name: &str, size: usize) -> Vec<u8> {
    let fields = |sum: &str| {
        let mut header = Vec::new();
        for (text, width) in [
            (name, 100),
            ("0000600", 8),
            ("0000000", 8),
            ("0000000", 8),
            (format!("{size:011o}").as_str(), 12),
            ("00000000000", 12),
            (sum, 8),
            ("0", 1),
            ("", 100),
            ("ustar", 6),
            ("00", 2),
        ] {
            let end = header.len() + width;
            header.extend(text.bytes().take(width));
            header.resize(end, 0);
        }
        header.resize(BLOCK, 0);
        header
    };
    let sum: u32 = fields("        ").iter().map(|byte| u32::from(*byte)).sum();
    fields(&format!("{sum:06o}\0 "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tar_has_whole_blocks_and_a_sum() {
        let bytes = archive(&[("minion.pub", "x"), ("minion.pem", "")]);
        assert_eq!(bytes.len(), 5 * BLOCK);
        let header = &bytes[..BLOCK];
        let sum = std::str::from_utf8(&header[148..154]).unwrap();
        let sum = u32::from_str_radix(sum, 8).unwrap();
        let others = [&header[..148], &[b' '; 8], &header[156..]].concat();
        let expected: u32 = others.iter().map(|byte| u32::from(*byte)).sum();
        assert_eq!(sum, expected);
        assert_eq!(&header[257..262], b"ustar");
    }
}
