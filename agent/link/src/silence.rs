//! Decides when a peer that answers no packet counts as lost: within seconds, long before QUIC ends the connection (`idle`).
//!
//! QUIC sends what is not acknowledged again and again, ever more slowly. A peer that is there answers one of these packets even over
//! a link that loses a third of them, so both the time and the number of unanswered packets count: on a slow link they go out later.

use std::time::Duration;

use quinn::Connection;

use crate::wait::pause;

/// How long a peer may leave what was sent to it unanswered.
const SILENT: Duration = Duration::from_secs(2);
/// The same in round trips, for links on which that is longer.
const ROUND_TRIPS: u32 = 4;
/// How many packets it must have left unanswered in that time.
const PACKETS: u64 = 8;
/// How many looks make up that time. A machine that stood still has missed looks, and no time has passed for its peers.
const LOOKS: u32 = 8;

/// What the last looks at a connection have shown.
#[derive(Debug)]
struct Silence {
    received: u64,
    /// How many packets were sent when the last one was received.
    sent: u64,
    /// How many looks ago that was.
    looks: u32,
}

impl Silence {
    /// Takes the numbers of packets that were received and sent so far; true when the peer is lost.
    fn look(&mut self, received: u64, sent: u64) -> bool {
        if received != self.received {
            (self.received, self.sent, self.looks) = (received, sent, 0);
            return false;
        }
        self.looks += 1;
        self.looks >= LOOKS && sent.saturating_sub(self.sent) >= PACKETS
    }
}

/// Waits until the peer has left everything unanswered for so long that it counts as lost.
pub(crate) async fn of(connection: &Connection) {
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
