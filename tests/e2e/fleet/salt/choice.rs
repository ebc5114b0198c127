//! The choice between Pinch's protocol and Salt's.

use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::super::Fleet;
use super::Salt;

/// Accepts connections over TCP, and counts those that send anything.
struct FakeMaster {
    port: u16,
    spoken: Arc<AtomicUsize>,
}

impl FakeMaster {
    fn start(port: u16) -> Self {
        let socket = TcpListener::bind(("127.0.0.1", port)).unwrap();
        let port = socket.local_addr().unwrap().port();
        let spoken = Arc::new(AtomicUsize::new(0));
        let count = spoken.clone();
        thread::spawn(move || {
            for mut peer in socket.incoming().flatten() {
                let count = count.clone();
                thread::spawn(move || {
                    if peer.read(&mut [0; 64]).is_ok_and(|length| length > 0) {
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        Self { port, spoken }
    }

    fn was_spoken_to(&self) -> bool {
        self.spoken.load(Ordering::Relaxed) > 0
    }
}

#[test]
fn a_minion_with_the_key_of_a_pinch_master_never_falls_back_to_salts_protocol() {
    let mut fleet = Fleet::with("");
    fleet.accepted(&["m1"]);
    fleet.kill_minion("m1");
    fleet.kill_master();
    // An attacker blocks UDP, and offers Salt's protocol on the same port.
    let fake = FakeMaster::start(fleet.port);
    fleet.start_minion_again("m1");
    let log = fleet.path("m1/log");
    let tries = || {
        fs::read_to_string(&log)
            .unwrap_or_default()
            .matches("Retrying in")
            .count()
    };
    let before = tries();
    fleet.soon("it tries several times", || tries() >= before + 2);
    assert!(!fake.was_spoken_to(), "{}", fleet.logs());
}

#[test]
fn a_new_minion_finds_salts_protocol_by_itself_unless_it_is_told_otherwise() {
    let mut fleet = Fleet::with("");
    // Each minion has its own master: what the first one has sent may still be read after it ended.
    let start = |fleet: &mut Fleet, id, scheme| {
        let fake = FakeMaster::start(0);
        let port = fake.port;
        let config = format!("master: {scheme}127.0.0.1\nmaster_port: {port}\n");
        fleet.start_minion(id, &config);
        fake
    };
    let of_any_protocol = start(&mut fleet, "m1", "");
    fleet.soon("it tries Salt's protocol", || {
        of_any_protocol.was_spoken_to()
    });
    let of_pinch = start(&mut fleet, "m2", "quic://");
    let log = fleet.path("m2/log");
    let tries = || {
        let log = fs::read_to_string(&log).unwrap_or_default();
        log.matches("Retrying in").count()
    };
    fleet.soon("it tries twice", || tries() >= 2);
    assert!(!of_pinch.was_spoken_to(), "{}", fleet.logs());
}

#[test]
fn the_protocol_of_a_salt_master_is_found_and_remembered() {
    let Some(mut salt) = Salt::start("zeromq", "") else {
        return;
    };
    let port = salt.ports[1];
    salt.start_minion("m1", &format!("master: 127.0.0.1\nmaster_port: {port}\n"));
    salt.answers("m1");
    let file = fs::read_to_string(salt.path("m1/pki/master_protocols")).unwrap();
    assert!(file.contains("\"salt\""), "{file}");
    // The first try needed a key of Pinch, so the key for Salt has another name.
    assert!(salt.path("m1/pki/minion.rsa.pem").exists());
    salt.minions.clear();
    salt.start_minion_again("m1");
    salt.answers("m1");
}
