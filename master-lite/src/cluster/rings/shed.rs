//! Removes the data of returns that other masters keep.
//!
//! A master asks all owners of a job whether they have the data. It removes its own only if all of
//! them confirm it, and if it still has the same [`Version`] of rings and members as they had when they
//! answered. An owner of the same version does not remove that data itself, so some master has it at
//! any time, whatever changes in the meantime.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::{Duration, Instant};

use link::wait::pause;
use machine::durable;
use value::json::{self, Layout};
use value::{Map, Value, log};
use wire::Id;

use super::ask::{JOBS_MAX, RETURNS_MAX};
use super::{JOBS, Rows, Version, View, lock};
use crate::cluster::requests::Ask;
use crate::cluster::{ASK_MAX, Cluster};
use crate::store::now_ms;

/// The interval at which a master removes new data that others keep, and restores what it lacks.
const EVERY: Duration = Duration::from_secs(10);
/// The time after a pass in which not all owners have confirmed what they have.
const AGAIN: Duration = Duration::from_secs(60);
/// The age in milliseconds that a job must have until then: its callers may still wait for returns.
const AGE_MS: u64 = 60_000;
/// The time in milliseconds for which jobs are examined again, since returns may come late.
const LATE_MS: u64 = 3_600_000;
/// The maximum time for another master to remove its data.
const SHED_MAX: Duration = Duration::from_secs(600);
/// The file with the last result, below `cachedir`, as in Salt.
const STATUS_FILE: &str = "cluster-shed-status.json";
/// The maximum size of that file in bytes.
const STATUS_MAX: u64 = 64 << 10;

/// The caller that wants data to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The runner on this master.
    Runner,
    /// The runner on another master.
    Peer,
}

impl Source {
    fn word(self) -> &'static str {
        match self {
            Self::Runner => "runner",
            Self::Peer => "peer_request",
        }
    }
}

/// The jobs of one pass.
#[derive(Debug, Default)]
struct Counts {
    /// The jobs whose data was removed.
    dropped: u64,
    /// The jobs that this master keeps.
    kept: u64,
    /// The jobs that others should keep, which not all of those have confirmed.
    unconfirmed: u64,
}

/// A job whose data here others should have, with the minions of the returns.
type Candidate = (String, BTreeSet<Id>);

impl Cluster {
    /// Removes the data that other masters of a ring keep, and notes the result for
    /// `cluster.shed_status`. In a dry run it only counts.
    ///
    /// # Errors
    /// When the store cannot be read or written.
    pub(crate) async fn shed(
        &self,
        ring: &str,
        dry_run: bool,
        source: Source,
    ) -> Result<Map, String> {
        let result = match self.cannot_shed(ring)? {
            Some(reason) => Map::new()
                .with("status", "skipped")
                .with("reason", reason)
                .with("ring", ring)
                .with("dropped", 0)
                .with("kept", 0)
                .with("subbanks_dropped", 0)
                .with("dry_run", dry_run),
            None => {
                let counts = self.pass(0..=u64::MAX, dry_run).await?;
                let mut result = Map::new()
                    .with("status", "ok")
                    .with("ring", ring)
                    .with("dropped", counts.dropped)
                    .with("kept", counts.kept)
                    .with("subbanks_dropped", counts.dropped)
                    .with("dry_run", dry_run);
                if counts.unconfirmed > 0 {
                    result.insert("unconfirmed", counts.unconfirmed);
                }
                result
            }
        };
        self.note_shed(&result, source);
        Ok(result)
    }

    /// Returns why nothing is removed for a ring, in Salt's words where it has any.
    fn cannot_shed(&self, ring: &str) -> Result<Option<String>, String> {
        let (rings, own) = (self.stored_rings()?, &self.0.settings.name);
        let Ok(of) = rings.active(ring) else {
            return Ok(Some(format!("ring '{ring}' is not active in the registry")));
        };
        if !of.voters.contains(own) {
            return Ok(Some(format!(
                "this master ({own}) is not a founding voter of ring '{ring}'"
            )));
        }
        let is_routed = rings.routed(JOBS).is_some_and(|(name, ..)| name == ring);
        Ok((!is_routed).then(|| {
            format!("jobs are not routed to ring '{ring}': run cluster.route_set data_type=jobs ring={ring} first")
        }))
    }

    fn note_shed(&self, result: &Map, source: Source) {
        let seconds = Duration::from_millis(now_ms()).as_secs_f64();
        let body = result
            .clone()
            .with("source", source.word())
            .with("updated_at", seconds);
        let cachedir = &self.0.cachedir;
        let text = json::write(&Value::Map(body), Layout::default());
        if let Err(error) = durable::write(cachedir, STATUS_FILE, text.as_bytes()) {
            let path = cachedir.join(STATUS_FILE);
            log::warning(format_args!("cannot write {}: {error}", path.display()));
        }
    }

    /// Removes what others keep of the jobs of a time, in milliseconds since 1970.
    async fn pass(&self, time: RangeInclusive<u64>, dry_run: bool) -> Result<Counts, String> {
        let mut counts = Counts::default();
        let (mut group, mut returns) = (Vec::new(), 0);
        let (found, jobs) = smol::channel::bounded(JOBS_MAX);
        let cluster = self.clone();
        let reading = smol::unblock(move || cluster.find_unkept(time, &found));
        let taking = async {
            // No deadline: the search ends at the last job.
            while let Ok((jid, ids)) = jobs.recv().await {
                let count = BTreeSet::len(&ids);
                if group.len() >= JOBS_MAX || (returns > 0 && returns + count > RETURNS_MAX) {
                    let full = std::mem::take(&mut group);
                    self.shed_group(full, dry_run, &mut counts).await?;
                    returns = 0;
                }
                returns += count;
                group.push((jid, ids));
            }
            self.shed_group(group, dry_run, &mut counts).await
        };
        let (kept, taken) = smol::future::zip(reading, taking).await;
        taken?;
        counts.kept = kept?;
        Ok(counts)
    }

    /// Sends the jobs whose data here others should have. Returns the number of jobs that this master
    /// keeps.
    fn find_unkept(
        &self,
        time: RangeInclusive<u64>,
        found: &smol::channel::Sender<Candidate>,
    ) -> Result<u64, String> {
        let fail = |error: crate::store::Error| error.to_string();
        let (view, own) = (self.view()?, &self.0.settings.name);
        let mut kept = 0;
        for job in self.0.store.jobs().map_err(fail)? {
            let job = job.map_err(fail)?;
            if job.at_ms < *time.start() {
                break;
            }
            if !time.contains(&job.at_ms) {
                continue;
            }
            if view.keeps(own, &job.jid) {
                kept += 1;
                continue;
            }
            let here = self.0.store.returns_of(&job.jid).map_err(fail)?.here;
            if !here.is_empty() && found.send_blocking((job.jid, here)).is_err() {
                // The other side has failed, and reports that.
                break;
            }
        }
        Ok(kept)
    }

    async fn shed_group(
        &self,
        group: Vec<Candidate>,
        dry_run: bool,
        counts: &mut Counts,
    ) -> Result<(), String> {
        let view = self.view()?;
        let confirmed = self.confirmed(&view, &group).await;
        for (jid, ids) in group {
            if !confirmed.contains(&jid) {
                counts.unconfirmed += 1;
                continue;
            }
            let count = match dry_run {
                true => ids.len() as u64,
                false => self.remove_if_still(view.version, &jid, ids).await?,
            };
            counts.dropped += u64::from(count > 0);
        }
        Ok(())
    }

    /// Returns the jobs that all of their owners have confirmed.
    async fn confirmed(&self, view: &View, group: &[Candidate]) -> BTreeSet<String> {
        let mut of_owners: BTreeMap<&str, Vec<&Candidate>> = BTreeMap::new();
        let own = self.0.settings.name.as_str();
        let mut confirmed = BTreeSet::new();
        for candidate in group {
            let owners = view.owners(&candidate.0).unwrap_or_default();
            if owners.is_empty() || owners.contains(&own) {
                continue;
            }
            confirmed.insert(candidate.0.clone());
            for owner in owners {
                of_owners.entry(owner).or_default().push(candidate);
            }
        }
        for (owner, jobs) in of_owners {
            let kept = match self.ask_kept(view.version, owner, &jobs).await {
                Ok(kept) => kept,
                Err(error) => {
                    log::debug(format_args!("{owner} does not confirm returns: {error}"));
                    Vec::new()
                }
            };
            for (at, (jid, _)) in jobs.into_iter().enumerate() {
                if kept.get(at) != Some(&true) {
                    confirmed.remove(jid);
                }
            }
        }
        confirmed
    }

    async fn ask_kept(
        &self,
        version: Version,
        owner: &str,
        jobs: &[&Candidate],
    ) -> Result<Vec<bool>, String> {
        let members = self.status().members;
        let mut of_name = members.iter().rev().filter(|(_, of)| of.name == owner);
        let (number, _) = of_name.next().ok_or("it is no member")?;
        let jobs = jobs.iter().map(|(jid, ids)| {
            let ids: Vec<Id> = ids.iter().cloned().collect();
            (jid.clone(), ids)
        });
        let rows = Rows::Kept {
            version: version.into(),
            jobs: jobs.collect(),
        };
        let answer = self.ask(*number, &Ask::Rows(rows), ASK_MAX).await?;
        let kept = answer.as_list().ok_or("the answer has an unknown form")?;
        Ok(kept.iter().map(Value::is_true).collect())
    }

    /// Removes data, unless the rings or the members have changed since its owners were asked.
    async fn remove_if_still(
        &self,
        version: Version,
        jid: &str,
        ids: BTreeSet<Id>,
    ) -> Result<u64, String> {
        let _removing = self.0.rings.removing.lock().await;
        let view = self.view()?;
        if view.version != version {
            return Ok(0);
        }
        let removed = self.0.store.remove_data(jid, ids).await;
        let removed = removed.map_err(|error| error.to_string())?;
        let is_voter = view
            .routed
            .is_some_and(|(_, ring, ..)| ring.voters.contains(&self.0.settings.name));
        let mut drops = lock(&self.0.rings.drops);
        match is_voter {
            true => drops.other_ring_member += removed,
            false => drops.not_a_member += removed,
        }
        Ok(removed)
    }

    /// Answers a request of another master about returns.
    pub(in crate::cluster) async fn answer_rows(&self, rows: Rows) -> Result<Value, String> {
        match rows {
            Rows::Kept { version, jobs } => self.kept(version, jobs).await,
            Rows::Returns { jid, only, after } => self.give(jid, only, after).await,
            Rows::Shed { ring, dry_run } => {
                let shed = self.shed(&ring, dry_run, Source::Peer).await;
                shed.map(Value::Map)
            }
        }
    }

    /// Returns for each job whether this master keeps it, and has the data of these returns on its
    /// disk.
    async fn kept(
        &self,
        version: (u64, u64, u64),
        jobs: Vec<(String, Vec<Id>)>,
    ) -> Result<Value, String> {
        let _removing = self.0.rings.removing.lock().await;
        let view = self.view()?;
        if version != view.version.into() {
            return Err("it knows other rings or members at present".to_owned());
        }
        let fail = |error: crate::store::Error| error.to_string();
        let (store, own) = (self.0.store.clone(), self.0.settings.name.clone());
        let read = smol::unblock(move || {
            let kept = jobs.into_iter().map(|(jid, ids)| {
                let here = store.returns_of(&jid)?.here;
                let has_all = ids.iter().all(|id| here.contains(id));
                Ok(Value::from(has_all && view.keeps(&own, &jid)))
            });
            kept.collect::<Result<Vec<Value>, _>>()
        });
        let kept = read.await.map_err(fail)?;
        self.0.store.sync().await.map_err(fail)?;
        Ok(Value::list(kept))
    }

    /// Makes all other masters remove what they do not keep. Returns their results by name.
    pub(crate) async fn shed_elsewhere(&self, ring: &str, dry_run: bool) -> Map {
        let mut results = Map::new();
        for (number, member) in self.others() {
            let ask = Ask::Rows(Rows::Shed {
                ring: ring.to_owned(),
                dry_run,
            });
            let result = match self.ask(number, &ask, SHED_MAX).await {
                Ok(result) => result,
                Err(error) => Map::new().with("error", error).into(),
            };
            results.insert(member.name.as_str(), result);
        }
        results
    }

    /// Removes new data that others keep and restores what is missing, for as long as this master
    /// runs.
    pub(in crate::cluster) async fn keep_rings(self) {
        let mut done = Done::default();
        loop {
            pause(EVERY).await;
            if let Err(error) = self.keep_once(&mut done).await {
                log::warning(format_args!("cannot move returns of jobs: {error}"));
            }
        }
    }

    async fn keep_once(&self, done: &mut Done) -> Result<(), String> {
        if let (_, Some(failure)) = self.restore(false).await? {
            log::warning(format_args!("cannot restore returns: {failure}"));
        }
        let view = self.view()?;
        let Some((_, _, since_ms, _)) = view.routed else {
            return Ok(());
        };
        if done.version != view.version {
            *done = Done {
                version: view.version,
                ..Done::default()
            };
        }
        let old = now_ms().saturating_sub(AGE_MS);
        let from = since_ms.max(done.upto_ms);
        let is_soon = done.again.is_some_and(|again| Instant::now() < again);
        if from > old || is_soon {
            return Ok(());
        }
        let counts = self.pass(from..=old, false).await?;
        if counts.unconfirmed == 0 {
            done.upto_ms = old.saturating_sub(LATE_MS);
        }
        done.again = (counts.unconfirmed > 0).then(|| Instant::now() + AGAIN);
        Ok(())
    }
}

/// The passes so far, of the rings and members of one version.
#[derive(Debug, Default)]
struct Done {
    version: Version,
    /// The time up to which all jobs were examined, in milliseconds since 1970.
    upto_ms: u64,
    /// The earliest time of the next pass, if an owner has not confirmed what it has.
    again: Option<Instant>,
}

/// Returns the last result of this master: the contents of the file, or a note that there is none.
///
/// # Errors
/// When the file exists and cannot be read.
pub(crate) fn status(cachedir: &Path) -> Result<Value, String> {
    let path = cachedir.join(STATUS_FILE);
    let missing = || {
        Map::new()
            .with("status", "missing")
            .with("path", path.to_string_lossy().as_ref())
    };
    let read = match File::open(&path) {
        Ok(file) => {
            let mut text = String::new();
            let read = file.take(STATUS_MAX).read_to_string(&mut text);
            read.map(|_| text)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(missing().into()),
        Err(error) => Err(error),
    };
    let fail = |why: &dyn std::fmt::Display| format!("Cannot read {}: {why}", path.display());
    let text = read.map_err(|error| fail(&error))?;
    json::read(&text).map_err(|error| fail(&error))
}
