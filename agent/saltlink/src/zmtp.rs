//! ZMTP 3.0 with the mechanism NULL: the greeting, frames, probes.

use std::time::Duration;

use link::wait::within;
use smol::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use smol::net::TcpStream;
use value::Value;

use crate::connection::{Arrived, Ending, Purpose, Writer};
use crate::limits::{ANSWER_MAX, COMMAND_MAX, CONNECT, MESSAGE, PARTS_MAX, PROBE, PUBLICATION_MAX};

/// The flag of a frame that is not the last of its message.
const MORE: u8 = 1;
/// The flag of a frame whose length has eight bytes.
const LONG: u8 = 2;
/// The flag of a command.
const COMMAND: u8 = 4;
/// The number of bytes of a greeting.
const GREETING: usize = 64;

/// The half of a connection that receives.
pub(crate) struct Input {
    stream: BufReader<TcpStream>,
    /// The maximum size of a message.
    max: usize,
}

/// A frame: its flags and its contents.
struct Frame {
    flags: u8,
    body: Vec<u8>,
}

fn odd(what: &str) -> Ending {
    Ending::Protocol(what.to_owned())
}

/// Returns a frame as bytes.
fn frame(flags: u8, body: &[u8]) -> Vec<u8> {
    let mut out = match u8::try_from(body.len()) {
        Ok(short) => vec![flags, short],
        Err(_) => {
            let long = (body.len() as u64).to_be_bytes();
            [&[flags | LONG][..], &long].concat()
        }
    };
    out.extend_from_slice(body);
    out
}

/// Returns a request as bytes: an empty frame, and the message.
pub(crate) fn request(message: &[u8]) -> Vec<u8> {
    [frame(MORE, b""), frame(0, message)].concat()
}

/// Returns a subscription to a topic as bytes.
pub(crate) fn subscription(topic: &str) -> Vec<u8> {
    frame(0, &[&[1], topic.as_bytes()].concat())
}

/// The minion's greeting: version 3.0, which makes libzmq speak 3.0, too.
fn greeting() -> [u8; GREETING] {
    let mut bytes = [0; GREETING];
    let start = b"\xff\0\0\0\0\0\0\0\x01\x7f\x03\0NULL";
    for (place, byte) in bytes.iter_mut().zip(start) {
        *place = *byte;
    }
    bytes
}

fn ready(purpose: Purpose, id: &[u8]) -> Vec<u8> {
    let (kind, identity) = match purpose {
        Purpose::Requests => (b"REQ", b"".as_slice()),
        Purpose::Publications => (b"SUB", id),
    };
    let mut body = b"\x05READY".to_vec();
    for (name, value) in [
        (b"Socket-Type".as_slice(), kind.as_slice()),
        (b"Identity", identity),
    ] {
        body.push(name.len() as u8);
        body.extend(name);
        body.extend((value.len() as u32).to_be_bytes());
        body.extend(value);
    }
    frame(COMMAND, &body)
}

/// Exchanges greetings.
pub(crate) async fn greet(
    stream: TcpStream,
    writer: &Writer,
    purpose: Purpose,
    id: &[u8],
) -> Result<Input, Ending> {
    let input = Input {
        stream: BufReader::new(stream),
        max: match purpose {
            Purpose::Requests => ANSWER_MAX,
            Purpose::Publications => PUBLICATION_MAX,
        },
    };
    let greeted = within(CONNECT, exchanged(input, writer, purpose, id)).await;
    greeted.unwrap_or_else(|| {
        Err(Ending::Lost(
            "the master sent no greeting in time".to_owned(),
        ))
    })
}

async fn exchanged(
    mut input: Input,
    writer: &Writer,
    purpose: Purpose,
    id: &[u8],
) -> Result<Input, Ending> {
    writer.send(&greeting()).await?;
    let mut theirs = [0; GREETING];
    input.stream.read_exact(&mut theirs).await?;
    match theirs {
        [
            0xff,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            _,
            0x7f,
            3..=u8::MAX,
            _,
            b'N',
            b'U',
            b'L',
            b'L',
            0,
            ..,
        ] => {}
        [0xff, _, _, _, _, _, _, _, _, 0x7f, 3..=u8::MAX, ..] => {
            return Err(odd(
                "it wants another mechanism than NULL (CURVE is not supported)",
            ));
        }
        _ => {
            return Err(odd(
                "no greeting of ZeroMQ: the option transport may differ",
            ));
        }
    }
    writer.send(&ready(purpose, id)).await?;
    let first = input.frame(COMMAND_MAX).await?;
    match first.flags & COMMAND != 0 && first.body.starts_with(b"\x05READY") {
        true => Ok(input),
        false => Err(odd("no READY after its greeting")),
    }
}

impl Input {
    /// Reads a frame. Its contents are stored as they arrive, not as they are announced.
    async fn frame(&mut self, max: usize) -> Result<Frame, Ending> {
        let flags = self.byte().await?;
        if flags & !(MORE | LONG | COMMAND) != 0 {
            return Err(odd("a frame with unknown flags"));
        }
        let length = match flags & LONG != 0 {
            false => self.byte().await?.into(),
            true => {
                let mut long = [0; 8];
                self.stream.read_exact(&mut long).await?;
                u64::from_be_bytes(long)
            }
        };
        let max = if flags & COMMAND == 0 {
            max
        } else {
            COMMAND_MAX
        };
        if length > max as u64 {
            return Err(Ending::Protocol(format!(
                "a frame of {length} bytes, but the limit is {max} bytes"
            )));
        }
        let mut body = Vec::new();
        (&mut self.stream)
            .take(length)
            .read_to_end(&mut body)
            .await?;
        if (body.len() as u64) < length {
            return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
        }
        Ok(Frame { flags, body })
    }

    async fn byte(&mut self) -> Result<u8, Ending> {
        let mut byte = [0];
        self.stream.read_exact(&mut byte).await?;
        let [byte] = byte;
        Ok(byte)
    }

    /// Waits until there is something to read.
    async fn wait(&mut self) -> Result<(), Ending> {
        match self.stream.fill_buf().await?.is_empty() {
            true => Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into()),
            false => Ok(()),
        }
    }

    /// Reads a message, or a command, which is answered here.
    async fn message(&mut self, writer: &Writer) -> Result<Option<Vec<u8>>, Ending> {
        let mut left = self.max;
        for _ in 0..PARTS_MAX {
            let Frame { flags, body } = self.frame(left).await?;
            if flags & COMMAND != 0 {
                answer(&body, writer).await?;
                return Ok(None);
            }
            if flags & MORE == 0 {
                return Ok(Some(body));
            }
            left = left.saturating_sub(body.len());
        }
        Err(odd("a message with too many parts"))
    }
}

/// Answers a probe with its context.
async fn answer(command: &[u8], writer: &Writer) -> Result<(), Ending> {
    let Some(rest) = command.strip_prefix(b"\x04PING") else {
        return Ok(());
    };
    // The first two bytes are the time after which the master gives up.
    let context = rest.get(2..).unwrap_or_default();
    let pong = [b"\x04PONG", context].concat();
    Ok(writer.send(&frame(COMMAND, &pong)).await?)
}

/// Reads messages until the connection ends. Probes the master when it is silent.
pub(crate) async fn read(mut input: Input, writer: Writer, arrived: Arrived) -> Ending {
    loop {
        if let Err(ending) = next(&mut input, &writer, &arrived).await {
            return ending;
        }
    }
}

async fn next(input: &mut Input, writer: &Writer, arrived: &Arrived) -> Result<(), Ending> {
    let mut is_probed = false;
    while within(PROBE, input.wait()).await.transpose()?.is_none() {
        if is_probed {
            return Err(silent(PROBE));
        }
        writer.send(&frame(COMMAND, b"\x04PING\0\0")).await?;
        is_probed = true;
    }
    let message = within(MESSAGE, input.message(writer)).await;
    let Some(message) = message.unwrap_or_else(|| Err(silent(MESSAGE)))? else {
        return Ok(());
    };
    let value: Value = wire::payload::decode(&message)?;
    // No deadline: while the minion is busy, the connection is not read.
    let sent = arrived.send(Ok(value)).await;
    sent.map_err(|_| Ending::Lost("it is no longer used".to_owned()))
}

fn silent(limit: Duration) -> Ending {
    let seconds = limit.as_secs();
    Ending::Lost(format!(
        "the master was silent for {seconds} s in a message, or to a probe"
    ))
}
