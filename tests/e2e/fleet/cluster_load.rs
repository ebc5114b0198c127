//! A cluster whose masters have more changes and jobs waiting than they have room for.

use std::time::Duration;

use smol::Timer;
use smol::future::or;

use super::PATIENCE;
use super::cluster::{Masters, SECRET};

/// The load generator of the benchmarks.
#[expect(
    dead_code,
    reason = "the benchmarks also wait for connections after a restart"
)]
#[path = "../../bench/load"]
mod load {
    pub(super) mod fleet;
    mod minion;
}

/// The number of minions of each of two masters: more than the requests that a master takes from
/// another one at a time.
const MINIONS: usize = 300;
/// The number of events at each of them, more than the changes that may wait there.
const EVENTS: u64 = 6_000;

/// Connects minions to a master.
fn connect(masters: &Masters, number: usize) -> load::fleet::Fleet {
    let fleet = &masters.all[number - 1];
    let master = link::Master::parse(&masters.name(number), fleet.port);
    let many = load::fleet::Many {
        name: &format!("at{number}-"),
        count: MINIONS,
        within: Duration::ZERO,
        is_each_alone: false,
    };
    let minions = load::fleet::Fleet::start(&master, &fleet.path("load"), &many).unwrap();
    smol::block_on(minions.connected(0)).unwrap();
    minions
}

/// Sends all events at once, and waits until they are acknowledged.
async fn send(minions: &load::fleet::Fleet) {
    let sent = async { minions.send(EVENTS, None).await.map(|_| ()) };
    let late = async {
        Timer::after(PATIENCE).await;
        Err("the time is over".into())
    };
    or(sent, late).await.unwrap();
}

#[test]
fn a_flood_of_events_outlasts_the_leader_and_a_job_reaches_all_minions_of_another_master() {
    let config = format!("auto_accept: True\n{SECRET}");
    let mut masters = Masters::with(3, &config);
    masters.led_by(3);
    let all = [1, 2].map(|number| connect(&masters, number));
    // A master hears of a minion of another one shortly after the minion itself.
    masters.soon("a master reaches the minions of both", |masters| {
        answered(&masters.ping(1)) == 2 * MINIONS
    });
    let made = || [all[0].made(), all[1].made()];
    let before = made();
    let end = async {
        Timer::after(Duration::from_millis(300)).await;
        masters.all[2].kill_master();
    };
    smol::block_on(smol::future::zip(
        smol::future::zip(send(&all[0]), send(&all[1])),
        end,
    ));
    assert_eq!(made(), before, "minions have lost their masters");
    let answers = masters.ping(2);
    assert_eq!(answered(&answers), 2 * MINIONS, "{answers}");
}

/// Returns the number of minions that have answered a `test.ping`.
fn answered(answers: &str) -> usize {
    answers.matches("true").count()
}
