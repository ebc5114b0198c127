//! A simulated bad network for minions on loopback; the machine's own network is not changed.

use std::collections::HashMap;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The faults of a simulated network, in each direction.
#[derive(Clone, Copy)]
pub(super) struct Network {
    pub loss_percent: u64,
    pub delay: Duration,
    /// The maximum time that is added to the delay; it changes the order of packets.
    pub jitter: Duration,
    /// The interval after which the packets of every minion come from a new port, as after a router
    /// lost its state.
    pub moves: Option<Duration>,
}

/// A bad network between minions and their master.
pub(super) struct Relay {
    pub port: u16,
    stop: Arc<AtomicBool>,
    pub lost: Arc<AtomicUsize>,
    pub moved: Arc<AtomicUsize>,
    thread: Option<JoinHandle<()>>,
}

/// Pseudo-random numbers that are the same in each run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % limit
    }
}

struct Late {
    due: Instant,
    bytes: Vec<u8>,
    /// The direction: from the minion to its master, or back.
    minion: SocketAddr,
    is_up: bool,
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_nonblocking(true).unwrap();
    socket
}

impl Relay {
    pub(super) fn to(master: u16, network: Network) -> Self {
        let inner = socket();
        let port = inner.local_addr().unwrap().port();
        let (stop, lost, moved) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicUsize::new(0)),
            Arc::new(AtomicUsize::new(0)),
        );
        let shared = (stop.clone(), lost.clone(), moved.clone());
        let thread = std::thread::spawn(move || {
            let (stop, lost, moved) = shared;
            relay(&inner, master, network, &stop, &lost, &moved);
        });
        Self {
            port,
            stop,
            lost,
            moved,
            thread: Some(thread),
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn relay(
    inner: &UdpSocket,
    master: u16,
    network: Network,
    stop: &AtomicBool,
    lost: &AtomicUsize,
    moved: &AtomicUsize,
) {
    let mut outer: HashMap<SocketAddr, UdpSocket> = HashMap::new();
    let mut late: Vec<Late> = Vec::new();
    let mut dice = Dice(7);
    let mut buffer = vec![0; 65536];
    let mut moves = network.moves.map(|every| Instant::now() + every);
    let jitter = u64::try_from(network.jitter.as_millis()).unwrap();
    while !stop.load(Ordering::Relaxed) {
        let mut hold = |bytes: &[u8], minion, is_up| {
            if dice.below(100) < network.loss_percent {
                lost.fetch_add(1, Ordering::Relaxed);
                return;
            }
            let due =
                Instant::now() + network.delay + Duration::from_millis(dice.below(jitter.max(1)));
            let bytes = bytes.to_vec();
            late.push(Late {
                due,
                bytes,
                minion,
                is_up,
            });
        };
        while let Ok((length, minion)) = inner.recv_from(&mut buffer) {
            outer.entry(minion).or_insert_with(socket);
            hold(&buffer[..length], minion, true);
        }
        for (minion, socket) in &outer {
            while let Ok(length) = socket.recv(&mut buffer) {
                hold(&buffer[..length], *minion, false);
            }
        }
        let now = Instant::now();
        for packet in late.extract_if(.., |packet| packet.due <= now) {
            let _ = match packet.is_up {
                true => outer[&packet.minion].send_to(&packet.bytes, ("127.0.0.1", master)),
                false => inner.send_to(&packet.bytes, packet.minion),
            };
        }
        if let (Some(at), Some(every)) = (&mut moves, network.moves)
            && now >= *at
        {
            outer.values_mut().for_each(|outer| *outer = socket());
            moved.fetch_add(1, Ordering::Relaxed);
            *at = now + every;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
