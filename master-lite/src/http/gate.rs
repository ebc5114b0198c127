//! [`Gate`]: limits on connections, request rates and bodies.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use link::{Places, Ticket, customer};

use super::Refusal;

/// The maximum number of further connections that are answered with a refusal.
const AWAY_MAX: usize = 64;
/// The maximum number of addresses that are counted. Beyond it, addresses with no recent requests
/// are forgotten.
const ADDRESSES_MAX: usize = 4096;
/// The maximum number of bytes of bodies in memory, of all connections. A single body may exceed
/// it.
const BODIES_MAX: usize = 16 << 20;

/// The allowed requests per second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rates {
    /// The rate for one address.
    pub(crate) each: f64,
    /// The rate for all addresses together.
    pub(crate) all: f64,
    /// The options that set the two, for the log.
    pub(crate) options: [&'static str; 2],
}

/// The maximum number of connections at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Connections {
    /// The number from one address.
    pub(crate) each: usize,
    /// The number from all addresses together.
    pub(crate) all: usize,
}

impl Connections {
    /// The numbers for a service that answers one short request on each connection.
    pub(crate) const FEW: Self = Self { each: 64, all: 256 };
}

/// A token bucket. It holds at most the requests of one second.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    rate: f64,
    left: f64,
    at: Instant,
}

impl Bucket {
    fn new(rate: f64, now: Instant) -> Self {
        Self {
            rate,
            left: rate.max(1.0),
            at: now,
        }
    }

    fn fill(&mut self, now: Instant) {
        let since = now.saturating_duration_since(self.at).as_secs_f64();
        self.left = (self.left + since * self.rate).min(self.rate.max(1.0));
        self.at = now;
    }

    fn is_full(&self) -> bool {
        self.left >= self.rate.max(1.0)
    }

    /// Takes one request, or returns the number of seconds until one is available.
    fn take(&mut self, now: Instant) -> Result<(), u64> {
        self.fill(now);
        if self.left >= 1.0 {
            self.left -= 1.0;
            return Ok(());
        }
        let seconds = ((1.0 - self.left) / self.rate).ceil();
        // `Retry-After` is at most a day.
        Err(seconds.clamp(1.0, 86_400.0) as u64)
    }
}

struct All {
    bucket: Bucket,
    /// The connections that are served. One whose request has not arrived yet makes room for one
    /// from an address with fewer.
    places: Places<IpAddr>,
    away: usize,
    addresses: HashMap<IpAddr, Bucket>,
}

/// The counters of connections, requests and bodies.
pub(crate) struct Gate {
    rates: Rates,
    connections: Connections,
    all: Mutex<All>,
    bodies: AtomicUsize,
}

/// The decision on a connection.
pub(super) enum Entered {
    /// The connection is served.
    In(Place),
    /// The connection is answered with a refusal.
    Away(Place, Refusal),
    /// The connection is closed without an answer.
    Dropped(&'static str),
}

/// A connection's slot, released on drop.
pub(super) struct Place {
    gate: Arc<Gate>,
    /// `None` for a connection that is refused.
    ticket: Option<Ticket>,
}

impl Place {
    /// Keeps the slot until the request is answered, since the request has arrived. It can be lost
    /// again after the returned value is dropped.
    pub(super) fn settle(&self) -> Option<Settled> {
        let number = self.ticket.as_ref()?.number;
        self.gate.all().places.settle(number);
        Some(Settled {
            gate: self.gate.clone(),
            number,
        })
    }

    /// Keeps the slot for the rest of the connection.
    pub(super) fn keep(&self) {
        if let Some(ticket) = &self.ticket {
            self.gate.all().places.settle(ticket.number);
        }
    }

    /// Waits until the slot is given to another address. Returns the refusal of the request.
    pub(super) async fn lost(&self) -> Refusal {
        match &self.ticket {
            Some(ticket) => ticket.lost().await,
            // No deadline: it races with the connection, which has one.
            None => smol::future::pending().await,
        }
        let most = self.gate.connections.all;
        let why = format!("{most} connections are open, most of them from this address");
        Refusal::later(429, 1, why)
    }
}

impl Gate {
    pub(crate) fn new(rates: Rates, connections: Connections) -> Self {
        let all = All {
            bucket: Bucket::new(rates.all, Instant::now()),
            places: Places::new(connections.all, connections.each),
            away: 0,
            addresses: HashMap::new(),
        };
        Self {
            rates,
            connections,
            all: Mutex::new(all),
            bodies: AtomicUsize::new(0),
        }
    }

    fn all(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides on a new connection.
    pub(super) fn enter(self: &Arc<Self>, ip: IpAddr, now: Instant) -> Entered {
        let ip = customer(ip);
        let mut all = self.all();
        let place = |ticket| Place {
            gate: self.clone(),
            ticket,
        };
        match all.enter(ip, self, now) {
            Ok(ticket) => Entered::In(place(Some(ticket))),
            Err(_) if all.away >= AWAY_MAX => Entered::Dropped("too many connections"),
            Err(refusal) => {
                all.away += 1;
                Entered::Away(place(None), refusal)
            }
        }
    }

    /// Counts a further request on a connection.
    pub(super) fn count(&self, ip: IpAddr, now: Instant) -> Result<(), Refusal> {
        self.all().count(customer(ip), self.rates, now)
    }

    /// Returns an empty reservation for the bytes of a body.
    pub(super) fn reserve_body(self: &Arc<Self>) -> BodyReservation {
        BodyReservation {
            gate: self.clone(),
            taken: 0,
        }
    }
}

fn too_many(what: &str) -> Refusal {
    Refusal::later(429, 1, format!("too many connections{what}"))
}

impl All {
    fn enter(&mut self, ip: IpAddr, gate: &Gate, now: Instant) -> Result<Ticket, Refusal> {
        let Connections { each, all } = gate.connections;
        let has = self.places.held_by(&ip);
        if has >= each {
            let why = format!(" from this address: the limit is {each}");
            return Err(too_many(&why));
        }
        self.count(ip, gate.rates, now)?;
        loop {
            match self.places.enter(&ip, 1) {
                Err(_) if self.places.take_from_fullest(has + 1) => {}
                taken => {
                    return taken.map_err(|_| too_many(&format!(": the limit is {all}")));
                }
            }
        }
    }

    /// Takes a request out of the buckets of its address and of all addresses.
    fn count(&mut self, ip: IpAddr, rates: Rates, now: Instant) -> Result<(), Refusal> {
        self.forget_the_quiet(now);
        if self.addresses.len() >= ADDRESSES_MAX && !self.addresses.contains_key(&ip) {
            return Err(too_many(": too many different addresses"));
        }
        let bucket = self.addresses.entry(ip);
        let bucket = bucket.or_insert_with(|| Bucket::new(rates.each, now));
        let take = |bucket: &mut Bucket, whose: &str, option: &str| {
            let taken = bucket.take(now);
            taken.map_err(|seconds| {
                let why = format!("too many requests from {whose} ({option})");
                Refusal::later(429, seconds, why)
            })
        };
        let [each, all] = rates.options;
        take(bucket, "this address", each)?;
        take(&mut self.bucket, "all addresses", all)
    }

    /// Forgets addresses without connections whose buckets are full again: they count like new
    /// ones.
    fn forget_the_quiet(&mut self, now: Instant) {
        if self.addresses.len() < ADDRESSES_MAX {
            return;
        }
        let places = &self.places;
        self.addresses.retain(|ip, bucket| {
            bucket.fill(now);
            places.held_by(ip) > 0 || !bucket.is_full()
        });
    }
}

/// The hold on the slot of a connection whose request is being answered.
pub(super) struct Settled {
    gate: Arc<Gate>,
    number: u64,
}

impl Drop for Settled {
    fn drop(&mut self) {
        self.gate.all().places.unsettle(self.number);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = self.gate.all();
        match &self.ticket {
            Some(ticket) => all.places.leave(ticket.number),
            None => all.away -= 1,
        }
    }
}

/// The memory reserved for a body, released on drop.
pub(super) struct BodyReservation {
    gate: Arc<Gate>,
    taken: usize,
}

impl BodyReservation {
    /// Reserves more bytes.
    pub(super) fn more(&mut self, bytes: usize) -> Result<(), Refusal> {
        let all = self.gate.bodies.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.taken += bytes;
        if all > BODIES_MAX && all > self.taken {
            return Err(Refusal::later(
                429,
                1,
                "the bodies of all current requests are too large together",
            ));
        }
        Ok(())
    }
}

impl Drop for BodyReservation {
    fn drop(&mut self) {
        self.gate.bodies.fetch_sub(self.taken, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn gate(each: f64, all: f64) -> Arc<Gate> {
        let options = ["hook_rate", "hook_rate_all"];
        let rates = Rates { each, all, options };
        Arc::new(Gate::new(rates, Connections::FEW))
    }

    fn ip(last: u8) -> IpAddr {
        [10, 0, 0, last].into()
    }

    fn is_in(entered: &Entered) -> bool {
        matches!(entered, Entered::In(_))
    }

    #[test]
    fn an_address_has_its_rate_and_all_have_theirs() {
        let (gate, now) = (gate(2.0, 3.0), Instant::now());
        let enter = |last, now| is_in(&gate.enter(ip(last), now));
        assert!(enter(1, now) && enter(1, now) && !enter(1, now));
        assert!(enter(2, now) && !enter(3, now));
        let later = now + Duration::from_millis(500);
        assert!(enter(1, later) && !enter(1, later));
        let Entered::Away(_place, refusal) = gate.enter(ip(1), later) else {
            panic!("not refused");
        };
        assert_eq!(refusal.status, 429);
        let said = String::from_utf8(refusal.answer().bytes()).unwrap();
        assert!(said.contains("\r\nRetry-After: 1\r\n"), "{said}");
    }

    #[test]
    fn connections_are_counted_until_they_go() {
        let (gate, now) = (gate(1e6, 1e6), Instant::now());
        let mut places: Vec<Entered> = (0..Connections::FEW.each)
            .map(|_| gate.enter(ip(1), now))
            .collect();
        assert!(places.iter().all(is_in));
        assert!(!is_in(&gate.enter(ip(1), now)));
        for last in 2..5 {
            places.extend((0..Connections::FEW.each).map(|_| gate.enter(ip(last), now)));
        }
        assert_eq!(places.iter().filter(|entered| is_in(entered)).count(), 256);
        let settle = |entered: &Entered| match entered {
            Entered::In(place) => place.settle(),
            _ => None,
        };
        let _settled: Vec<_> = places.iter().map(settle).collect();
        let mut away: Vec<Entered> = (0..AWAY_MAX).map(|_| gate.enter(ip(9), now)).collect();
        assert!(away.iter().all(|one| matches!(one, Entered::Away(..))));
        assert!(matches!(gate.enter(ip(9), now), Entered::Dropped(_)));
        away.clear();
        places.pop();
        assert!(is_in(&gate.enter(ip(9), now)));
    }

    #[test]
    fn requests_that_do_not_end_make_room_for_other_addresses() {
        let (gate, now) = (gate(1e6, 1e6), Instant::now());
        let mut slow = Vec::new();
        for last in 1..=5 {
            slow.extend((0..Connections::FEW.each).map(|_| gate.enter(ip(last), now)));
        }
        let signed: Vec<Entered> = (0..8).map(|_| gate.enter(ip(9), now)).collect();
        assert!(signed.iter().all(is_in));
        let is_lost = |entered: &&Entered| match entered {
            Entered::In(place) => smol::block_on(smol::future::poll_once(place.lost())).is_some(),
            _ => false,
        };
        assert!(slow.iter().filter(is_lost).count() >= 8);
        assert_eq!(signed.iter().filter(is_lost).count(), 0);
    }

    #[test]
    fn an_answered_connection_makes_room_again() {
        let (gate, now) = (gate(1e6, 1e6), Instant::now());
        let Entered::In(first) = gate.enter(ip(1), now) else {
            panic!("not accepted");
        };
        let settled = first.settle();
        assert!(!gate.all().places.take_from_fullest(1));
        drop(settled);
        assert!(gate.all().places.take_from_fullest(1));
        assert!(smol::block_on(smol::future::poll_once(first.lost())).is_some());
    }

    #[test]
    fn more_addresses_than_are_counted_are_refused_until_others_were_quiet() {
        let (gate, now) = (gate(1.0, 1e9), Instant::now());
        for number in 0..ADDRESSES_MAX {
            let [.., high, low] = (number as u32).to_be_bytes();
            assert!(is_in(&gate.enter([10, 1, high, low].into(), now)));
        }
        assert!(!is_in(&gate.enter(ip(1), now)));
        assert!(is_in(&gate.enter(ip(1), now + Duration::from_secs(2))));
        assert!(gate.all().addresses.len() < 10);
    }

    #[test]
    fn a_network_of_ipv6_is_one_address() {
        let of = |text: &str| customer(text.parse().unwrap());
        assert_eq!(of("2001:db8::1"), of("2001:db8::ffff:1"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        assert_eq!(of("::ffff:10.0.0.1"), ip(1));
    }

    #[test]
    fn bodies_have_room_together() {
        let gate = gate(1.0, 1.0);
        let (mut one, mut two) = (gate.reserve_body(), gate.reserve_body());
        // A single body may use its full limit.
        assert!(one.more(BODIES_MAX + 1).is_ok());
        assert_eq!(two.more(1).unwrap_err().status, 429);
        drop(one);
        assert!(two.more(BODIES_MAX - 1).is_ok());
        drop(two);
        assert_eq!(gate.bodies.load(Ordering::Relaxed), 0);
    }
}
