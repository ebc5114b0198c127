//! Reads the messages of the protocol, with limits.

use std::io::{BufRead, Error, ErrorKind, Read};

use lsp_server::Message;

/// The maximum size of a message, in bytes. A message contains at most one document.
const MESSAGE_MAX: usize = 32 << 20;

/// The maximum size of the header of a message, in bytes.
const HEADER_MAX: u64 = 4096;

/// Reads one message. Returns `None` at the end of the input.
///
/// # Errors
/// When the input is not a message, or the message is too large.
pub(crate) fn read(input: &mut dyn BufRead) -> Result<Option<Message>, Error> {
    let Some(size) = header(input)? else {
        return Ok(None);
    };
    if size > MESSAGE_MAX {
        return Err(invalid(format!(
            "a message has {size} bytes, more than the maximum of {MESSAGE_MAX}"
        )));
    }
    let mut body = Vec::new();
    let limit = u64::try_from(size).map_err(|error| invalid(error.to_string()))?;
    input.take(limit).read_to_end(&mut body)?;
    if body.len() < size {
        return Err(invalid(format!(
            "the input ends after {} of {size} bytes of a message",
            body.len()
        )));
    }
    let message = serde_json::from_slice(&body);
    let message =
        message.map_err(|error| invalid(format!("a message is not JSON-RPC: {error}")))?;
    Ok(Some(message))
}

/// Reads the header of a message, and returns the size of its body.
fn header(input: &mut dyn BufRead) -> Result<Option<usize>, Error> {
    let mut input = input.take(HEADER_MAX);
    let mut size = None;
    let mut is_first = true;
    loop {
        let mut line = Vec::new();
        if input.read_until(b'\n', &mut line)? == 0 && is_first {
            return Ok(None);
        }
        is_first = false;
        let line = String::from_utf8_lossy(&line);
        let Some(line) = line.strip_suffix('\n') else {
            return Err(invalid(format!(
                "the header of a message is incomplete or longer than {HEADER_MAX} bytes"
            )));
        };
        let line = line.trim_end_matches('\r');
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        if name.eq_ignore_ascii_case("content-length") {
            let number = value.trim().parse();
            size = Some(number.map_err(|_| invalid(format!("invalid Content-Length '{value}'")))?);
        }
    }
    size.map(Some)
        .ok_or_else(|| invalid("the header of a message has no Content-Length".to_owned()))
}

fn invalid(problem: String) -> Error {
    Error::new(ErrorKind::InvalidData, problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(input: &str) -> String {
        read(&mut input.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn a_broken_message_is_an_error() {
        assert!(read(&mut "".as_bytes()).unwrap().is_none());
        assert!(error("hello").contains("incomplete"));
        assert!(error("Content-Length: x\r\n\r\n").contains("invalid Content-Length"));
        assert!(error("Host: x\r\n\r\n{}").contains("no Content-Length"));
        assert!(error("Content-Length: 99\r\n\r\n{}").contains("after 2 of 99"));
        assert!(error("Content-Length: 2\r\n\r\n[]").contains("not JSON-RPC"));
        assert!(error("Content-Length: 99999999999\r\n\r\n").contains("more than the maximum"));
        let long = format!("X: {}\r\n", "x".repeat(9999));
        assert!(error(&long).contains("longer than"));
        let deep = "[".repeat(9999);
        let deep = format!("Content-Length: {}\r\n\r\n{deep}", deep.len());
        assert!(error(&deep).contains("not JSON-RPC"));
    }

    #[test]
    fn a_message_is_read() {
        let body = r#"{"jsonrpc":"2.0","method":"exit"}"#;
        let text = format!("content-length: {}\r\n\r\n{body}", body.len());
        let message = read(&mut text.as_bytes()).unwrap();
        assert!(matches!(message, Some(Message::Notification(one)) if one.method == "exit"));
    }
}
