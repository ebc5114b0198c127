//! [`Connections`]: records when minions connect and disconnect, and fires `pinch/minion/ID/up` and
//! `pinch/minion/ID/down`.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use link::{Ending, Error, Handle};
use value::{Map, jid, log};
use wire::{Id, tag};

use crate::jobs::minions::{Came, Minion, Minions, Went};
use crate::store::{self, Cache, Change, Command, Store, now_ms};
use crate::unstored;

/// The number of events that a minion may cause at once. A minion that connects and disconnects more
/// often causes one event in [`EVENT_EVERY`]; its field `missed` counts the events that were left
/// out.
const EVENTS_BURST: u32 = 20;
/// The time after which a minion may cause one more event.
const EVENT_EVERY: Duration = Duration::from_secs(60);
/// The time that the minions of the last master have to connect to this one. Those that have not
/// are reported as disconnected.
const COMING_BACK: Duration = Duration::from_secs(300);
/// The maximum length of a peer's reason in an event.
const TEXT_MAX: usize = 200;

/// The connections of minions, as the store and its log show them.
pub(crate) struct Connections {
    store: Store,
    minions: Minions,
    /// Locked while a connection begins or ends, so that the events of a minion have their order.
    turn: smol::lock::Mutex<()>,
    /// The minions whose number of events is limited at present.
    budgets: Mutex<HashMap<Id, Budget>>,
    /// The minions that were connected when their last master ended, and have not connected since that
    /// was noticed.
    away: Mutex<HashMap<Id, (Minion, Instant)>>,
    /// The time of the last master's last event.
    alive_ms: u64,
}

/// The number of events that a minion may still cause.
#[derive(Debug)]
struct Budget {
    left: u32,
    since: Instant,
    missed: u64,
    /// The last event that was left out.
    held: Option<(String, Map)>,
}

impl Budget {
    fn new(now: Instant) -> Self {
        Self {
            left: EVENTS_BURST,
            since: now,
            missed: 0,
            held: None,
        }
    }

    fn refill(&mut self, now: Instant) {
        let due = now.duration_since(self.since).as_secs() / EVENT_EVERY.as_secs();
        let due = u32::try_from(due).unwrap_or(u32::MAX);
        self.left = self.left.saturating_add(due).min(EVENTS_BURST);
        self.since = match self.left {
            EVENTS_BURST => now,
            _ => self.since + EVENT_EVERY * due,
        };
    }

    /// Returns the event if it may be fired now. Otherwise it replaces the one that is held.
    fn pass(&mut self, event: (String, Map), now: Instant) -> Option<(String, Map)> {
        self.refill(now);
        if self.left == 0 {
            self.missed += 1;
            self.held = Some(event);
            return None;
        }
        self.left -= 1;
        self.held = None;
        let (tag, data) = event;
        Some(match std::mem::take(&mut self.missed) {
            0 => (tag, data),
            missed => (tag, data.with("missed", missed)),
        })
    }

    /// Returns the event that is held if it may be fired now.
    fn release(&mut self, now: Instant) -> Option<(String, Map)> {
        self.refill(now);
        if self.left == 0 {
            return None;
        }
        let held = self.held.take()?;
        self.missed = self.missed.saturating_sub(1);
        self.pass(held, now)
    }
}

impl Connections {
    /// Reads the minions that were connected when the last master ended. The time of its last event
    /// is the time at which they were seen last.
    pub(crate) fn open(store: &Store, minions: &Minions) -> Result<Self, store::Error> {
        let now = Instant::now();
        let away = connected(store)?.into_iter();
        let away = away.map(|minion| (minion.id.clone(), (minion, now)));
        let (_, next) = store.log()?;
        let last = store.event(next.saturating_sub(1))?;
        Ok(Self {
            alive_ms: last.map_or(0, |event| event.at_ms),
            store: store.clone(),
            minions: minions.clone(),
            turn: smol::lock::Mutex::new(()),
            budgets: Mutex::default(),
            away: Mutex::new(away.collect()),
        })
    }

    /// Records that a minion, or a call of one, has connected. Returns the number of the connection.
    pub(crate) async fn begin(&self, minion: &Minion, handle: &Handle, is_call: bool) -> u64 {
        let _turn = self.turn.lock().await;
        let came = self
            .minions
            .came(minion.id.clone(), handle.clone(), minion.key, is_call);
        if is_call {
            return came.number;
        }
        let was_away = lock(&self.away).remove(&minion.id).is_some();
        let address = handle.address().to_string();
        let at_ms = now_ms();
        let status = Map::new()
            .with("up", true)
            .with("up_ms", at_ms)
            .with("seen_ms", at_ms)
            .with("address", address.as_str());
        let data = Map::new()
            .with("id", minion.id.as_str())
            .with("reason", up_reason(came, was_away))
            .with("address", address);
        self.record(minion, tag::minion_up(&minion.id), data, status)
            .await;
        came.number
    }

    /// Records that a connection has ended. `bye` is the minion's own announcement of it.
    pub(crate) async fn end(
        &self,
        minion: &Minion,
        number: u64,
        handle: &Handle,
        error: &Error,
        bye: Option<String>,
    ) {
        let _turn = self.turn.lock().await;
        let Went::Last(closed) = self.minions.went(&minion.id, number) else {
            return;
        };
        if self.minions.is_elsewhere(&minion.id) {
            // It has moved to another master of the cluster.
            return;
        }
        let (reason, text) = match (closed, bye) {
            (Some(closed), _) => (closed, String::new()),
            (None, Some(bye)) => ("closed by minion".to_owned(), bye),
            (None, None) => down_reason(handle.ending(), error),
        };
        self.went(minion, &reason, &text, now_ms()).await;
    }

    async fn went(&self, minion: &Minion, reason: &str, text: &str, seen_ms: u64) {
        let status = Map::new()
            .with("up", false)
            .with("down_ms", now_ms())
            .with("seen_ms", seen_ms)
            .with("reason", reason);
        let mut data = Map::new()
            .with("id", minion.id.as_str())
            .with("reason", reason);
        if !text.is_empty() {
            let text: String = text.chars().take(TEXT_MAX).collect();
            data.insert("text", text);
        }
        self.record(minion, tag::minion_down(&minion.id), data, status)
            .await;
    }

    /// Stores a change of a minion's status, with its event if the minion may cause one.
    async fn record(&self, minion: &Minion, tag: String, data: Map, status: Map) {
        let now = Instant::now();
        let event = {
            let mut budgets = lock(&self.budgets);
            let budget = budgets
                .entry(minion.id.clone())
                .or_insert_with(|| Budget::new(now));
            budget.pass((tag, data), now)
        };
        // The status is the last command: it is refused once the key is deleted, and no command
        // after a refused one is applied.
        let status = Command::Cached {
            id: minion.id.clone(),
            key: minion.key,
            what: Cache::Status,
            change: Change::Update(status),
        };
        let commands = event.map(own_event).into_iter().chain([status]);
        self.keep(Command::All(commands.collect())).await;
    }

    /// Queues a command, without waiting for the disk. A failure is logged.
    async fn keep(&self, command: Command) {
        let begun = self.store.begin(command).await;
        let kept = async move {
            let kept = match begun {
                Ok(begun) => begun.done().await,
                Err(error) => Err(error),
            };
            if let Err(error) = kept {
                unstored::log("that a minion connected or disconnected", &error);
            }
        };
        smol::spawn(kept).detach();
    }

    /// Fires the events that were held and may be fired now, and reports the minions that have not
    /// come back after the master's start.
    pub(crate) async fn settle(&self) {
        let now = Instant::now();
        let _turn = self.turn.lock().await;
        let mut due = Vec::new();
        lock(&self.budgets).retain(|_, budget| {
            due.extend(budget.release(now));
            budget.left < EVENTS_BURST
        });
        for event in due {
            self.keep(own_event(event)).await;
        }
        let mut late = Vec::new();
        lock(&self.away).retain(|id, (minion, since)| {
            let is_late = since.elapsed() >= COMING_BACK;
            let is_back = self.minions.get(id).is_some();
            if is_late && !is_back {
                late.push(minion.clone());
            }
            !is_late && !is_back
        });
        for minion in late {
            let seen_ms = self.last_seen(&minion);
            let reason = "not back after the master's restart";
            self.went(&minion, reason, "", seen_ms).await;
        }
    }

    /// Notices the minions of a master of the cluster that has died, which have not connected to
    /// another one.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn notice_lost(&self) -> Result<(), store::Error> {
        let lost = connected(&self.store)?.into_iter();
        let lost = lost.filter(|minion| self.minions.get(&minion.id).is_none());
        let mut away = lock(&self.away);
        for minion in lost {
            let since = Instant::now();
            away.entry(minion.id.clone()).or_insert((minion, since));
        }
        Ok(())
    }

    /// Announces the master's end to all minions, and fires one event for all of them.
    pub(crate) async fn stop(&self) {
        let count = self.minions.here().len();
        self.minions.goodbye().await;
        let data = Map::new().with("connected", count);
        self.keep(own_event((tag::MASTER_STOP.to_owned(), data)))
            .await;
    }

    /// Returns the time at which a minion of the last master was seen last.
    fn last_seen(&self, minion: &Minion) -> u64 {
        let status = self.store.cached(Cache::Status, &minion.id);
        let status = status.inspect_err(|error| log::error(format_args!("{error}")));
        let seen = status.ok().flatten().and_then(|status| {
            let seen = status.get("seen_ms")?.as_int()?;
            u64::try_from(seen).ok()
        });
        seen.unwrap_or_default().max(self.alive_ms)
    }
}

/// Returns the minions that are connected, as the store has it.
fn connected(store: &Store) -> Result<Vec<Minion>, store::Error> {
    let mut connected = Vec::new();
    for cached in store.all_cached(Cache::Status)? {
        let (key, status) = cached?;
        if status.get("up").is_some_and(value::Value::is_true) {
            connected.push(Minion {
                id: key.id,
                key: key.key,
                epoch: 0,
                bound: Map::new(),
            });
        }
    }
    Ok(connected)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn up_reason(came: Came, was_away: bool) -> &'static str {
    match (came.is_replaced, was_away) {
        (true, _) => "replaced",
        (false, true) => "master restarted",
        (false, false) => "connected",
    }
}

/// Returns the reason why a connection ended that neither side had announced, and a text for it.
fn down_reason(ending: Option<Ending>, error: &Error) -> (String, String) {
    let (reason, text) = match ending {
        Some(Ending::TimedOut) => ("timeout", String::new()),
        Some(Ending::ByPeer(text)) => ("closed by minion", text),
        Some(Ending::Here) | None => ("closed by master", error.to_string()),
        Some(Ending::Failed(text)) => ("connection failed", text),
    };
    (reason.to_owned(), text)
}

fn own_event((tag, data): (String, Map)) -> Command {
    Command::Event {
        tag,
        data,
        stamp: jid::stamp(),
        at_ms: now_ms(),
        origin: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(tag: &str) -> (String, Map) {
        (tag.to_owned(), Map::new())
    }

    #[test]
    fn a_flapping_minion_causes_a_limited_number_of_events_and_the_last_one_is_fired() {
        let start = Instant::now();
        let mut budget = Budget::new(start);
        let fired = (0..1000)
            .filter(|_| budget.pass(event("up"), start).is_some())
            .count();
        assert_eq!(fired, EVENTS_BURST as usize);
        assert_eq!(budget.pass(event("down"), start), None);
        assert_eq!(budget.release(start), None);
        let later = start + EVENT_EVERY;
        let missed = 1000 - u64::from(EVENTS_BURST);
        let expected = ("down".to_owned(), Map::new().with("missed", missed));
        assert_eq!(budget.release(later), Some(expected));
        assert_eq!(budget.release(later + EVENT_EVERY), None);
        assert_eq!(budget.left, 1);
    }

    #[test]
    fn an_event_after_a_pause_counts_those_that_were_left_out() {
        let start = Instant::now();
        let mut budget = Budget::new(start);
        for _ in 0..EVENTS_BURST + 2 {
            budget.pass(event("up"), start);
        }
        let fired = budget.pass(event("down"), start + EVENT_EVERY);
        let expected = ("down".to_owned(), Map::new().with("missed", 2));
        assert_eq!(fired, Some(expected));
        budget.refill(start + 2 * EVENT_EVERY * EVENTS_BURST);
        assert_eq!(budget.left, EVENTS_BURST);
    }
}
