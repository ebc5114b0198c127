//! Decodes the escapes of URLs and forms.

/// Returns a text with its `%` escapes decoded. An invalid escape is kept unchanged.
pub(crate) fn unquoted(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escaped = match (first, after) {
            (b'%', [high, low, ..]) => digit(*high).zip(digit(*low)),
            _ => None,
        };
        match escaped {
            Some((high, low)) => {
                bytes.push(high << 4 | low);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

/// Returns the value of a hexadecimal digit.
pub(crate) fn digit(byte: u8) -> Option<u8> {
    let value = char::from(byte).to_digit(16)?;
    u8::try_from(value).ok()
}

/// Decodes a name or a value of a form or a query.
pub(crate) fn plain(text: &str) -> String {
    let bytes = unquoted(&text.replace('+', " "));
    String::from_utf8_lossy(&bytes).into_owned()
}
