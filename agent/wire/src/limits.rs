//! [`Limits`]: the maximum sizes of frames, depending on the stream.

/// The limits of one frame or value. Both ends apply them, so a frame that is too large is not even
/// sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The maximum number of bytes, without the four of the length.
    pub bytes: usize,
    /// The maximum number of nested levels.
    pub depth: usize,
    /// The maximum number of values, including keys and containers.
    pub items: usize,
}

/// The maximum nesting: that of YAML documents, and a few more levels for what encloses them.
const DEPTH_MAX: usize = 256;

/// The maximum size in bytes of all documents of a hello (`evidence`) together.
pub const EVIDENCE_MAX: usize = 24 << 10;

impl Limits {
    /// The limits before a key is accepted, for a hello with its evidence.
    pub const HELLO: Self = Self::new(64 << 10, 4 << 10);
    /// The limits on a control stream, for events. Each event is at most as large as Salt's own
    /// default of `max_event_size` allows.
    pub const CONTROL: Self = Self::new(1 << 20, 64 << 10);
    /// The limits on a separate stream, for grains, pillar and the return of a job.
    pub const STREAM: Self = Self::new(16 << 20, 256 << 10);

    const fn new(bytes: usize, items: usize) -> Self {
        Self {
            bytes,
            depth: DEPTH_MAX,
            items,
        }
    }
}
