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

fn report(how: &str, start: Instant) {
    let rate = u64::from(SENDERS) * EACH * 1000 / (start.elapsed().as_millis() as u64).max(1);
    println!("{how}: {rate} durable events/s; {}", resident());
}

fn resident() -> String {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS"));
    line.unwrap_or_default().replace('\t', " ")
}
