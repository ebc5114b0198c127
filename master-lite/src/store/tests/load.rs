//! Measurements of throughput, for a release build.

use std::time::Instant;

use super::*;

const SENDERS: u8 = 100;
const EACH: u64 = 4_000;

#[test]
#[ignore = "figures to read: cargo test --release -p master -- --ignored --nocapture store::tests::load"]
fn durable_events_a_second_of_a_hundred_senders() {
    let world = World::new();
    let start = Instant::now();
    let senders = (1..=SENDERS).map(|number| {
        let store = world.store.clone();
        smol::spawn(async move {
            let name = format!("m{number}");
            store.apply(accepted(&name, number)).await.unwrap();
            for sequence in 1..=EACH {
                let sent = sent(&name, number, 1, sequence);
                store.apply(sent).await.unwrap();
            }
        })
    });
    for sender in senders.collect::<Vec<_>>() {
        smol::block_on(sender);
    }
    report("one after the other", start);
    let start = Instant::now();
    let senders = (1..=SENDERS).map(|number| {
        let store = world.store.clone();
        smol::spawn(async move {
            let name = format!("m{number}");
            for sequences in (EACH + 1..=2 * EACH).collect::<Vec<_>>().chunks(50) {
                let sends = sequences.iter().map(|sequence| {
                    let (store, sent) = (store.clone(), sent(&name, number, 1, *sequence));
                    smol::spawn(async move { store.apply(sent).await.unwrap() })
                });
                for send in sends.collect::<Vec<_>>() {
                    send.await;
                }
            }
        })
    });
    for sender in senders.collect::<Vec<_>>() {
        smol::block_on(sender);
    }
    report("fifty at a time", start);
    let start = Instant::now();
    let world = world.again();
    println!("opened again in {:?}; {}", start.elapsed(), resident());
    let keep = Retention {
        events: 0,
        ..Retention::default()
    };
    let start = Instant::now();
    while smol::block_on(world.store.retain(keep, 2)).unwrap() {}
    println!("all dropped in {:?}; {}", start.elapsed(), resident());
}

/// Adds events of many holders in turn.
fn events_of(store: &Store, holders: u64, count: u64) {
    for number in 0..count {
        let event = Command::Event {
            tag: "my/tag".to_owned(),
            data: Map::new().with("id", format!("m{}", number % holders)),
            stamp: String::new(),
            at_ms: 1,
            origin: None,
        };
        smol::block_on(store.later(event)).unwrap();
    }
    store.apply_blocking(Command::All(Vec::new())).unwrap();
}

#[test]
#[ignore = "figures to read, as above"]
fn removals_from_a_store_with_a_million_events() {
    let world = World::new();
    let keep = Retention {
        events: 1_000_000,
        events_bytes: u64::MAX,
        ..Retention::default()
    };
    let removed = |what: &str| {
        let (start, mut steps, mut longest) = (Instant::now(), 0, Duration::ZERO);
        while world.store.is_over(keep) {
            let began = Instant::now();
            smol::block_on(world.store.retain(keep, 2)).unwrap();
            longest = longest.max(began.elapsed());
            steps += 1;
        }
        let all = start.elapsed();
        println!("{what}: {steps} steps, {all:?}, longest {longest:?}");
    };
    events_of(&world.store, 10_000, 1_001_000);
    removed("1,000 events of 10,000 equal holders");
    events_of(&world.store, 1, 10_000);
    removed("10,000 events of one holder, the newest");
    events_of(&world.store, 10_000, 1_000);
    removed("1,000 events of 10,000 equal holders, later");
}

fn report(how: &str, start: Instant) {
    let rate = u64::from(SENDERS) * EACH * 1000 / (start.elapsed().as_millis() as u64).max(1);
    println!("{how}: {rate} durable events/s; {}", resident());
}

fn resident() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS"));
    line.unwrap_or_default().replace('\t', " ")
}
