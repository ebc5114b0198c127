//! A network between a minion and its Salt master that carries nothing for a while.

use std::time::{Duration, Instant};

use super::Salt;
use crate::fleet::Turn;
use crate::fleet::network::{drop_packets, in_own_network};

/// The address of the minion; the master and its programs have another.
const MINION: &str = "127.0.0.2";

/// Returns the duration of the cut: `PINCH_CUT_SECONDS`.
fn duration() -> Duration {
    let given = std::env::var("PINCH_CUT_SECONDS").ok();
    Duration::from_secs(given.map_or(20, |seconds| seconds.parse().unwrap()))
}

#[expect(
    clippy::print_stdout,
    reason = "the times after a long cut are figures"
)]
fn cut(transport: &str) {
    let Some(salt) = Salt::start(transport, "") else {
        return;
    };
    let salt = salt.with_minions(&["m1"], &format!("source_address: {MINION}\n"));
    let events = salt.record_events();
    let jid = salt.begin_sleep("m1", "5");
    drop_packets(&format!("ip saddr {MINION} drop\nip daddr {MINION} drop\n"));
    let unanswered = salt.salt(&["-t", "5", "m1", "test.ping"]);
    assert_ne!(unanswered["m1"], true);
    std::thread::sleep(duration());
    assert_eq!(events.with_tail(&format!("{jid}/ret/m1")).len(), 0);
    drop_packets("");
    let began = Instant::now();
    salt.soon("the return arrives", || {
        !events.with_tail(&format!("{jid}/ret/m1")).is_empty()
    });
    let returned = began.elapsed();
    salt.answers("m1");
    println!(
        "returned after {returned:?}, answers after {:?}",
        began.elapsed()
    );
    // The return is not sent once more.
    assert_eq!(events.with_tail(&format!("{jid}/ret/m1")).len(), 1);
    let started = events.with_tag("salt/minion/m1/start").len();
    assert!(started <= 1, "{started} starts");
}

#[test]
fn a_return_is_delivered_after_a_cut_of_the_network() {
    let name = "fleet::salt::cut::a_return_is_delivered_after_a_cut_of_the_network";
    in_own_network(name, Turn::shared, || cut("zeromq"));
}

#[test]
fn a_return_is_delivered_after_a_cut_of_the_network_over_tcp() {
    let name = "fleet::salt::cut::a_return_is_delivered_after_a_cut_of_the_network_over_tcp";
    in_own_network(name, Turn::shared, || cut("tcp"));
}
