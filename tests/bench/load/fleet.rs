//! [`Fleet`]: all minions, and what they are asked to do together.

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use link::pki::Pki;
use link::{KeyPair, Limits, Master, Options, Session, Waits};
use smol::Timer;
use smol::channel::{Receiver, Sender, bounded, unbounded};
use smol::lock::Semaphore;

use crate::minion::{Minion, hello};

/// Minions of one address, on one socket: a master lets in 1,024 of an address.
const PER_ADDRESS: usize = 500;
/// Handshakes under way.
const AT_ONCE: usize = 64;
/// The longest that any command waits.
const PATIENCE: Duration = Duration::from_secs(600);

type Problem = Box<dyn Error>;

/// What all minions share.
#[derive(Debug)]
pub(crate) struct Shared {
    connected: AtomicUsize,
    /// How many connections there have been, those that are lost among them.
    made: AtomicUsize,
    /// Turns to make one.
    pub(crate) handshakes: Semaphore,
    done: Sender<()>,
}

impl Shared {
    pub(crate) fn came(&self) {
        self.connected.fetch_add(1, Ordering::Relaxed);
        self.made.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn went(&self) {
        self.connected.fetch_sub(1, Ordering::Relaxed);
    }

    /// A minion has sent its events, and all are acked.
    pub(crate) fn done(&self) {
        let _ = self.done.try_send(());
    }
}

/// All minions.
#[derive(Debug)]
pub(crate) struct Fleet {
    shared: Arc<Shared>,
    orders: Vec<Sender<usize>>,
    done: Receiver<()>,
}

impl Fleet {
    /// Starts them; the first of each address opens its socket.
    pub(crate) fn start(master: Master, folder: &Path, count: usize) -> Result<Self, Problem> {
        let pki = Pki::open(folder)?;
        let (done_sender, done) = unbounded();
        let shared = Arc::new(Shared {
            connected: AtomicUsize::new(0),
            made: AtomicUsize::new(0),
            handshakes: Semaphore::new(AT_ONCE),
            done: done_sender,
        });
        let mut fleet = Self {
            shared,
            orders: Vec::new(),
            done,
        };
        for (group, first) in (0..count).step_by(PER_ADDRESS).enumerate() {
            let address = Ipv4Addr::new(127, 0, 1, u8::try_from(group + 1)?);
            let numbers = first..(first + PER_ADDRESS).min(count);
            let sessions = numbers.map(|number| {
                let options = options(&master, &pki, number, address.into())?;
                Ok::<_, Problem>((number, Session::new(options)))
            });
            fleet.begin(sessions.collect::<Result<_, _>>()?);
        }
        Ok(fleet)
    }

    fn begin(&mut self, sessions: Vec<(usize, Session)>) {
        let mut minions = Vec::new();
        for (number, session) in sessions {
            let (order, orders) = bounded(1);
            self.orders.push(order);
            minions.push(Minion::new(number, session, orders, self.shared.clone()));
        }
        smol::spawn(async move {
            let mut minions = minions.into_iter();
            let Some(mut first) = minions.next() else {
                return;
            };
            let (link, welcome) = first.connect().await;
            for mut minion in minions {
                minion.share_socket(&first);
                smol::spawn(minion.live()).detach();
            }
            first.go_on(link, welcome).await;
        })
        .detach();
    }

    /// Waits until all have connected once more, and says how long that took.
    pub(crate) async fn connected(&self, made_before: usize) -> Result<String, Problem> {
        let began = Instant::now();
        let all = self.orders.len();
        loop {
            let connected = self.shared.connected.load(Ordering::Relaxed);
            let took = began.elapsed();
            if connected == all && self.made() >= made_before + all {
                let rate = all as f64 / took.as_secs_f64();
                return Ok(format!(
                    "{all} connected after {:.2} s: {rate:.0}/s",
                    took.as_secs_f64()
                ));
            }
            if took > PATIENCE {
                return Err(format!("{connected} of {all} are connected").into());
            }
            Timer::after(Duration::from_millis(5)).await;
        }
    }

    /// How many connections there have been.
    pub(crate) fn made(&self) -> usize {
        self.shared.made.load(Ordering::Relaxed)
    }

    /// Has all minions send as many events together, and says how many became durable a second.
    pub(crate) async fn send(&self, count: usize) -> Result<String, Problem> {
        let each = count.div_ceil(self.orders.len().max(1));
        let began = Instant::now();
        for order in &self.orders {
            order.send(each).await?;
        }
        let all = async {
            for _ in &self.orders {
                self.done.recv().await?;
            }
            Ok::<_, Problem>(())
        };
        let late = async {
            Timer::after(PATIENCE).await;
            Err("not all events were acked".into())
        };
        smol::future::or(all, late).await?;
        let (count, took) = (each * self.orders.len(), began.elapsed().as_secs_f64());
        Ok(format!(
            "{count} events durable after {took:.2} s: {:.0}/s",
            count as f64 / took
        ))
    }
}

fn options(master: &Master, pki: &Pki, number: usize, source: IpAddr) -> Result<Options, Problem> {
    Ok(Options {
        masters: vec![master.clone()],
        random: false,
        source: Some(source),
        pair: KeyPair::generate()?,
        pki: pki.clone(),
        finger: None,
        hello: hello(number)?,
        limits: Limits {
            handshake: Duration::from_secs(30),
            hello: Duration::from_secs(30),
            ..Limits::default()
        },
        waits: Waits::default(),
    })
}
