//! [`Batches`]: jobs that the master runs as batches, without a command that waits for them.
//!
//! A batch lives as long as its master. One that ends with its master is not continued: its
//! arguments may contain secrets, which the store does not have. An event and the log then name the
//! minions that it has not reached.

mod lead;
mod record;
mod window;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use link::wait::pause;
use value::{Map, Value, jid, log};
use wire::{Id, Publish};

use crate::cluster::{Cluster, Silent};
use crate::events::Events;
use crate::jobs::Jobs;
use crate::jobs::targets::Matched;

pub(crate) use record::{Owner, Record, all, summary};
pub(crate) use window::{BATCH, Shape, slots, wrong_size};

use lead::Batch;
use window::Window;

/// The maximum number of batches that run at the same time, of all users and of one.
const BATCHES_MAX: usize = 64;
const OF_USER_MAX: usize = 16;

/// The interval between two looks of a leader for batches of masters that have ended.
const LOOK: Duration = Duration::from_millis(500);

/// The maximum number of minions that the log names.
const NAMED_MAX: usize = 20;

/// The batches of a master.
#[derive(Clone)]
pub(crate) struct Batches {
    jobs: Jobs,
    events: Events,
    owner: Owner,
    /// The users of the running batches by job id.
    running: Arc<Mutex<BTreeMap<String, String>>>,
}

/// A batch that has begun.
pub(crate) struct Started {
    pub(crate) jid: String,
    /// The minions that the batch is for.
    pub(crate) minions: Vec<Id>,
    /// The minions that match and are not connected, and names that no minion has.
    pub(crate) away: Vec<String>,
}

impl Batches {
    pub(crate) fn new(jobs: &Jobs, events: &Events, owner: Owner) -> Self {
        Self {
            jobs: jobs.clone(),
            events: events.clone(),
            owner,
            running: Arc::default(),
        }
    }

    /// Begins a batch for the connected minions that match. It has no job id if there are none.
    ///
    /// # Errors
    /// When its size or its job id is wrong, there are too many batches, or it cannot be stored.
    pub(crate) async fn start(
        &self,
        asked: Publish,
        shape: &Shape,
        user: &str,
        (matched, mut away): Matched,
    ) -> Result<Started, String> {
        let (minions, down): (Vec<Id>, Vec<Id>) =
            matched.into_iter().partition(|id| self.jobs.is_up(id));
        away.extend(down.iter().map(|id| id.as_str().to_owned()));
        away.sort();
        let window = Window::new(shape, &minions)?;
        if minions.is_empty() {
            let jid = String::new();
            return Ok(Started { jid, minions, away });
        }
        let jid = self.free_jid(asked.jid.as_deref())?;
        let place = Place::taken(&self.running, &jid, user)?;
        let mut batch = Batch::begin(self, asked, user, window, &jid).await?;
        let sent = batch.send().await;
        smol::spawn(async move {
            batch.run().await;
            drop(place);
        })
        .detach();
        sent?;
        Ok(Started { jid, minions, away })
    }

    /// Returns the job id of a new batch.
    fn free_jid(&self, given: Option<&str>) -> Result<String, String> {
        let jid = match given {
            Some(given) if jid::is_jid(given) => given.to_owned(),
            Some(other) => return Err(format!("invalid job id {other:?}")),
            None => jid::new(),
        };
        match self.jobs.store.job(&jid) {
            Ok(None) => Ok(jid),
            Ok(Some(_)) => Err(format!("there is already a job with the number {jid}")),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Ends all batches in the store: their master, which is alone, has ended.
    pub(crate) async fn end_all(&self) {
        for record in self.active().await {
            self.interrupt(&record).await;
        }
    }

    /// Ends the batches of masters of a cluster that have ended, while this master leads.
    pub(crate) async fn follow(&self, cluster: Cluster) -> Infallible {
        let mut silent = Silent::default();
        loop {
            pause(LOOK).await;
            if cluster.leads().is_none() {
                silent = Silent::default();
                continue;
            }
            for record in self.active().await {
                let owner = record.owner.unwrap_or_default();
                if cluster.has_ended(owner.node, owner.boot, &mut silent) {
                    self.interrupt(&record).await;
                }
            }
        }
    }

    async fn active(&self) -> Vec<Record> {
        let store = self.jobs.store.clone();
        match smol::unblock(move || all(&store)).await {
            Ok(all) => all
                .into_iter()
                .filter(|record| record.owner.is_some())
                .collect(),
            Err(error) => {
                log::error(format_args!("cannot read the batches: {error}"));
                Vec::new()
            }
        }
    }

    /// Ends a batch whose master has ended.
    async fn interrupt(&self, record: &Record) {
        let (store, of) = (self.jobs.store.clone(), record.clone());
        let data = smol::unblock(move || interrupted(&store, &of)).await;
        let ended = match data {
            Ok(data) => {
                log::error(report(&record.jid, &data));
                let tag = tag(&record.jid, "halted");
                match self.events.append(&tag, data).await {
                    Ok(sequence) => self.end(record, sequence).await,
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(error.to_string()),
        };
        if let Err(error) = ended {
            let jid = &record.jid;
            log::error(format_args!(
                "cannot note the end of the batch {jid}: {error}"
            ));
        }
    }

    /// Notes the last event of a batch.
    async fn end(&self, record: &Record, sequence: u64) -> Result<(), String> {
        let store = self.jobs.store.clone();
        let known = smol::unblock(move || all(&store)).await;
        let known = known.map_err(|error| error.to_string())?;
        let applied = self.jobs.store.apply(record.end(sequence, &known)).await;
        let applied = applied.map_err(|error| error.to_string())?;
        match applied.rejection() {
            None => Ok(()),
            Some(refusal) => Err(refusal.to_string()),
        }
    }
}

/// Returns the tag of an event of a batch.
pub(crate) fn tag(jid: &str, what: &str) -> String {
    format!("salt/batch/{jid}/{what}")
}

/// Returns the present time in seconds since 1970.
pub(crate) fn now_s() -> f64 {
    value::clock::since_epoch().as_secs_f64()
}

/// Returns the fields that every event of a batch has.
fn base(data: &Map, jid: &str) -> Map {
    let mut base = Map::new().with("jid", jid);
    for name in ["fun", "tgt", "tgt_type", "user"] {
        base.insert(name, data.get(name).cloned().unwrap_or_default());
    }
    base
}

fn list<'a>(ids: impl IntoIterator<Item = &'a Id>) -> Value {
    Value::list(ids.into_iter().map(|id| id.as_str().into()))
}

/// Returns the data of the event `halted` of a batch whose master has ended.
fn interrupted(store: &crate::store::Store, record: &Record) -> Result<Map, crate::store::Error> {
    let begun = record.begun(store)?;
    let latest = record
        .latest(store)?
        .map(|event| event.data)
        .unwrap_or_default();
    let (started, returned) = record.started(store)?;
    let minions = begun
        .get("minions")
        .and_then(Value::as_list)
        .unwrap_or_default();
    let minions = minions
        .iter()
        .filter_map(|id| id.as_str()?.parse::<Id>().ok());
    let pending: Vec<Id> = minions.filter(|id| !started.contains(id)).collect();
    let active = started.difference(&returned);
    let created = begun.get("created").and_then(Value::as_float);
    let failed = latest.get("failed").and_then(Value::as_int);
    Ok(base(&begun, &record.jid)
        .with("reason", "interrupted")
        .with("completed", returned.len())
        .with("failed", failed.unwrap_or_default())
        .with("abandoned_active", list(active))
        .with("abandoned_pending", list(&pending))
        .with(
            "duration",
            created.map_or(Value::Null, |created| (now_s() - created).into()),
        ))
}

/// Returns the line of the log about an interrupted batch.
fn report(jid: &str, data: &Map) -> String {
    let ids = data
        .get("abandoned_pending")
        .and_then(Value::as_list)
        .unwrap_or_default();
    let first: Vec<String> = ids.iter().take(NAMED_MAX).map(Value::to_text).collect();
    let more = if ids.len() > NAMED_MAX { ",…" } else { "" };
    let fun = data.get("fun").map(Value::to_text).unwrap_or_default();
    let not_reached = match ids.len() {
        0 if fun.is_empty() => "the log does not have its minions any more".to_owned(),
        0 => "all of its minions had received the job".to_owned(),
        count => format!(
            "{count} minions have not received the job: {}{more}. Start it again for them, with `salt -L`; the event {} names them all",
            first.join(","),
            tag(jid, "halted")
        ),
    };
    format!("The batch {jid} ({fun}) was interrupted by the end of its master: {not_reached}")
}

/// One of the batches that run at the same time.
struct Place {
    running: Arc<Mutex<BTreeMap<String, String>>>,
    jid: String,
}

impl Place {
    fn taken(
        running: &Arc<Mutex<BTreeMap<String, String>>>,
        jid: &str,
        user: &str,
    ) -> Result<Self, String> {
        let mut all = lock(running);
        let own = all.values().filter(|other| *other == user).count();
        if all.len() >= BATCHES_MAX || own >= OF_USER_MAX {
            return Err(format!(
                "Too many batches run: at most {BATCHES_MAX} at a time, {OF_USER_MAX} of one user. `salt-run batch.list_active` lists them"
            ));
        }
        if all.insert(jid.to_owned(), user.to_owned()).is_some() {
            return Err(format!("there is already a batch with the number {jid}"));
        }
        Ok(Self {
            running: running.clone(),
            jid: jid.to_owned(),
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.running).remove(&self.jid);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_user_cannot_take_all_places() {
        let running = Arc::default();
        let mut places = Vec::new();
        let mut take = |number: usize, user: &str| {
            let place = Place::taken(&running, &format!("{number:020}"), user);
            place.map(|place| places.push(place)).is_ok()
        };
        let taken = (0..OF_USER_MAX + 5)
            .filter(|number| take(*number, "eve"))
            .count();
        assert_eq!(taken, OF_USER_MAX);
        assert!(take(100, "root") && !take(100, "root"));
        let users = (0..10).flat_map(|user| (0..OF_USER_MAX).map(move |number| (user, number)));
        let all =
            users.filter(|(user, number)| take(1000 + user * 100 + number, &format!("u{user}")));
        assert_eq!(all.count(), BATCHES_MAX - OF_USER_MAX - 1);
        places.clear();
        assert!(lock(&running).is_empty());
    }

    #[test]
    fn a_report_names_the_first_minions() {
        let names =
            |count: usize| Value::list((0..count).map(|number| format!("m{number}").into()));
        let of = |count| {
            report(
                "1",
                &Map::new()
                    .with("fun", "state.apply")
                    .with("abandoned_pending", names(count)),
            )
        };
        assert!(
            of(2).contains("2 minions have not received the job: m0,m1. "),
            "{}",
            of(2)
        );
        assert!(
            of(25).contains("m19,…") && !of(25).contains("m20"),
            "{}",
            of(25)
        );
        assert!(of(0).contains("all of its minions"), "{}", of(0));
        assert!(report("1", &Map::new()).contains("any more"));
    }
}
