//! The [`Limits`] of an endpoint: a deadline for every wait and a length for every queue. The
//! defaults suit a master with 1 GiB of memory.

use std::time::Duration;

use quinn::{IdleTimeout, TransportConfig, VarInt};

/// The limits of an endpoint. When one is exceeded, the error names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The maximum time from the first packet to a proved key.
    pub handshake: Duration,
    /// The maximum time from the proved key to the hello; on a minion, to the first answer.
    pub hello: Duration,
    /// The time for which a minion that has shown documents waits for acceptance, before it
    /// reconnects with fresh ones.
    pub evidence: Duration,
    /// The maximum time from the first byte of a frame to its last, and for the other side to
    /// accept a frame. Longer frames get more time ([`rate_min`](Self::rate_min)).
    pub frame: Duration,
    /// The minimum rate of a frame, in bytes a second, beyond the time that each frame has.
    pub rate_min: u32,
    /// The length of the window over which the rate of a large frame is checked: less than
    /// [`rate_min`](Self::rate_min) over any such window ends the frame.
    pub rate_window: Duration,
    /// The maximum time from one frame of an answer to the next.
    pub answer: Duration,
    /// The time after which a silent peer's connection is lost.
    pub idle: Duration,
    /// The interval of a minion's keep-alive packets. The master sends none.
    pub keep_alive: Duration,
    /// The maximum number of handshakes of addresses that have not proved themselves. Beyond it,
    /// each address must first send a token back.
    pub unproved_max: usize,
    /// The maximum number of handshakes in progress, until the hello. At the maximum, the oldest
    /// one of the address that has most is dropped for a new one.
    pub handshakes_max: usize,
    /// The maximum number of handshakes in progress of one address (for IPv6, one /64). Handshakes
    /// of known keys do not count.
    pub handshakes_per_address: usize,
    /// The maximum number of connections in all.
    pub connections_max: usize,
    /// The maximum number of connections of one address (for IPv6, one /64).
    pub connections_per_address: usize,
    /// The maximum number of keys that wait for acceptance, in all. At the maximum, the oldest one
    /// of the address that has most is dropped for a new one.
    pub pending_max: usize,
    /// The maximum number of keys of one address that wait for acceptance.
    pub pending_per_address: usize,
    /// The maximum number of streams that an accepted peer may have open.
    pub streams_max: u32,
    /// The maximum number of frames that wait for a slow reader.
    pub queue: usize,
    /// The number of malformed or forbidden frames that one connection may send; one more ends it.
    pub bad_frames_max: u32,
    /// The maximum number of bytes of unfinished large frames (over 64 KiB) that are held in
    /// memory, of all peers together.
    pub large_bytes_max: usize,
    /// The maximum number of bytes that the unfinished large frames of one key (or one local user)
    /// may announce; at least the largest frame.
    pub large_bytes_per_key: usize,
    /// The number of bytes that a peer may send on one stream before they are read. A peer can make
    /// this end hold that much for each stream that it may open.
    pub window: u32,
}

impl Default for Limits {
    fn default() -> Self {
        let seconds = Duration::from_secs;
        Self {
            handshake: seconds(10),
            hello: seconds(10),
            evidence: seconds(300),
            frame: seconds(30),
            rate_min: 8 << 10,
            rate_window: seconds(10),
            answer: seconds(60),
            // Both together are the time in which a lost master is noticed: 30 s.
            idle: seconds(20),
            keep_alive: seconds(10),
            unproved_max: 64,
            handshakes_max: 1024,
            handshakes_per_address: 32,
            connections_max: 20_000,
            connections_per_address: 1024,
            pending_max: 1000,
            pending_per_address: 100,
            // QUIC keeps a table of streams for each connection. With 14 and the control stream, it
            // would be twice as large.
            streams_max: 12,
            queue: 16,
            bad_frames_max: 16,
            large_bytes_max: 64 << 20,
            large_bytes_per_key: 16 << 20,
            window: 32 << 10,
        }
    }
}

/// The receive window of a minion. It receives whole files, and has only one connection.
const MINION_WINDOW: u32 = 1 << 20;
/// The maximum number of bytes in transit to a peer. They are held until the peer acknowledges
/// them.
const SEND_WINDOW: u64 = 256 << 10;
/// The maximum number of handshake bytes that are buffered. Pinch's handshakes contain a key and
/// little else.
const CRYPTO_BUFFER: usize = 4 << 10;

impl Limits {
    /// Returns the maximum time for a frame of this many bytes.
    pub(crate) fn frame_of(&self, bytes: usize) -> Duration {
        let rate = f64::from(self.rate_min.max(1));
        self.frame
            .saturating_add(Duration::from_secs_f64(bytes as f64 / rate))
    }

    /// Returns the minimum number of bytes of a large frame in each window.
    pub(crate) fn window_bytes(&self) -> usize {
        let bytes = f64::from(self.rate_min) * self.rate_window.as_secs_f64();
        bytes as usize
    }

    /// Returns QUIC's settings on a master, which need little memory for each connection.
    pub(crate) fn of_master(&self) -> TransportConfig {
        let mut config = self.both(self.window);
        // This is the control stream. There may be more streams once the key is accepted.
        config.max_concurrent_bidi_streams(1_u32.into());
        // With offload, each connection keeps a buffer for ten packets that are sent together,
        // which is a third of its memory.
        config.enable_segmentation_offload(false);
        config
    }

    /// Returns the number of bytes that an accepted peer may send before they are read. It is large
    /// enough that each stream can be full without blocking the others.
    pub(crate) fn window_of_all(&self) -> u32 {
        self.window
            .saturating_mul(self.streams_max.saturating_add(1))
    }

    /// Returns QUIC's settings on a minion.
    pub(crate) fn of_minion(&self) -> TransportConfig {
        let mut config = self.both(MINION_WINDOW.max(self.window));
        config.max_concurrent_bidi_streams(self.streams_max.into());
        config.keep_alive_interval(Some(self.keep_alive));
        config
    }

    fn both(&self, window: u32) -> TransportConfig {
        let mut config = TransportConfig::default();
        let idle =
            IdleTimeout::try_from(self.idle).unwrap_or_else(|_| VarInt::from_u32(20_000).into());
        config.max_idle_timeout(Some(idle));
        config.max_concurrent_uni_streams(0_u32.into());
        config.stream_receive_window(window.into());
        config.receive_window(window.saturating_mul(4).into());
        config.send_window(SEND_WINDOW);
        config.crypto_buffer_size(CRYPTO_BUFFER);
        config.datagram_receive_buffer_size(None);
        config.datagram_send_buffer_size(0);
        config.mtu_discovery_config(None);
        config
    }
}
