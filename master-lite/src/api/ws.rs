//! The events as messages of a WebSocket (`GET /ws`).
//!
//! Only what this needs of RFC 6455 is here: the server sends texts, and a client sends a text when it
//! is ready, pings, and the end.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use link::wait::within;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use smol::future::FutureExt;
use smol::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::checks::Checked;
use super::failure::Failure;
use super::feed::written;
use super::stream::ClientEvents;
use crate::http::{Answer, Head};
use crate::store::{Event, Store};

/// The text that the protocol appends to a client's key.
const MAGIC: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/// The maximum length of a client's frame in bytes.
const FRAME_MAX: usize = 4096;
/// The time in which a client must take a message.
const SEND: Duration = Duration::from_secs(10);
/// The time in which a client must say that it is ready.
const READY: Duration = Duration::from_secs(60);

/// The kinds of frames.
const TEXT: u8 = 1;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// A frame of a client.
#[derive(Debug, PartialEq, Eq)]
struct Frame {
    kind: u8,
    data: Vec<u8>,
}

/// Returns the answer that begins a WebSocket with the events.
pub(super) fn answer(store: &Store, token: Arc<Checked>, head: &Head) -> Result<Answer, Failure> {
    let has = |name: &str, word: &str| {
        let words = head.header(name).unwrap_or_default().split(',');
        words
            .map(str::trim)
            .any(|one| one.eq_ignore_ascii_case(word))
    };
    let key = head.header("Sec-Websocket-Key").unwrap_or_default();
    let is_key = STANDARD.decode(key).is_ok_and(|bytes| bytes.len() == 16);
    let is_fit = has("Upgrade", "websocket")
        && has("Connection", "Upgrade")
        && has("Sec-Websocket-Version", "13");
    if !is_fit || !is_key {
        return Err(Failure::bad("This path needs a WebSocket"));
    }
    let accept = digest(
        &SHA1_FOR_LEGACY_USE_ONLY,
        format!("{key}{MAGIC}").as_bytes(),
    );
    let events = ClientEvents::new(store, token, None);
    let answer = Answer::new(101, "", Vec::new())
        .with("Upgrade", "websocket")
        .with("Connection", "Upgrade")
        .with("Sec-WebSocket-Accept", STANDARD.encode(accept));
    Ok(answer.upgrade(|stream| Box::pin(send(events, stream))))
}

/// The next thing that happens on a WebSocket.
enum Now {
    /// An event, or none for a while; `None` after the master has ended.
    Event(Option<Option<Arc<Event>>>),
    Frame(io::Result<Frame>),
}

/// Sends events until the client, its token or the master ends.
async fn send<S: AsyncRead + AsyncWrite + Unpin>(mut events: ClientEvents, stream: S) {
    let (mut reader, mut writer) = smol::io::split(stream);
    let ready = within(READY, read(&mut reader)).await;
    if !matches!(ready, Some(Ok(Frame { kind: TEXT, .. }))) {
        return;
    }
    let mut frame = Box::pin(read_owned(reader));
    loop {
        // No deadline: it comes within the pulse of `ClientEvents`.
        let event = async { (None, Now::Event(events.next().await)) };
        let came = async {
            let (reader, frame) = frame.as_mut().await;
            (Some(reader), Now::Frame(frame))
        };
        let (reader, now) = event.or(came).await;
        if let Some(reader) = reader {
            frame = Box::pin(read_owned(reader));
        }
        let sent = match now {
            Now::Frame(Ok(Frame { kind: PING, data })) => framed(PONG, &data),
            Now::Frame(Ok(Frame { kind, .. })) if kind != CLOSE => continue,
            Now::Event(Some(event)) if events.is_valid().await => message(event.as_deref()),
            Now::Event(_) | Now::Frame(_) => framed(CLOSE, &[]),
        };
        let is_end = sent.first() == Some(&(0x80 | CLOSE));
        let put = async {
            writer.write_all(&sent).await?;
            writer.flush().await
        };
        if !matches!(within(SEND, put).await, Some(Ok(()))) || is_end {
            return;
        }
    }
}

/// Returns the frame of an event, or a ping if there was none.
fn message(event: Option<&Event>) -> Vec<u8> {
    match event {
        Some(event) => framed(TEXT, format!("data: {}\n\n", written(event)).as_bytes()),
        None => framed(PING, &[]),
    }
}

/// Reads a client's frame. A frame in parts is refused: none of the expected ones is long.
async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Frame> {
    let wrong = || io::Error::from(io::ErrorKind::InvalidData);
    let mut head = [0; 2];
    // No deadline: a client may be silent, and it races with the events.
    stream.read_exact(&mut head).await?;
    let [first, second] = head;
    let is_whole = first & 0xf0 == 0x80;
    let is_masked = second & 0x80 != 0;
    let length = match second & 0x7f {
        126 => {
            let mut bytes = [0; 2];
            stream.read_exact(&mut bytes).await?;
            usize::from(u16::from_be_bytes(bytes))
        }
        127 => return Err(wrong()),
        length => usize::from(length),
    };
    if !is_whole || !is_masked || length > FRAME_MAX {
        return Err(wrong());
    }
    let mut mask = [0; 4];
    stream.read_exact(&mut mask).await?;
    let mut data = vec![0; length];
    stream.read_exact(&mut data).await?;
    for (byte, mask) in data.iter_mut().zip(mask.iter().cycle()) {
        *byte ^= mask;
    }
    let kind = first & 0x0f;
    Ok(Frame { kind, data })
}

/// Reads a client's frame, and returns the stream with it.
async fn read_owned<R: AsyncRead + Unpin>(mut stream: R) -> (R, io::Result<Frame>) {
    let frame = read(&mut stream).await;
    (stream, frame)
}

/// Returns a frame of the server.
fn framed(kind: u8, data: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x80 | kind];
    match (u8::try_from(data.len()), u16::try_from(data.len())) {
        (Ok(length), _) if length < 126 => frame.push(length),
        (_, Ok(length)) => {
            frame.push(126);
            frame.extend(length.to_be_bytes());
        }
        _ => {
            frame.push(127);
            frame.extend((data.len() as u64).to_be_bytes());
        }
    }
    frame.extend(data);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    fn came(bytes: &[u8]) -> io::Result<Frame> {
        smol::block_on(read(&mut &*bytes))
    }

    #[test]
    fn a_frame_of_a_client_is_whole_masked_and_short() {
        let masked = [0x81, 0x82, 1, 2, 3, 4, b'h' ^ 1, b'i' ^ 2];
        let frame = came(&masked).unwrap();
        assert_eq!((frame.kind, &*frame.data), (TEXT, b"hi".as_slice()));
        let plain = [0x81, 2, b'h', b'i'];
        let part = [0x01, 0x82, 1, 2, 3, 4, 0, 0];
        let reserved = [0xc1, 0x82, 1, 2, 3, 4, 0, 0];
        let long = [0x81, 0xfe, 0xff, 0xff, 1, 2, 3, 4];
        let longer = [0x81, 0xff, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 3, 4, 0];
        let cut = [0x81, 0x85, 1, 2, 3, 4, 0];
        for bad in [&plain[..], &part, &reserved, &long, &longer, &cut] {
            assert!(came(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_frame_of_the_server_has_its_length() {
        assert_eq!(framed(PING, &[]), [0x89, 0]);
        assert_eq!(framed(TEXT, b"hi"), [0x81, 2, b'h', b'i']);
        assert_eq!(framed(TEXT, &[0; 200])[..4], [0x81, 126, 0, 200]);
        assert_eq!(framed(TEXT, &[0; 70_000])[..2], [0x81, 127]);
    }
}
