use std::process::Command;

use super::*;

fn status(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn cpu_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat
        .rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

const COUNT: &str = "LINK_TEST_CONNECTIONS";
const ADDRESS: &str = "LINK_TEST_ADDRESS";

/// The other process of `idle_connections`: connects many minions one after the other, then idles
/// until it is killed.
#[test]
#[ignore = "started by idle_connections"]
fn many_minions() {
    let Ok(address) = std::env::var(ADDRESS) else {
        return;
    };
    let count: usize = std::env::var(COUNT).unwrap().parse().unwrap();
    run(async {
        let address: SocketAddr = address.parse().unwrap();
        let endpoint = Endpoint::client(([127, 0, 0, 1], 0).into()).unwrap();
        let mut held = Vec::new();
        for first in (0..count).step_by(32) {
            let one = |number: usize| {
                let endpoint = endpoint.clone();
                smol::spawn(async move {
                    let pair = KeyPair::generate().unwrap();
                    let crypto = tls::client(&pair, wire::ALPN, Pinned::new(Vec::new())).unwrap();
                    let mut config = quinn::ClientConfig::new(Arc::new(crypto));
                    config.transport_config(Arc::new(Limits::default().of_minion()));
                    let connection = endpoint
                        .connect_with(config, address, "x")
                        .unwrap()
                        .await
                        .unwrap();
                    let (send, receive) = connection.open_bi().await.unwrap();
                    let mut raw = Raw {
                        _endpoint: endpoint,
                        connection,
                        send,
                        receive,
                    };
                    raw.say(&hello(&format!("m{number}")).into()).await;
                    raw.hear().await;
                    raw
                })
            };
            let some: Vec<_> = (first..(first + 32).min(count)).map(one).collect();
            for raw in some {
                held.push(raw.await);
            }
        }
        held[0].connection.closed().await;
    });
}

/// Measures the cost of a connection on a master: `cargo test --release -p link -- --ignored
/// --nocapture idle_connections`
#[test]
#[ignore = "measures"]
fn idle_connections() {
    let count: usize = std::env::var(COUNT)
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(1000);
    run(async {
        let limits = Limits {
            connections_per_address: count,
            ..Limits::default()
        };
        let world = World::with(limits);
        world.serves_others().await;
        let before = status("VmRSS");
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "tests::load::many_minions"])
            .env(ADDRESS, world.address().to_string())
            .env(COUNT, count.to_string())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let (began, cpu) = (Instant::now(), cpu_s());
        for _ in 0..count {
            let peer = world.listener.next().await.unwrap();
            let mut link = peer.accept(welcome()).await.unwrap();
            smol::spawn(async move { while link.next().await.is_ok() {} }).detach();
        }
        let (took, cpu) = (began.elapsed().as_secs_f64(), cpu_s() - cpu);
        Timer::after(ms(3000)).await;
        let bytes = (status("VmRSS") - before) as usize * 1024 / count;
        println!(
            "{count} connections in {took:.2} s ({:.0}/s with both ends here; the master alone used {cpu:.2} s of cpu: {:.0}/s); {bytes} bytes of memory each",
            count as f64 / took,
            count as f64 / cpu.max(0.01)
        );
        child.kill().unwrap();
        child.wait().unwrap();
    });
}

/// Measures events per second: `cargo test --release -p link -- --ignored --nocapture
/// events_a_second`
#[test]
#[ignore = "measures"]
fn events_a_second() {
    run(async {
        let world = World::new();
        let (mut minion, mut master) = world.connected("m1").await;
        let count = 200_000_u64;
        let masters = smol::spawn(async move {
            let mut got = 0;
            while got < count {
                let Ok(Incoming::Event(event)) = master.next().await else {
                    panic!("no event")
                };
                got = event.sequence;
                if got.is_multiple_of(100) {
                    master.handle().ack(got).await.unwrap();
                }
            }
            master
        });
        let began = Instant::now();
        let handle = minion.handle();
        let sender = smol::spawn(async move {
            for sequence in 1..=count {
                handle.event(event(sequence)).await.unwrap();
            }
        });
        while !matches!(minion.next().await, Ok(Incoming::Ack(sequence)) if sequence == count) {}
        sender.await;
        println!(
            "{:.0} events a second on one connection",
            count as f64 / began.elapsed().as_secs_f64()
        );
        drop(masters.await);
    });
}
