//! Decides when a peer that answers no packet counts as lost: within seconds, long before QUIC ends
//! the connection (`idle`).
//!
//! QUIC repeats what is not acknowledged, at growing intervals. Even over a link that loses a third
//! of the packets, a live peer answers one of them. Both the time and the number of unanswered
//! packets count, because on a slow link packets are sent more slowly.

use std::time::Duration;

use quinn::Connection;

use crate::wait::pause;

/// The time for which a peer may leave packets unanswered.
const SILENT: Duration = Duration::from_secs(2);
/// The same time in round trips, for links on which that is longer.
const ROUND_TRIPS: u32 = 4;
/// The minimum number of packets that the peer must have left unanswered in that time.
const PACKETS: u64 = 8;
/// The number of checks in that time. A machine that was suspended has missed checks, so it does
/// not blame its peers for that time.
const LOOKS: u32 = 8;

/// The state of the last checks of a connection.
#[derive(Debug)]
struct Silence {
    received: u64,
    /// The number of packets that were sent when the last one was received.
    sent: u64,
    /// The number of checks since then.
    looks: u32,
}

impl Silence {
    /// Takes the numbers of packets that were received and sent so far. Returns true when the peer
    /// counts as lost.
    fn look(&mut self, received: u64, sent: u64) -> bool {
        if received != self.received {
            (self.received, self.sent, self.looks) = (received, sent, 0);
            return false;
        }
        self.looks += 1;
        self.looks >= LOOKS && sent.saturating_sub(self.sent) >= PACKETS
    }
}

/// Waits until the peer has left packets unanswered for so long that it counts as lost.
pub(crate) async fn wait_until_lost(connection: &Connection) {
    let packets = || {
        let stats = connection.stats();
        (stats.udp_rx.datagrams, stats.udp_tx.datagrams)
    };
    let (received, sent) = packets();
    let looks = 0;
    let mut silence = Silence {
        received,
        sent,
        looks,
    };
    loop {
        pause(SILENT.max(connection.rtt() * ROUND_TRIPS) / LOOKS).await;
        let (received, sent) = packets();
        if silence.look(received, sent) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn silence() -> Silence {
        Silence {
            received: 5,
            sent: 5,
            looks: 0,
        }
    }

    #[test]
    fn a_peer_is_lost_when_it_answers_none_of_several_packets_for_long_enough() {
        let mut silence = silence();
        let looks = (1..=LOOKS).map(|_| silence.look(5, 5 + PACKETS));
        let looks: Vec<bool> = looks.collect();
        let (last, before) = looks.split_last().unwrap();
        assert!(last);
        assert!(!before.contains(&true));
    }

    #[test]
    fn a_peer_that_was_sent_nothing_more_is_not_lost() {
        let mut silence = silence();
        assert!(!(0..100).any(|_| silence.look(5, 5)));
        assert!(!(0..100).any(|_| silence.look(5, 4 + PACKETS)));
    }

    #[test]
    fn one_packet_from_the_peer_begins_the_time_anew() {
        let mut silence = silence();
        for received in 5..50 {
            let mut looks = (1..LOOKS).map(|_| silence.look(received, received * PACKETS));
            assert!(!looks.any(|is_lost| is_lost));
        }
    }
}
