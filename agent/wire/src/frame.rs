//! [`Frame`]: one message. It can be encoded to bytes; [`Decoder`] turns received bytes into frames
//! again.

use value::Value;

use crate::msgpack::{self, Writer};
use crate::{Answer, Control, Error, Limits, Request, fields};

/// The number of bytes of a frame's length.
const HEAD: usize = 4;

/// The capacity in bytes that a decoder keeps after a large frame.
const SPARE_MAX: usize = 64 << 10;

/// One message.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    /// A frame of the control stream.
    Control(Control),
    /// The first frame of a separate stream.
    Request(Request),
    /// A frame that follows a request.
    Answer(Answer),
    /// The answer to a frame of an unknown kind.
    Unsupported {
        /// The unknown kind.
        kind: String,
    },
    /// A frame of an unknown kind, from a later version. It is answered with
    /// [`Frame::Unsupported`], and the session continues.
    Unknown {
        /// The unknown kind.
        kind: String,
    },
}

const UNSUPPORTED: &str = "unsupported";
/// The maximum number of characters of an unknown kind that are kept. All known kinds are shorter.
const KIND_MAX: usize = 64;

impl Frame {
    /// Appends the encoded frame: its length, then its contents.
    ///
    /// # Errors
    /// When it is larger than the limits allow. `out` is then unchanged.
    pub fn encode(&self, limits: Limits, out: &mut Vec<u8>) -> Result<(), Error> {
        let start = out.len();
        out.extend_from_slice(&[0; HEAD]);
        let mut writer = Writer::new(out, limits);
        if let Err(error) = self.write(&mut writer) {
            out.truncate(start);
            return Err(error);
        }
        let length = (out.len() - start - HEAD) as u32;
        if let Some(head) = out.get_mut(start..start + HEAD) {
            head.copy_from_slice(&length.to_be_bytes());
        }
        Ok(())
    }

    fn write(&self, writer: &mut Writer<'_>) -> Result<(), Error> {
        match self {
            Self::Control(frame) => fields::write(writer, frame.kind(), &frame.fields()),
            Self::Request(frame) => fields::write(writer, frame.kind(), &frame.fields()),
            Self::Answer(frame) => fields::write(writer, frame.kind(), &frame.fields()),
            Self::Unsupported { kind } => {
                fields::write(writer, UNSUPPORTED, &[("of", kind.into())])
            }
            Self::Unknown { kind } => fields::write(writer, kind, &[]),
        }
    }

    /// Decodes a frame from all of the bytes, which do not include its length.
    ///
    /// # Errors
    /// When the bytes are no frame, or a known kind lacks a field.
    pub fn decode(bytes: &[u8], limits: Limits) -> Result<Self, Error> {
        let Value::Map(mut map) = msgpack::decode(bytes, limits)? else {
            return Err(Error::NoFrame);
        };
        let Some(Value::Str(kind)) = map.remove("kind") else {
            return Err(Error::NoFrame);
        };
        if let Some(frame) = Control::read(&kind, &mut map)? {
            return Ok(Self::Control(frame));
        }
        if let Some(frame) = Answer::read(&kind, &mut map)? {
            return Ok(Self::Answer(frame));
        }
        if let Some(frame) = Request::read(&kind, &mut map)? {
            return Ok(Self::Request(frame));
        }
        let short = |kind: &str| kind.chars().take(KIND_MAX).collect();
        if *kind == *UNSUPPORTED {
            let of = map.get("of").and_then(Value::as_str).unwrap_or_default();
            return Ok(Self::Unsupported { kind: short(of) });
        }
        Ok(Self::Unknown { kind: short(&kind) })
    }
}

/// Splits received bytes into frames.
#[derive(Debug)]
pub struct Decoder {
    limits: Limits,
    buffer: Vec<u8>,
    /// The offset in the buffer at which the next frame begins.
    start: usize,
}

impl Decoder {
    /// Returns an empty decoder.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            buffer: Vec::new(),
            start: 0,
        }
    }

    /// Sets other limits from the next frame on, for example when the key is accepted.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Adds received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.start);
        self.start = 0;
        if self.buffer.capacity() > SPARE_MAX && self.buffer.len() < SPARE_MAX {
            self.buffer.shrink_to(SPARE_MAX);
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns true when no byte of the next frame was received.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.start == self.buffer.len()
    }

    /// Returns the number of received bytes that belong to no decoded frame.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rest().len()
    }

    /// Returns the announced length of the frame that has begun; `None` until the whole length was
    /// received.
    #[must_use]
    pub fn expects(&self) -> Option<usize> {
        let (head, _) = self.rest().split_first_chunk::<HEAD>()?;
        Some(u32::from_be_bytes(*head) as usize)
    }

    fn rest(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }

    /// Returns the next frame; `None` until all of it was received.
    ///
    /// # Errors
    /// When it is no frame. The next one can be read unless the error [is fatal](Error::is_fatal).
    pub fn next_frame(&mut self) -> Result<Option<Frame>, Error> {
        let Some(length) = self.expects() else {
            return Ok(None);
        };
        if length > self.limits.bytes {
            return Err(Error::TooLong {
                bytes: length as u64,
                limit: self.limits.bytes,
            });
        }
        let Some(bytes) = self.rest().get(HEAD..HEAD + length) else {
            return Ok(None);
        };
        let frame = Frame::decode(bytes, self.limits);
        self.start += HEAD + length;
        if self.is_empty() {
            // An idle session keeps no buffer.
            self.buffer = Vec::new();
            self.start = 0;
        }
        frame.map(Some)
    }
}
