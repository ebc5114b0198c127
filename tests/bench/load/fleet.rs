//! [`Fleet`]: all minions, and their common tasks.

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use link::pki::Pki;
use link::{KeyPair, Limits, Master, Options, Session, Waits};
use smol::Timer;
use smol::channel::{Sender, bounded};
use smol::lock::Semaphore;
use wire::Hello;

use super::minion::{Minion, hello};

/// The number of minions with one address and one socket: a master accepts 1,024 of an address.
const PER_ADDRESS: usize = 500;
/// The maximum number of concurrent handshakes.
const AT_ONCE: usize = 64;
/// The longest that any command waits.
const PATIENCE: Duration = Duration::from_secs(600);

type Problem = Box<dyn Error>;

/// The state that all minions share.
#[derive(Debug)]
pub(crate) struct Shared {
    connected: AtomicUsize,
    /// The number of connections that were made, including lost ones.
    made: AtomicUsize,
    /// Permits for a connection attempt.
    pub(crate) handshakes: Semaphore,
    /// The number of durable events.
    acked: AtomicU64,
}

impl Shared {
    pub(crate) fn came(&self) {
        self.connected.fetch_add(1, Ordering::Relaxed);
        self.made.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn went(&self) {
        self.connected.fetch_sub(1, Ordering::Relaxed);
    }

    /// Adds `count` to the number of durable events.
    pub(crate) fn acked(&self, count: u64) {
        self.acked.fetch_add(count, Ordering::Relaxed);
    }
}

/// The description of the minions to start.
#[derive(Debug)]
pub(crate) struct Many<'a> {
    /// The prefix of their ids.
    pub(crate) name: &'a str,
    pub(crate) count: usize,
    /// The time within which they start, one after the other.
    pub(crate) within: Duration,
    /// True if they are independent: each has a socket, and all may connect at the same time.
    pub(crate) is_each_alone: bool,
}

/// All minions.
#[derive(Debug)]
pub(crate) struct Fleet {
    shared: Arc<Shared>,
    orders: Vec<Sender<usize>>,
}

impl Fleet {
    /// Starts them within some time; the first of each address opens its socket.
    pub(crate) fn start(master: &Master, folder: &Path, many: &Many<'_>) -> Result<Self, Problem> {
        let count = many.count;
        let pki = Pki::open(folder)?;
        let shared = Arc::new(Shared {
            connected: AtomicUsize::new(0),
            made: AtomicUsize::new(0),
            handshakes: Semaphore::new(if many.is_each_alone { count } else { AT_ONCE }),
            acked: AtomicU64::new(0),
        });
        let mut fleet = Self {
            shared,
            orders: Vec::new(),
        };
        for (group, first) in (0..count).step_by(PER_ADDRESS).enumerate() {
            let address = Ipv4Addr::new(127, 0, 1, u8::try_from(group + 1)?);
            let numbers = first..(first + PER_ADDRESS).min(count);
            let sessions = numbers.map(|number| {
                let options = options(master, &pki, hello(many.name, number)?, address.into())?;
                Ok::<_, Problem>((number, Session::new(options)))
            });
            let between = many.within.div_f64(count as f64);
            let sessions = sessions.collect::<Result<Vec<_>, Problem>>()?;
            match many.is_each_alone {
                true => sessions
                    .into_iter()
                    .for_each(|one| fleet.begin(vec![one], between)),
                false => fleet.begin(sessions, between),
            }
        }
        Ok(fleet)
    }

    fn begin(&mut self, sessions: Vec<(usize, Session)>, between: Duration) {
        let (mut minions, now) = (Vec::new(), Instant::now());
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
            first.comes(now, between).await;
            let (link, welcome) = first.connect().await;
            for mut minion in minions {
                minion.share_socket(&first);
                let life = async move {
                    minion.comes(now, between).await;
                    minion.live().await;
                };
                smol::spawn(life).detach();
            }
            first.go_on(link, welcome).await;
        })
        .detach();
    }

    /// Waits until all have reconnected, and returns the duration.
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
                return Err(format!("only {connected} of {all} minions are connected").into());
            }
            Timer::after(Duration::from_millis(5)).await;
        }
    }

    /// Returns the number of connections that were made, including lost ones.
    pub(crate) fn made(&self) -> usize {
        self.shared.made.load(Ordering::Relaxed)
    }

    /// Lets the minions send this number of events in all, as fast as they can or at a rate. Reports how
    /// many became durable per second.
    pub(crate) async fn send(&self, count: u64, rate: Option<f64>) -> Result<String, Problem> {
        let before = self.shared.acked.load(Ordering::Relaxed);
        let began = Instant::now();
        let count = match rate {
            None => self.at_once(count).await?,
            Some(rate) => self.paced(count, rate).await?,
        };
        // No event is lost on the way: each is acked once, by its connection or the next one.
        while self.shared.acked.load(Ordering::Relaxed) - before < count {
            if began.elapsed() > PATIENCE {
                return Err("some events were not acknowledged".into());
            }
            Timer::after(Duration::from_millis(1)).await;
        }
        let took = began.elapsed().as_secs_f64();
        Ok(format!(
            "{count} events durable after {took:.2} s: {:.0}/s",
            count as f64 / took
        ))
    }

    /// Makes one minion after the other send an event, and waits until it is acknowledged. Returns
    /// the times.
    pub(crate) async fn latency(&self, count: usize) -> Result<String, Problem> {
        let mut times = Vec::with_capacity(count);
        for order in self.orders.iter().cycle().take(count) {
            let before = self.shared.acked.load(Ordering::Relaxed);
            let began = Instant::now();
            order.send(1).await?;
            while self.shared.acked.load(Ordering::Relaxed) == before {
                if began.elapsed() > PATIENCE {
                    return Err("an event was not acknowledged".into());
                }
                Timer::after(Duration::from_micros(50)).await;
            }
            times.push(began.elapsed());
        }
        times.sort_unstable();
        let at = |percent: usize| {
            let time = times.get(times.len() * percent / 100);
            time.copied().unwrap_or_default().as_secs_f64() * 1000.0
        };
        Ok(format!(
            "p50 {:.2} ms, p99 {:.2} ms of {count} events, one after the other",
            at(50),
            at(99)
        ))
    }

    async fn at_once(&self, count: u64) -> Result<u64, Problem> {
        let minions = self.orders.len().max(1);
        let each = usize::try_from(count)?.div_ceil(minions);
        for order in &self.orders {
            order.send(each).await?;
        }
        Ok((each * self.orders.len()) as u64)
    }

    /// Sends the events of a minion at their times: after a late one, the next ones catch up.
    async fn paced(&self, count: u64, rate: f64) -> Result<u64, Problem> {
        let began = Instant::now();
        for (number, order) in (0..count).zip(self.orders.iter().cycle()) {
            Timer::at(began + Duration::from_secs_f64(number as f64 / rate)).await;
            order.send(1).await?;
        }
        Ok(count)
    }
}

fn options(master: &Master, pki: &Pki, hello: Hello, source: IpAddr) -> Result<Options, Problem> {
    Ok(Options {
        masters: vec![master.clone()],
        random: false,
        source: Some(source),
        pair: KeyPair::generate()?,
        pki: pki.clone(),
        fingers: Vec::new(),
        hello,
        limits: Limits {
            handshake: Duration::from_secs(30),
            hello: Duration::from_secs(30),
            ..Limits::default()
        },
        // Only a few connect at a time: a random wait would block the others.
        waits: Waits {
            random_reauth_delay: Duration::ZERO,
            ..Waits::default()
        },
    })
}
