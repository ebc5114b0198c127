//! The requests of commands on this machine.

use std::sync::Arc;
use std::time::{Duration, Instant};

use link::Error;
use link::unix::{Local, LocalListener, LocalRequest};
use smol::channel::bounded;
use smol::future::{FutureExt, pending, zip};
use smol::lock::{Semaphore, SemaphoreGuardArc};
use value::{Map, Value, channel, log, secret};
use wire::{Listen, Login, Request, Runner};

use crate::access::Access;
use crate::access::caller::Caller;
use crate::access::eauth::Credentials;
use crate::access::functions::Form;
use crate::access::publisher_acl::{LocalUser, Permitted};
use crate::cluster::Cluster;
use crate::events::Events;
use crate::jobs::batches::{Batches, Shape, Started};
use crate::jobs::{JobEvent, Jobs};
use crate::runs::Runners;
use crate::runs::progress;
use crate::store::{self, Event, Seen, Store};

/// The maximum number of commands of users other than root that are served at a time
/// (`publisher_acl`, `external_auth`).
const GUESTS_MAX: usize = 64;

/// Serves the commands on this machine.
pub(crate) struct LocalRequests {
    store: Store,
    events: Events,
    jobs: Jobs,
    batches: Batches,
    access: Access,
    runners: Runners,
    /// The slots for commands of users other than root.
    guests: Arc<Semaphore>,
}

impl LocalRequests {
    pub(crate) fn new(
        store: Store,
        events: Events,
        jobs: Jobs,
        batches: Batches,
        access: Access,
        runners: Runners,
    ) -> Self {
        Self {
            store,
            events,
            jobs,
            batches,
            access,
            runners,
            guests: Arc::new(Semaphore::new(GUESTS_MAX)),
        }
    }

    /// Serves commands until the socket fails.
    pub(crate) async fn run(self: Arc<Self>, socket: LocalListener) -> Result<(), Error> {
        loop {
            // No deadline: commands arrive at any time.
            let local = socket.next().await?;
            smol::spawn(self.clone().obey(local)).detach();
        }
    }

    /// Serves a command until it closes its end.
    async fn obey(self: Arc<Self>, mut local: Local) {
        let Ok((mut caller, _place)) = self.caller(&local) else {
            #[expect(
                clippy::let_underscore_must_use,
                reason = "a command that has gone needs no answer"
            )]
            let _ = local.fail("full", FULL).await;
            return;
        };
        loop {
            // No deadline: the kernel closes the socket when the command ends.
            let obeyed = match local.next().await {
                Ok(None) => return,
                Ok(Some(LocalRequest::Event(event))) if caller == Caller::Root => {
                    self.events.fire(&event.tag, event.data).await;
                    Ok(())
                }
                Ok(Some(LocalRequest::Event(_))) => local.fail("refused", ROOTS).await,
                Ok(Some(LocalRequest::Request(Request::Login(shown)))) => {
                    self.login(shown, &mut caller, &mut local).await
                }
                Ok(Some(LocalRequest::Request(request))) => {
                    self.command(request, &caller, &mut local).await
                }
                Err(error) => Err(error),
            };
            if let Err(error) = obeyed {
                return log::info(format_args!("{error}"));
            }
        }
    }

    /// Returns the calling user. One other than root and the master's own user also gets one of a
    /// limited number of slots.
    fn caller(&self, local: &Local) -> Result<(Caller, Option<SemaphoreGuardArc>), ()> {
        let Some(user) = local.guest() else {
            return Ok((Caller::Root, None));
        };
        let place = self.guests.try_acquire_arc().ok_or(())?;
        Ok((Caller::Local(LocalUser::from_uid(user)), Some(place)))
    }

    /// Answers `login`: the requests that follow on this connection are those of the user.
    async fn login(
        &self,
        shown: Login,
        caller: &mut Caller,
        local: &mut Local,
    ) -> Result<(), Error> {
        // The origin is the user and not the process: each guess may come from another process.
        let user = local.guest().map(LocalUser::from_uid);
        let from = format!(
            "local user {}",
            user.as_ref().map_or("root", LocalUser::name)
        );
        let mut answer = Map::new();
        let user = match &shown.token {
            Some(token) => self.access.user_of(token, &from).await,
            None => {
                let credentials = Credentials {
                    eauth: shown.eauth,
                    username: shown.username,
                    password: shown.password,
                    expire_s: shown.expire_s,
                };
                match shown.mint {
                    false => self.access.authenticate(&credentials, &from).await,
                    true => self.access.login(&credentials, &from).await.map(|issued| {
                        answer.insert("token", issued.token.reveal());
                        answer.insert("start", issued.start);
                        answer.insert("expire", issued.expire);
                        issued.user
                    }),
                }
            }
        };
        match user {
            Ok(user) => {
                answer.insert("user", user.name.as_str());
                answer.insert("eauth", user.eauth.as_str());
                *caller = Caller::User(user);
                local.done(answer).await
            }
            Err(refusal) => local.fail(refusal.word(), refusal.to_string()).await,
        }
    }

    async fn command(
        &self,
        request: Request,
        caller: &Caller,
        local: &mut Local,
    ) -> Result<(), Error> {
        let may_call =
            |form, fun: &str, arg: &[Value]| self.access.may_call(caller, form, fun, arg);
        match request {
            Request::Publish(asked) => match self.access.permitted(asked, caller).await {
                Ok(permitted) => self.publish_for(permitted, local).await,
                Err((word, text)) => local.fail(word, text).await,
            },
            Request::Ping(_) => local.done(true).await,
            Request::Wheel(asked) => match may_call(Form::Wheel, &asked.fun, &asked.arg) {
                Ok(()) => match self.runners.wheel(&asked.fun, asked.arg).await {
                    Ok(ret) => local.done(ret).await,
                    Err(error) => local.fail(self.reason("failed"), error).await,
                },
                Err((word, text)) => local.fail(word, text).await,
            },
            Request::Runner(mut asked) => match may_call(Form::Runner, &asked.fun, &asked.arg) {
                Ok(()) => {
                    if *caller != Caller::Root {
                        // Only root may choose the job id.
                        asked.jid = None;
                    }
                    let done = self.run_for(asked, caller.name(), local).await;
                    local.done(done).await
                }
                Err((word, text)) => local.fail(word, text).await,
            },
            _ if *caller != Caller::Root => local.fail("refused", ROOTS).await,
            Request::Listen(asked) => self.listen(asked, local).await,
            Request::Backup(_) => self.backup(local).await,
            Request::Fire(asked) => match self.events.append(&asked.tag, asked.data).await {
                Ok(_) => local.done(true).await,
                Err(why) => {
                    let text = format!("cannot store the event: {why}");
                    local.fail(self.reason("failed"), text).await
                }
            },
            other => {
                let text = format!(
                    "this master does not support the request `{}`",
                    other.kind()
                );
                local.fail("refused", text).await
            }
        }
    }

    /// Returns the word for the reason of a failure, which is another one if this master is in a
    /// minority of its cluster.
    fn reason(&self, otherwise: &'static str) -> &'static str {
        let cluster = self.runners.runs.cluster.as_ref();
        match cluster.and_then(Cluster::minority) {
            Some(_) => wire::NO_MAJORITY,
            None => otherwise,
        }
    }

    /// Runs a runner's function. A command that wants the progress receives each event of a state
    /// run.
    async fn run_for(&self, asked: Runner, user: Option<&str>, local: &mut Local) -> Map {
        if !asked.watched {
            return self.runners.run_by(asked, user, None).await;
        }
        let (watcher, told) = progress::pair();
        let pass_on = async {
            // No deadline: it ends with the run. The run continues even if the command has gone.
            while let Ok(part) = told.recv().await
                && local.data(part).await.is_ok()
            {}
        };
        let run = self.runners.run_by(asked, user, Some(watcher));
        zip(run, pass_on).await.0
    }

    async fn publish_for(&self, permitted: Permitted, local: &mut Local) -> Result<(), Error> {
        let Permitted {
            mut asked,
            user,
            matched,
            is_preview,
        } = permitted;
        if is_preview {
            return self.jobs.preview(matched, local).await;
        }
        match Shape::take(&mut asked.options) {
            Ok(None) => {}
            Ok(Some(shape)) => {
                let started = self.batches.start(asked, &shape, &user, matched).await;
                return match started {
                    Ok(started) => begun(&started, local).await,
                    Err(error) => local.fail(self.reason("invalid"), error).await,
                };
            }
            Err(error) => return local.fail("invalid", error).await,
        }
        let mut published = match self.jobs.publish_to(asked, &user, matched).await {
            Ok(published) => published,
            Err(error) => return local.fail(self.reason("invalid"), error).await,
        };
        let minions = published.minions.iter().map(|id| id.as_str().into());
        let missing = published.missing.iter().map(|name| name.as_str().into());
        let first = Map::new()
            .with("jid", published.jid.as_str())
            .with("minions", Value::list(minions))
            .with("missing", Value::list(missing));
        local.data(first).await?;
        // No deadline: a silent minion is given up (`timeout`, `gather_job_timeout`).
        while let Some(came) = published.next().await {
            let said = match came {
                JobEvent::Return(data) => secret::map(data),
                JobEvent::NoReturn(id, why) => Map::new()
                    .with("id", id.as_str())
                    .with("failed", why.word()),
            };
            local.data(said).await?;
        }
        local
            .done(Map::new().with("jid", published.jid.as_str()))
            .await
    }

    /// Sends the rows of the store. They are read on another thread, which waits while the command is
    /// slower.
    async fn backup(&self, local: &mut Local) -> Result<(), Error> {
        let (sender, pieces) = bounded(PIECES_MAX);
        let store = self.store.clone();
        let read = smol::spawn(smol::unblock(move || {
            store.export(&mut |piece| sender.send_blocking(piece).is_ok())
        }));
        // No deadline: the thread sends pieces until it ends.
        while let Ok(piece) = pieces.recv().await {
            local.data(Value::Bytes(piece.into())).await?;
        }
        match read.await {
            Ok(Some(rows)) => local.done(rows).await,
            Ok(None) => local.fail("failed", "the backup was interrupted").await,
            Err(error) => local.fail("failed", error.to_string()).await,
        }
    }

    /// Sends events as they occur, until the command closes its end or the time is over.
    async fn listen(&self, asked: Listen, local: &mut Local) -> Result<(), Error> {
        let watch = self.store.watch();
        let mut upto = watch.first();
        let mut from = match self.first_wanted(&asked, upto).await {
            Ok(from) => from,
            Err(error) => return local.fail("failed", error.to_string()).await,
        };
        let end = asked.until_ms.map(deadline);
        loop {
            if from < upto {
                match self.tell_past(from, upto, &asked, local).await? {
                    Some(next) => from = next,
                    None => return local.done(Value::Null).await,
                }
                continue;
            }
            // No deadline: a command may listen for as long as it runs.
            let next = async { Now::Seen(watch.next().await) };
            let gone = async {
                channel::or_closed(local.next().await);
                Now::Gone
            };
            let over = async {
                match end {
                    Some(end) => link::wait::until(end).await,
                    None => pending().await,
                }
                Now::Over
            };
            match over.or(next).or(gone).await {
                Now::Seen(Some(Seen::Event(event))) if is_wanted(&asked, &event.tag) => {
                    local.data(event_data(&event)).await?;
                }
                Now::Seen(Some(Seen::Event(_))) => {}
                Now::Seen(Some(Seen::Missed { from: first, to })) => {
                    (from, upto) = (first, to + 1);
                }
                Now::Seen(None) => {
                    return local.fail("failed", "the master is shutting down").await;
                }
                Now::Gone => return Ok(()),
                Now::Over => return local.done(Value::Null).await,
            }
        }
    }

    /// Returns the number of the first event to send. `next` is the number of the next new event.
    async fn first_wanted(&self, asked: &Listen, next: u64) -> Result<u64, store::Error> {
        let is_past = asked.until_ms.is_some_and(|until| until < store::now_ms());
        match (asked.from, asked.since_ms) {
            (Some(from), _) => Ok(from),
            (None, Some(since_ms)) => {
                let store = self.store.clone();
                smol::unblock(move || store.first_since(since_ms)).await
            }
            (None, None) if is_past => Ok(0),
            (None, None) => Ok(next),
        }
    }

    /// Sends up to [`PAST`] events of the log. Returns the number of the next event to send, or
    /// `None` once an event is too new.
    async fn tell_past(
        &self,
        from: u64,
        upto: u64,
        asked: &Listen,
        local: &mut Local,
    ) -> Result<Option<u64>, Error> {
        let store = self.store.clone();
        let read = smol::unblock(move || {
            let events = store.events(from)?.take(PAST);
            events.collect::<Result<Vec<Event>, store::Error>>()
        });
        let events = match read.await {
            Ok(events) => events,
            Err(error) => {
                local.fail("failed", error.to_string()).await?;
                return Ok(Some(upto));
            }
        };
        let mut next = upto;
        for event in events.iter().filter(|event| event.sequence < upto) {
            if asked.until_ms.is_some_and(|until| event.at_ms > until) {
                return Ok(None);
            }
            let is_early = asked.since_ms.is_some_and(|since| event.at_ms < since);
            if !is_early && is_wanted(asked, &event.tag) {
                local.data(event_data(event)).await?;
            }
            next = event.sequence + 1;
        }
        Ok(Some(next))
    }
}

/// The next thing that a listening command receives.
enum Now {
    Seen(Option<Seen>),
    Gone,
    Over,
}

fn is_wanted(asked: &Listen, tag: &str) -> bool {
    let mut tags = asked.tags.iter();
    asked.tags.is_empty() || tags.any(|glob| value::glob::fnmatch(glob, tag))
}

/// Returns the moment of a time in milliseconds since 1970.
fn deadline(at_ms: u64) -> Instant {
    let left = Duration::from_millis(at_ms.saturating_sub(store::now_ms()));
    Instant::now() + left.min(LISTEN_MAX)
}

/// The maximum time for which a command that names an end listens.
const LISTEN_MAX: Duration = Duration::from_secs(366 * 86_400);

/// The refusal of other requests than jobs, for users other than root.
const ROOTS: &str = "only root and the user that the master runs as may do that";
const FULL: &str = "too many users are connected: try again later";

/// The maximum number of pieces of a backup that wait for the command.
const PIECES_MAX: usize = 4;

/// The maximum number of events of the log that are read at once.
const PAST: usize = 256;

fn event_data(event: &Event) -> Map {
    Map::new()
        .with("tag", event.tag.as_str())
        .with("sequence", event.sequence)
        .with("data", event.stamped())
}
/// Reports a batch that has begun.
async fn begun(started: &Started, local: &mut Local) -> Result<(), Error> {
    let minions = started.minions.iter().map(|id| id.as_str().into());
    let away = started.away.iter().map(|name| name.as_str().into());
    let first = Map::new()
        .with("jid", started.jid.as_str())
        .with("minions", Value::list(minions))
        .with("missing", Value::list(away));
    local.data(first).await?;
    local.done(Value::Null).await
}
