//! [`Slot`]: a connection's entry in the counts of a listener, from its first packet to its end.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use quinn::Connection;

use crate::error::{Error, PeerInfo};
use crate::key::PublicKey;
use crate::room::Capacity;
use crate::shares::{Full, Places, Ticket};

/// The age at which the place of a handshake may be given to another one of the same address. An
/// honest minion sends its hello much sooner.
const GREETED_BY: Duration = Duration::from_secs(2);
/// The number of connections of one known key that do not count as handshakes of their address.
const KNOWN_EACH: usize = 4;
/// The minimum interval between two warnings in the log about the same address.
const TOLD_EVERY: Duration = Duration::from_secs(60);
/// The maximum number of addresses that are remembered for that.
const TOLD_MAX: usize = 4096;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) capacity: Arc<Capacity>,
    counts: Mutex<Counts>,
}

#[derive(Debug)]
struct Counts {
    /// The handshakes in progress, until the hello.
    handshakes: Places<IpAddr>,
    /// The number of handshakes in progress whose addresses have not proved themselves.
    unproved: usize,
    pending: Places<IpAddr>,
    connections: usize,
    addresses: HashMap<IpAddr, OfAddress>,
    keys: HashMap<PublicKey, Vec<(usize, Connection)>>,
    /// The accepted keys. They are remembered so that a flood of strangers does not keep them out.
    known: HashSet<PublicKey>,
    told: HashMap<IpAddr, Instant>,
}

#[derive(Debug, Default)]
struct OfAddress {
    connections: usize,
    unproved: usize,
}

/// A connection's entry in the counts. It is removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    shared: Arc<Shared>,
    address: IpAddr,
    is_proved: bool,
    greeting: Option<Ticket>,
    pending: Option<Ticket>,
    key: Option<(PublicKey, usize)>,
}

pub(crate) enum Admission {
    Yes(Slot),
    /// The peer must first send a token back.
    Prove,
    /// The address has its whole share. The packet is not answered, so an honest peer sends it
    /// again a second later.
    Later(Error),
    No(Error),
}

/// Returns the address that counts as one peer: an IPv4 address, or the /64 network of an IPv6
/// address.
#[must_use]
pub fn customer(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let network = u128::from(address) >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from(network))
        }
    }
}

/// Takes a place. If all are taken, the address that has most loses one.
fn place(places: &mut Places<IpAddr>, address: &IpAddr) -> Result<Ticket, Full> {
    loop {
        match places.enter(address, 1) {
            // If no address has more than the new one would have, the oldest place is lost anyway.
            Err(Full::All) if places.take_from_fullest(places.held_by(address) + 1) => {}
            taken => return taken,
        }
    }
}

impl Shared {
    pub(crate) fn new(capacity: Arc<Capacity>) -> Self {
        let limits = &capacity.limits;
        let counts = Counts {
            handshakes: Places::new(limits.handshakes_max, limits.handshakes_per_address),
            pending: Places::new(limits.pending_max, limits.pending_per_address),
            unproved: 0,
            connections: 0,
            addresses: HashMap::new(),
            keys: HashMap::new(),
            known: HashSet::new(),
            told: HashMap::new(),
        };
        Self {
            counts: Mutex::new(counts),
            capacity,
        }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn admit(self: &Arc<Self>, from: SocketAddr, is_proved: bool) -> Admission {
        let address = customer(from.ip());
        let mut counts = self.counts();
        let limits = &self.capacity.limits;
        let full = |limit: usize, what, name| {
            Admission::No(Error::Full {
                who: Arc::new(PeerInfo::at(from)),
                limit,
                what,
                name,
            })
        };
        let of_address = counts.addresses.get(&address);
        let (connections, unproved) = of_address.map_or((0, 0), |of| (of.connections, of.unproved));
        // A sender with a forged address gets only a part of the share of that address.
        if !is_proved
            && (counts.unproved >= limits.unproved_max
                || unproved >= limits.handshakes_per_address / 2)
        {
            return Admission::Prove;
        }
        if counts.connections >= limits.connections_max {
            return full(limits.connections_max, "connections", "connections_max");
        }
        if connections >= limits.connections_per_address {
            let limit = limits.connections_per_address;
            return full(
                limit,
                "connections from this address",
                "connections_per_address",
            );
        }
        let mut greeting = place(&mut counts.handshakes, &address);
        if matches!(greeting, Err(Full::Share)) && counts.handshakes.take_from(&address, GREETED_BY)
        {
            greeting = place(&mut counts.handshakes, &address);
        }
        match greeting {
            Ok(greeting) => Admission::Yes(self.slot(&mut counts, address, is_proved, greeting)),
            Err(Full::All) => full(
                limits.handshakes_max,
                "handshakes in progress",
                "handshakes_max",
            ),
            Err(Full::Share) => Admission::Later(Error::Full {
                who: Arc::new(PeerInfo::at(from)),
                limit: limits.handshakes_per_address,
                what: "handshakes in progress from this address",
                name: "handshakes_per_address",
            }),
        }
    }

    fn slot(
        self: &Arc<Self>,
        counts: &mut Counts,
        address: IpAddr,
        is_proved: bool,
        greeting: Ticket,
    ) -> Slot {
        counts.unproved += usize::from(!is_proved);
        counts.connections += 1;
        let of_address = counts.addresses.entry(address).or_default();
        of_address.connections += 1;
        of_address.unproved += usize::from(!is_proved);
        Slot {
            shared: self.clone(),
            address,
            is_proved,
            greeting: Some(greeting),
            pending: None,
            key: None,
        }
    }

    /// Returns whether a warning about this address may be logged now, and remembers that it was.
    pub(crate) fn may_tell(&self, address: IpAddr) -> bool {
        let (address, now) = (customer(address), Instant::now());
        let mut counts = self.counts();
        let is_fresh = |at: &Instant| now.duration_since(*at) < TOLD_EVERY;
        if counts.told.len() >= TOLD_MAX {
            counts.told.retain(|_, at| is_fresh(at));
        }
        if counts.told.len() >= TOLD_MAX || counts.told.get(&address).is_some_and(is_fresh) {
            return false;
        }
        counts.told.insert(address, now);
        true
    }

    /// Remembers accepted keys, so that a flood of strangers does not keep them out.
    pub(crate) fn know(&self, keys: impl IntoIterator<Item = PublicKey>) {
        let max = self.capacity.limits.connections_max;
        let mut counts = self.counts();
        for key in keys {
            if counts.known.len() < max {
                counts.known.insert(key);
            }
        }
    }

    /// Returns the connections of a key, and forgets that the key is accepted.
    pub(crate) fn take_key(&self, key: &PublicKey) -> Vec<Connection> {
        let mut counts = self.counts();
        counts.known.remove(key);
        let connections = counts.keys.get(key).cloned().unwrap_or_default();
        connections.into_iter().map(|(_, one)| one).collect()
    }

    /// Returns the addresses of the peers with a proved key, including pending ones.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        let counts = self.counts();
        let connections = counts.keys.values().flatten();
        connections.map(|(_, one)| one.remote_address()).collect()
    }

    pub(crate) fn connections(&self) -> usize {
        self.counts().connections
    }

    pub(crate) fn pending(&self) -> usize {
        self.counts().pending.taken()
    }
}

impl Slot {
    /// Records the key that the handshake has proved. From here on a revocation finds the
    /// connection, and a known key needs no place among strangers.
    pub(crate) fn proved(&mut self, key: PublicKey, connection: &Connection) {
        let place = connection.stable_id();
        let mut counts = self.shared.counts();
        let of_key = counts.keys.entry(key).or_default();
        of_key.push((place, connection.clone()));
        let is_one_of_few = of_key.len() <= KNOWN_EACH;
        let is_known = counts.known.contains(&key) && is_one_of_few;
        drop(counts);
        self.key = Some((key, place));
        if is_known {
            self.greeted();
        }
    }

    /// Frees the place among the handshakes, after the hello.
    pub(crate) fn greeted(&mut self) {
        if let Some(greeting) = self.greeting.take() {
            let mut counts = self.shared.counts();
            counts.handshakes.leave(greeting.number);
            if !self.is_proved {
                counts.unproved -= 1;
                if let Some(of_address) = counts.addresses.get_mut(&self.address) {
                    of_address.unproved -= 1;
                }
            }
        }
    }

    /// Waits until the place among the handshakes or the pending ones is given to another peer.
    pub(crate) async fn lost(&self) {
        match self.greeting.as_ref().or(self.pending.as_ref()) {
            Some(ticket) => ticket.lost().await,
            // No deadline: callers race it against the greeting or the next frame.
            None => smol::future::pending().await,
        }
    }

    /// Returns the error for a peer whose place was given to another one.
    pub(crate) fn pushed_out(&self, who: &Arc<PeerInfo>) -> Error {
        let limits = &self.shared.capacity.limits;
        let (limit, what, name) = match self.greeting {
            Some(_) => (
                limits.handshakes_max,
                "handshakes in progress, most of them from its address",
                "handshakes_max",
            ),
            None => (
                limits.pending_max,
                "keys waiting for acceptance, most of them from its address",
                "pending_max",
            ),
        };
        Error::Full {
            who: who.clone(),
            limit,
            what,
            name,
        }
    }

    /// Takes a place among the keys that wait for acceptance.
    pub(crate) fn pend(&mut self, who: &Arc<PeerInfo>) -> Result<(), Error> {
        if self.pending.is_some() {
            return Ok(());
        }
        let limits = &self.shared.capacity.limits;
        let mut counts = self.shared.counts();
        let full = |limit, what, name| {
            Err(Error::Full {
                who: who.clone(),
                limit,
                what,
                name,
            })
        };
        let taken = place(&mut counts.pending, &self.address);
        drop(counts);
        match taken {
            Ok(ticket) => self.pending = Some(ticket),
            Err(Full::All) => {
                return full(
                    limits.pending_max,
                    "keys waiting for acceptance",
                    "pending_max",
                );
            }
            Err(Full::Share) => {
                let limit = limits.pending_per_address;
                return full(
                    limit,
                    "keys from this address waiting for acceptance",
                    "pending_per_address",
                );
            }
        }
        Ok(())
    }

    pub(crate) fn unpend(&mut self) {
        if let Some(pending) = self.pending.take() {
            self.shared.counts().pending.leave(pending.number);
        }
    }

    /// Records that the key is accepted.
    pub(crate) fn accepted(&mut self) {
        self.unpend();
        if let Some((key, _)) = self.key {
            self.shared.know([key]);
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.greeted();
        self.unpend();
        let mut counts = self.shared.counts();
        counts.connections -= 1;
        let of_address = counts.addresses.entry(self.address).or_default();
        of_address.connections -= 1;
        if of_address.connections == 0 {
            counts.addresses.remove(&self.address);
        }
        let Some((key, place)) = self.key else { return };
        if let Some(connections) = counts.keys.get_mut(&key) {
            connections.retain(|(other, _)| *other != place);
            if connections.is_empty() {
                counts.keys.remove(&key);
            }
        }
    }
}
