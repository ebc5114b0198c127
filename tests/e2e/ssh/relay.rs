//! A relay between the machine that calls and the server of a host, which counts the bytes that it
//! passes on and can cut the connection.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::free_port;

/// The maximum time for the last bytes to arrive.
const ARRIVAL_MAX: Duration = Duration::from_secs(5);

pub(super) struct Relay {
    pub(super) port: u16,
    shared: Arc<Shared>,
    listens: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    ends: AtomicBool,
    /// The bytes that hosts got.
    sent: AtomicU64,
    /// The bytes after which a connection is cut; 0 for none.
    cuts_after: AtomicU64,
    /// Returns whether the bytes of a connection have arrived.
    arrived: Mutex<Option<Box<dyn Fn() -> bool + Send>>>,
    cuts: AtomicU64,
}

impl Relay {
    /// Starts a relay to a port. With `network`, both are in that network.
    pub(super) fn start(to: u16, network: Option<File>) -> Self {
        let port = free_port();
        let shared = Arc::<Shared>::default();
        let its = shared.clone();
        let listens = spawn(move || {
            if let Some(network) = network {
                let kind = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(std::os::fd::AsFd::as_fd(&network), kind).unwrap();
            }
            let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
            listener.set_nonblocking(true).unwrap();
            while !its.ends.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((caller, _)) => {
                        caller.set_nonblocking(false).unwrap();
                        its.clone().connect(caller, to);
                    }
                    Err(_) => sleep(Duration::from_millis(5)),
                }
            }
        });
        Self {
            port,
            shared,
            listens: Some(listens),
        }
    }

    /// Cuts each connection after this many bytes, when they have arrived. A server drops what it has
    /// not yet given to its command.
    pub(super) fn cut_after(&self, bytes: u64, arrived: impl Fn() -> bool + Send + 'static) {
        *self.shared.arrived.lock().unwrap() = Some(Box::new(arrived));
        self.shared.cuts_after.store(bytes, Ordering::Relaxed);
    }

    /// Returns how many bytes the hosts got.
    pub(super) fn sent(&self) -> u64 {
        self.shared.sent.load(Ordering::Relaxed)
    }

    /// Returns how many connections were cut.
    pub(super) fn cuts(&self) -> u64 {
        self.shared.cuts.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn wait_for_arrival(&self) {
        let began = Instant::now();
        let arrived = self.arrived.lock().unwrap();
        let arrived = arrived.as_ref().unwrap();
        while !arrived() && began.elapsed() < ARRIVAL_MAX {
            sleep(Duration::from_millis(10));
        }
    }

    fn connect(self: Arc<Self>, mut caller: TcpStream, to: u16) {
        let Ok(mut host) = TcpStream::connect(("127.0.0.1", to)) else {
            return;
        };
        let (mut from_host, mut to_caller) =
            (host.try_clone().unwrap(), caller.try_clone().unwrap());
        spawn(move || {
            let _ = std::io::copy(&mut from_host, &mut to_caller);
            let _ = to_caller.shutdown(Shutdown::Both);
        });
        spawn(move || {
            let mut here = 0;
            let mut piece = [0; 4096];
            while let Ok(length @ 1..) = caller.read(&mut piece) {
                if host.write_all(&piece[..length]).is_err() {
                    break;
                }
                here += length as u64;
                self.sent.fetch_add(length as u64, Ordering::Relaxed);
                let most = self.cuts_after.load(Ordering::Relaxed);
                if most > 0 && here >= most {
                    self.wait_for_arrival();
                    self.cuts.fetch_add(1, Ordering::Relaxed);
                    let _ = caller.shutdown(Shutdown::Both);
                    break;
                }
            }
            let _ = host.shutdown(Shutdown::Both);
        });
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        if let Some(listens) = self.listens.take() {
            let _ = listens.join();
        }
    }
}
