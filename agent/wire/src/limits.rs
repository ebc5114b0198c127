//! [`Limits`]: how large a frame may be, by where it stands.

/// The limits of one frame or value. Both ends hold themselves to them: what is too large is not sent either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes, the four of the length not counted.
    pub bytes: usize,
    /// Levels of nesting.
    pub depth: usize,
    /// Values, keys and containers counted.
    pub items: usize,
}

/// As deep as YAML documents may be, and a little for what is put around them.
const DEPTH_MAX: usize = 256;

/// How long the documents of a hello (`evidence`) may be together, in bytes.
pub const EVIDENCE_MAX: usize = 24 << 10;

impl Limits {
    /// Before a key is accepted: a hello with its evidence, and nothing else.
    pub const HELLO: Self = Self::of(64 << 10, 4 << 10);
    /// On a control stream: events, each no larger than Salt's own `max_event_size`.
    pub const CONTROL: Self = Self::of(1 << 20, 64 << 10);
    /// On a stream of its own: grains, pillar, the return of a job.
    pub const STREAM: Self = Self::of(16 << 20, 256 << 10);

    const fn of(bytes: usize, items: usize) -> Self {
        Self {
            bytes,
            depth: DEPTH_MAX,
            items,
        }
    }
}
