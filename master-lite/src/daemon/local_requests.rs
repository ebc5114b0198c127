//! The requests of commands on this machine.

use std::sync::Arc;

use link::Error;
use link::unix::{Local, LocalListener, LocalRequest};
use smol::future::{FutureExt, zip};
use smol::lock::{Semaphore, SemaphoreGuardArc};
use value::{Map, Value, channel, log, secret};
use wire::{Listen, Request, Runner};

use crate::access::Access;
use crate::access::publisher_acl::{LocalUser, Permitted};
use crate::events::Events;
use crate::jobs::{JobEvent, Jobs};
use crate::runs::Runners;
use crate::runs::progress;
use crate::store::{self, Event, Seen, Store};

/// The maximum number of commands of users other than root that are served at a time
/// (`publisher_acl`).
const GUESTS_MAX: usize = 64;

/// Serves the commands on this machine.
pub(crate) struct LocalRequests {
    store: Store,
    events: Events,
    jobs: Jobs,
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
        access: Access,
        runners: Runners,
    ) -> Self {
        Self {
            store,
            events,
            jobs,
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
        let Ok(guest) = self.guest(&local) else {
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
                Ok(Some(LocalRequest::Event(event))) if guest.is_none() => {
                    self.events.fire(&event.tag, event.data).await;
                    Ok(())
                }
                Ok(Some(LocalRequest::Event(_))) => local.fail("refused", ROOTS).await,
                Ok(Some(LocalRequest::Request(request))) => {
                    let guest = guest.as_ref().map(|(guest, _)| guest);
                    self.command(request, guest, &mut local).await
                }
                Err(error) => Err(error),
            };
            if let Err(error) = obeyed {
                return log::info(format_args!("{error}"));
            }
        }
    }

    /// Returns the calling user, unless it is root or the master's own user, with one of a limited
    /// number of slots.
    fn guest(&self, local: &Local) -> Result<Option<(LocalUser, SemaphoreGuardArc)>, ()> {
        let Some(user) = local.guest() else {
            return Ok(None);
        };
        let place = self.guests.try_acquire_arc().ok_or(())?;
        Ok(Some((LocalUser::from_uid(user), place)))
    }

    async fn command(
        &self,
        request: Request,
        guest: Option<&LocalUser>,
        local: &mut Local,
    ) -> Result<(), Error> {
        match request {
            Request::Publish(asked) => match self.access.permitted(asked, guest).await {
                Ok(permitted) => self.publish_for(permitted, local).await,
                Err((word, text)) => local.fail(word, text).await,
            },
            Request::Ping(_) => local.done(true).await,
            _ if guest.is_some() => local.fail("refused", ROOTS).await,
            Request::Wheel(asked) => match self.runners.wheel(&asked.fun, asked.arg).await {
                Ok(ret) => local.done(ret).await,
                Err(error) => local.fail("failed", error).await,
            },
            Request::Runner(asked) => {
                let done = self.run_for(asked, local).await;
                local.done(done).await
            }
            Request::Listen(asked) => self.listen(asked, local).await,
            Request::Fire(asked) => match self.events.fire(&asked.tag, asked.data).await {
                true => local.done(true).await,
                false => local.fail("failed", "cannot store the event").await,
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

    /// Runs a runner's function. A command that wants the progress receives each event of a state
    /// run.
    async fn run_for(&self, asked: Runner, local: &mut Local) -> Map {
        if !asked.watched {
            return self.runners.run(asked, None).await;
        }
        let (watcher, told) = progress::pair();
        let pass_on = async {
            // No deadline: it ends with the run. The run continues even if the command has gone.
            while let Ok(part) = told.recv().await
                && local.data(part).await.is_ok()
            {}
        };
        let run = self.runners.run(asked, Some(watcher));
        zip(run, pass_on).await.0
    }

    async fn publish_for(&self, permitted: Permitted, local: &mut Local) -> Result<(), Error> {
        let Permitted {
            asked,
            user,
            matched,
            is_preview,
        } = permitted;
        if is_preview {
            return self.jobs.preview(matched, local).await;
        }
        let mut published = match self.jobs.publish_to(asked, &user, matched).await {
            Ok(published) => published,
            Err(error) => return local.fail("invalid", error).await,
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

    /// Sends events as they occur, until the command closes its end.
    async fn listen(&self, asked: Listen, local: &mut Local) -> Result<(), Error> {
        let wanted = |tag: &str| {
            let mut tags = asked.tags.iter();
            asked.tags.is_empty() || tags.any(|glob| value::glob::fnmatch(glob, tag))
        };
        let watch = self.store.watch();
        let mut from = asked.from.unwrap_or_else(|| watch.first());
        let mut upto = watch.first();
        loop {
            if from < upto {
                from = self.tell_past(from, upto, &wanted, local).await?;
                continue;
            }
            // No deadline: a command may listen for as long as it runs.
            let next = async { Some(watch.next().await) };
            let gone = async {
                channel::or_closed(local.next().await);
                None
            };
            match next.or(gone).await {
                Some(Some(Seen::Event(event))) if wanted(&event.tag) => {
                    local.data(event_data(&event)).await?;
                }
                Some(Some(Seen::Event(_))) => {}
                Some(Some(Seen::Missed { from: first, to })) => (from, upto) = (first, to + 1),
                Some(None) => return local.fail("failed", "the master is shutting down").await,
                None => return Ok(()),
            }
        }
    }

    /// Sends up to [`PAST`] events of the log. Returns the number of the next event to send.
    async fn tell_past(
        &self,
        from: u64,
        upto: u64,
        wanted: &impl Fn(&str) -> bool,
        local: &mut Local,
    ) -> Result<u64, Error> {
        let store = self.store.clone();
        let read = smol::unblock(move || {
            let events = store.events(from)?.take(PAST);
            events.collect::<Result<Vec<Event>, store::Error>>()
        });
        let events = match read.await {
            Ok(events) => events,
            Err(error) => {
                local.fail("failed", error.to_string()).await?;
                return Ok(upto);
            }
        };
        let mut next = upto;
        for event in events.iter().filter(|event| event.sequence < upto) {
            if wanted(&event.tag) {
                local.data(event_data(event)).await?;
            }
            next = event.sequence + 1;
        }
        Ok(next)
    }
}

/// The refusal of other requests than jobs, for users other than root.
const ROOTS: &str = "only root and the user that the master runs as may do that";
const FULL: &str = "too many users are connected: try again later";

/// The maximum number of events of the log that are read at once.
const PAST: usize = 256;

fn event_data(event: &Event) -> Map {
    Map::new()
        .with("tag", event.tag.as_str())
        .with("sequence", event.sequence)
        .with("data", event.stamped())
}
