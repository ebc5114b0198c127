//! The returns of jobs: those that are stored, and those that are refused.

use link::{Error, Question};
use value::{Map, Value, jid, log, secret};
use wire::tag::Tag;
use wire::{Id, Return, tag};

use super::{Jobs, failures, highstate};
use crate::jobs::minions::Minion;
use crate::refusals::NotServed;
use crate::store::{Cache, Change, Command, Origin, Refusal, Seen, now_ms};

/// The key that marks the record of a job that a minion gave itself.
const OWN: &str = "own";

impl Jobs {
    /// Stores a return and its events in one change.
    pub(crate) async fn store_return(
        &self,
        minion: &Minion,
        question: Question,
        answer: Return,
    ) -> Result<(), Error> {
        let Return {
            sequence,
            jid,
            stamp,
            data,
        } = answer;
        if !jid::is_jid(&jid) {
            return question
                .fail("invalid", format!("invalid job id {jid:?}"))
                .await;
        }
        let at_ms = now_ms();
        let data = data
            .with("cmd", "_return")
            .with("id", minion.id.as_str())
            .with("jid", jid.as_str())
            .with("ts", at_ms / 1000);
        let (data, mut commands, sent_ms) = match self.own_job(minion, &jid, data) {
            Ok(own) => own,
            Err((word, text)) => {
                self.metrics.returns_refused.add();
                return question.fail(word, text).await;
            }
        };
        let kept = without_secrets(&data);
        let origin = minion.origin(sequence);
        let stored = stored(&jid, &minion.id, &kept, (&stamp, at_ms), origin);
        commands.extend(stored);
        if let Some(summary) = highstate::summary(&kept, at_ms) {
            commands.push(Command::Cached {
                id: minion.id.clone(),
                key: minion.key,
                what: Cache::Status,
                change: Change::Update(Map::new().with("highstate", summary)),
            });
        }
        match self.store.apply(Command::All(commands)).await {
            Ok(applied) => {
                self.metrics.returned(&applied, sent_ms);
                log::debug(format_args!(
                    "{} returned the job {jid}: retcode {}",
                    minion.id,
                    kept.get("retcode")
                        .map_or_else(|| "none".to_owned(), Value::to_text)
                ));
                if applied.has_return() {
                    self.waiting.came(&jid, &data);
                }
                match applied.rejection() {
                    None => question.done(Value::Null).await,
                    // A return that is refused for its key can be stored once the key is accepted
                    // again. One that is too large never can.
                    Some(refusal @ Refusal::NotAccepted { .. }) => {
                        question.fail("failed", refusal.to_string()).await
                    }
                    Some(refusal) => question.fail("invalid", refusal.to_string()).await,
                }
            }
            Err(error) => question.fail("failed", error.to_string()).await,
        }
    }

    /// Stores the return of a host without an agent, with its events. A failure is logged.
    pub(super) async fn store_return_of_host(&self, jid: &str, id: &Id, data: Map) {
        let at_ms = now_ms();
        let data = data.with("ts", at_ms / 1000);
        let kept = without_secrets(&data);
        let commands = stored(jid, id, &kept, (&jid::stamp(), at_ms), None);
        let why = match self.store.apply(Command::All(commands)).await {
            Ok(applied) if applied.has_return() => return self.waiting.came(jid, &data),
            Ok(applied) => match applied.rejection() {
                Some(refusal) => refusal.to_string(),
                None => return,
            },
            Err(error) => error.to_string(),
        };
        log::error(format_args!(
            "cannot store the return of {id} for the job {jid}: {why}"
        ));
    }

    /// Passes returns that other masters of the cluster have stored to the callers here that wait for
    /// their jobs, for as long as the store is open.
    pub(crate) async fn follow_returns_of_others(&self) {
        let watch = self.store.watch();
        // No deadline: the next event may come at any time.
        while let Some(seen) = watch.next().await {
            match seen {
                Seen::Event(event) => {
                    // A minion can fire such an event without a return, so the return itself counts.
                    if let Tag::JobOf {
                        jid,
                        what: "ret",
                        id,
                        ..
                    } = Tag::parse(&event.tag)
                        && self.waiting.has(jid)
                        && let Ok(id) = id.parse()
                        && let Ok(Some(returned)) = self.store.returned(jid, &id)
                    {
                        self.waiting.came(jid, &returned.data);
                    }
                }
                Seen::Missed { .. } => {
                    let jobs = self.clone();
                    smol::unblock(move || jobs.catch_up_with_returns()).await;
                }
            }
        }
    }

    /// Passes all stored returns of jobs to the callers that wait for these. A caller that has one
    /// already ignores it.
    fn catch_up_with_returns(&self) {
        for jid in self.waiting.jobs() {
            let returns = match self.store.returns(&jid) {
                Ok(returns) => returns,
                Err(error) => return log::error(format_args!("{error}")),
            };
            for returned in returns {
                match returned {
                    Ok(returned) => self.waiting.came(&jid, &returned.data),
                    Err(error) => return log::error(format_args!("{error}")),
                }
            }
        }
    }

    /// Returns the data of a return, the commands to apply before it, and the time at which the job
    /// was sent to the minion. A job that the minion gave itself (by its schedule, its startup
    /// states, or a call on its machine) is recorded with its return, and has no such time. A
    /// return of a job that was sent only to others is refused.
    fn own_job(
        &self,
        minion: &Minion,
        jid: &str,
        data: Map,
    ) -> Result<(Map, Vec<Command>, Option<u64>), NotServed> {
        let answerable = self.answerable(minion, jid).inspect_err(|(_, text)| {
            let why = format!("key {}: refused its return: {text}", minion.key);
            self.refusals.log(minion.id.as_str(), why);
        });
        if let Some(at_ms) = answerable? {
            return Ok((data, Vec::new(), Some(at_ms)));
        }
        let of_return = |name: &str| data.get(name).cloned().unwrap_or_default();
        let arg = of_return("fun_args");
        let load = Map::new()
            .with("jid", jid)
            .with("tgt", minion.id.as_str())
            .with("tgt_type", "glob")
            .with(
                "user",
                data.get("user").cloned().unwrap_or_else(|| "root".into()),
            )
            .with("fun", of_return("fun"))
            .with("arg", arg.clone())
            .with(OWN, true);
        let job = Command::Job {
            jid: jid.to_owned(),
            load,
            minions: vec![minion.id.clone()],
            at_ms: now_ms(),
        };
        let data = data
            .with("arg", arg)
            .with("tgt_type", "glob")
            .with("tgt", minion.id.as_str());
        Ok((data, vec![job], None))
    }

    /// Checks that a minion may return a job. Returns the time at which the job was sent to it, or
    /// `None` for one that the minion gave itself.
    pub(crate) fn answerable(&self, minion: &Minion, jid: &str) -> Result<Option<u64>, NotServed> {
        let known = self.store.expected(jid);
        let known = known.map_err(|error| ("failed", error.to_string()))?;
        match known {
            Some(job) if job.minions.contains(&minion.id) => Ok(Some(job.at_ms)),
            // Two minions have used the same number for jobs that they gave themselves.
            Some(job) if job.load.get(OWN).is_some_and(Value::is_true) => Ok(None),
            Some(_) => {
                let text = format!("the job {jid} was not sent to {}", minion.id);
                Err(("refused", text))
            }
            None => Ok(None),
        }
    }
}

/// Returns the commands that store a return with its events. `kept` is its data.
fn stored(
    jid: &str,
    id: &Id,
    kept: &Map,
    (stamp, at_ms): (&str, u64),
    origin: Option<Origin>,
) -> Vec<Command> {
    let event = |(tag, data): (String, Map)| Command::Event {
        tag,
        data,
        stamp: stamp.to_owned(),
        at_ms,
        origin: None,
    };
    let returned = Command::Return {
        jid: jid.to_owned(),
        id: id.clone(),
        data: kept.clone(),
        at_ms,
        origin,
    };
    let mut commands = vec![returned, event((tag::job_ret(jid, id), kept.clone()))];
    commands.extend(failures::events(kept).into_iter().map(event));
    commands
}

/// Returns a return without the secrets that this master knows. The fields that identify the return
/// are kept in any case.
fn without_secrets(data: &Map) -> Map {
    let mut kept = secret::map(data.clone());
    for key in ["id", "jid", "fun", "cmd"] {
        if let Some(value) = data.get(key) {
            kept.insert(key, value.clone());
        }
    }
    kept
}
