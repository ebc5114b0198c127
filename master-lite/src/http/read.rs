//! [`Request`]: reads a request from a connection.

use std::net::SocketAddr;
use std::sync::Arc;

use smol::io::{AsyncReadExt, AsyncWriteExt};
use smol::net::TcpStream;

use super::gate::BodyReservation;
use super::{Gate, Head, Refusal};

/// The maximum length of a head in bytes.
const HEAD_MAX: usize = 16 << 10;
/// The number of bytes per read.
const PIECE: usize = 8 << 10;
/// The end of a head.
const END: &[u8] = b"\r\n\r\n";

/// A request that has fully arrived.
pub(crate) struct Request {
    pub(crate) head: Head,
    pub(crate) body: Body,
}

/// The body of a request. It holds its reservation of memory until it is dropped.
pub(crate) struct Body {
    pub(crate) bytes: Vec<u8>,
    _reservation: BodyReservation,
}

async fn more(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Result<usize, Refusal> {
    let mut piece = [0; PIECE];
    let count = match stream.read(&mut piece).await {
        Ok(0) => return Err(Refusal::new(400, "the request is incomplete")),
        Ok(count) => count,
        Err(error) => return Err(Refusal::new(400, format!("connection error: {error}"))),
    };
    bytes.extend(piece.iter().take(count));
    Ok(count)
}

/// Returns the position after the head. Bytes that were searched before are not searched again.
fn end(bytes: &[u8], searched: usize) -> Option<usize> {
    let from = searched.saturating_sub(END.len() - 1);
    let found = bytes.get(from..)?.windows(END.len());
    let at = found.into_iter().position(|window| window == END)?;
    Some(from + at + END.len())
}

/// Reads the head of a request. Returns it with the bytes that arrived after it.
pub(super) async fn head(
    stream: &mut TcpStream,
    from: SocketAddr,
) -> Result<(Head, Vec<u8>), Refusal> {
    let mut bytes = Vec::new();
    let mut searched = 0;
    loop {
        if let Some(end) = end(&bytes, searched).filter(|end| *end <= HEAD_MAX) {
            let rest = bytes.split_off(end);
            return Ok((Head::parse(&bytes, from)?, rest));
        }
        if bytes.len() >= HEAD_MAX {
            let why = format!("the request header is longer than {HEAD_MAX} bytes");
            return Err(Refusal::new(431, why));
        }
        searched = bytes.len();
        more(stream, &mut bytes).await?;
    }
}

/// Reads the body of a request, of which `rest` has already arrived.
pub(super) async fn body(
    stream: &mut TcpStream,
    head: &Head,
    rest: Vec<u8>,
    most: usize,
    gate: &Arc<Gate>,
) -> Result<Body, Refusal> {
    if head.length > most {
        let why = match most {
            0 => "a body is not allowed".to_owned(),
            most => format!("the body is larger than {most} bytes (hook_max_body)"),
        };
        return Err(Refusal::new(413, why));
    }
    let (mut bytes, mut reservation) = (rest, gate.reserve_body());
    reservation.more(bytes.len())?;
    if head.is_expecting && bytes.is_empty() && head.length > 0 {
        let word = stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await;
        word.map_err(|error| Refusal::new(400, format!("connection error: {error}")))?;
    }
    while bytes.len() < head.length {
        let count = more(stream, &mut bytes).await?;
        reservation.more(count)?;
    }
    bytes.truncate(head.length);
    Ok(Body {
        bytes,
        _reservation: reservation,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_head_is_found_wherever_pieces_are_cut() {
        let text = b"GET / HTTP/1.1\r\nA: 1\r\n\r\nbody";
        for searched in 0..24 {
            assert_eq!(end(text, searched), Some(24), "{searched}");
        }
        assert_eq!(end(b"\r\n\r", 0), None);
        assert_eq!(end(b"", 5), None);
    }
}
