//! The transport `tcp`: a stream of msgpack maps `{head, body}` without lengths.

use link::wait::within;
use smol::io::AsyncReadExt;
use smol::net::TcpStream;
use value::{Map, Value};
use wire::{Limits, payload};

use crate::connection::{Arrived, Ending, Purpose};
use crate::limits::{ANSWER_MAX, MESSAGE, PUBLICATION_MAX};
use crate::raw;
use crate::scan::Scanner;

/// The number of bytes that are read at once.
const PIECE: usize = 16 << 10;

/// Returns a message, with its number if it has an answer.
pub(crate) fn message(mid: Option<&str>, body: &Value) -> Value {
    let mut head = Map::new();
    if let Some(mid) = mid {
        head.insert("mid", mid);
    }
    let message = Map::new().with("head", head).with("body", body.clone());
    message.into()
}

/// Returns the contents of an answer; `None` if it does not belong to the request of this number.
pub(crate) fn answer(message: &mut Value, mid: &str) -> Option<Value> {
    let theirs = message.get("head")?.get("mid")?.as_str()?;
    if theirs != mid {
        return None;
    }
    message.as_map_mut()?.remove("body")
}

/// The part of a stream that has arrived.
struct Input {
    stream: TcpStream,
    scanner: Scanner,
    /// The bytes of the message that is not complete yet.
    message: Vec<u8>,
    /// The bytes after that message.
    rest: Vec<u8>,
}

impl Input {
    /// Reads the first bytes of the next message, if there are none yet.
    async fn begin(&mut self) -> Result<(), Ending> {
        if self.rest.is_empty() {
            self.rest = self.piece().await?;
        }
        Ok(())
    }

    async fn piece(&mut self) -> Result<Vec<u8>, Ending> {
        let mut piece = vec![0; PIECE];
        let read = self.stream.read(&mut piece).await?;
        if read == 0 {
            return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
        }
        piece.truncate(read);
        Ok(piece)
    }

    /// Reads the rest of a message.
    async fn message(&mut self) -> Result<Value, Ending> {
        loop {
            if let Some(used) = self.scanner.feed(&self.rest)? {
                let after = self.rest.split_off(used);
                self.message.append(&mut self.rest);
                self.rest = after;
                return Ok(payload::decode(&std::mem::take(&mut self.message))?);
            }
            self.message.append(&mut self.rest);
            self.rest = self.piece().await?;
        }
    }
}

/// Reads messages until the connection ends.
pub(crate) async fn read(stream: TcpStream, purpose: Purpose, arrived: Arrived) -> Ending {
    let bytes = match purpose {
        Purpose::Requests => ANSWER_MAX,
        Purpose::Publications => PUBLICATION_MAX,
    };
    let mut input = Input {
        stream,
        scanner: Scanner::new(Limits {
            bytes,
            ..payload::LIMITS
        }),
        message: Vec::new(),
        rest: Vec::new(),
    };
    loop {
        if let Err(ending) = next(&mut input, purpose, &arrived).await {
            return ending;
        }
    }
}

async fn next(input: &mut Input, purpose: Purpose, arrived: &Arrived) -> Result<(), Ending> {
    // No deadline: a message may come at any time, and the kernel probes the connection
    // (`tcp_keepalive`).
    input.begin().await?;
    let message = within(MESSAGE, input.message()).await;
    let late = || Err(Ending::Lost("a message did not arrive in time".to_owned()));
    let message = message.unwrap_or_else(late)?;
    let value = match purpose {
        Purpose::Requests => message,
        Purpose::Publications => published(&message)?,
    };
    // No deadline: while the minion is busy, the connection is not read.
    let sent = arrived.send(Ok(value)).await;
    sent.map_err(|_| Ending::Lost("it is no longer used".to_owned()))
}

/// Returns the publication inside a message.
fn published(message: &Value) -> Result<Value, Ending> {
    match message.get("body") {
        Some(body @ Value::Map(_)) => Ok(body.clone()),
        Some(body) if raw(body).is_some() => Ok(payload::decode(raw(body).unwrap_or_default())?),
        _ => Err(Ending::Protocol(
            "a publication without contents".to_owned(),
        )),
    }
}
