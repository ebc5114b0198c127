//! [`Limits`] of an endpoint: every wait has an end, every queue a length. The defaults suit a master with 1 GiB of memory.

use std::time::Duration;

use quinn::{IdleTimeout, TransportConfig, VarInt};

/// What an endpoint allows. Each of them has an error that names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From the first packet to a proved key.
    pub handshake: Duration,
    /// From there to the hello; on a minion, to the first answer.
    pub hello: Duration,
    /// How long a minion that has shown documents waits for acceptance before it comes back with fresh ones.
    pub evidence: Duration,
    /// From the first byte of a frame to its last, and for the other side to take one; longer frames have longer ([`rate_min`](Self::rate_min)).
    pub frame: Duration,
    /// How many bytes of a frame must come or go a second, beyond the time that each frame has.
    pub rate_min: u32,
    /// Over how long the rate of a large frame is looked at: less than [`rate_min`](Self::rate_min) over any such time ends it.
    pub rate_window: Duration,
    /// From one frame of an answer to the next.
    pub answer: Duration,
    /// How long the other side may be silent before the connection is lost.
    pub idle: Duration,
    /// How often a minion says that it is there. The master says nothing.
    pub keep_alive: Duration,
    /// Handshakes of addresses that have not proved themselves; beyond these, each must send a token back first.
    pub unproved_max: usize,
    /// Handshakes under way, to the hello; when there are so many, the oldest one of the address that has most is dropped for a new one.
    pub handshakes_max: usize,
    /// Handshakes under way of one address (of IPv6, one /64), those of keys that are known not counted.
    pub handshakes_per_address: usize,
    /// Connections in all.
    pub connections_max: usize,
    /// Connections of one address (of IPv6, one /64).
    pub connections_per_address: usize,
    /// Keys that wait for acceptance, in all; when there are so many, the oldest one of the address that has most is dropped for a new one.
    pub pending_max: usize,
    /// Keys that wait for acceptance, of one address.
    pub pending_per_address: usize,
    /// Streams that an accepted peer may have open.
    pub streams_max: u32,
    /// Frames that wait for a slow reader.
    pub queue: usize,
    /// Frames of one connection that were malformed or not allowed; one more ends it.
    pub bad_frames_max: u32,
    /// Bytes that have come of large frames (over 64 KiB) that are being read, of all peers together.
    pub large_bytes_max: usize,
    /// Bytes that large frames of one key (or one local user) which are being read may announce: at least the largest frame.
    pub large_bytes_per_key: usize,
    /// Bytes that a peer may send on one stream before they were read: what it can make us hold, once for each stream that it may open.
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
            // A master that has gone is noticed within both together: 30 s.
            idle: seconds(20),
            keep_alive: seconds(10),
            unproved_max: 64,
            handshakes_max: 1024,
            handshakes_per_address: 32,
            connections_max: 20_000,
            connections_per_address: 1024,
            pending_max: 1000,
            pending_per_address: 100,
            // QUIC keeps a table of them for each connection, and of 14 and the control stream it is twice as large.
            streams_max: 12,
            queue: 16,
            bad_frames_max: 16,
            large_bytes_max: 64 << 20,
            large_bytes_per_key: 16 << 20,
            window: 32 << 10,
        }
    }
}

/// A minion takes whole files, and there is one of it.
const MINION_WINDOW: u32 = 1 << 20;
/// What may be on its way to a peer: it is held until the peer has it.
const SEND_WINDOW: u64 = 256 << 10;
/// What a handshake may hold back; ours has a key and little else.
const CRYPTO_BUFFER: usize = 4 << 10;

impl Limits {
    /// How long a frame of so many bytes may take.
    pub(crate) fn frame_of(&self, bytes: usize) -> Duration {
        let rate = f64::from(self.rate_min.max(1));
        self.frame
            .saturating_add(Duration::from_secs_f64(bytes as f64 / rate))
    }

    /// How many bytes of a large frame must come within its window.
    pub(crate) fn window_bytes(&self) -> usize {
        let bytes = f64::from(self.rate_min) * self.rate_window.as_secs_f64();
        bytes as usize
    }

    /// QUIC's settings on a master: little a connection.
    pub(crate) fn of_master(&self) -> TransportConfig {
        let mut config = self.both(self.window);
        // The control stream; more when the key is accepted.
        config.max_concurrent_bidi_streams(1_u32.into());
        // Each connection would keep a buffer for ten packets that are sent at once, which is a third of what it takes in all.
        config.enable_segmentation_offload(false);
        config
    }

    /// What an accepted peer may send before it was read: each of its streams can be full without holding up the others.
    pub(crate) fn window_of_all(&self) -> u32 {
        self.window
            .saturating_mul(self.streams_max.saturating_add(1))
    }

    /// QUIC's settings on a minion.
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
