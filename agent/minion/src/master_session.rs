//! [`MasterSession`]: keeps a master connected, and does what it asks.

use std::sync::Arc;
use std::time::Duration;

use link::wait::{pause, seconds};
use smol::future::{FutureExt, pending};
use state::opts::Opts;
use value::{Map, Value, jid, log};
use wire::{Job, Request};

use crate::blackout::Blackout;
use crate::launcher::{Launcher, ReturnTo};
use crate::own_requests::OwnRequests;
use crate::startup::Startup;
use crate::uplink::{
    Answerer, Link, Session, Upstream, Upstreams, alive_interval, event, next_key, startup_delay,
};

/// The maximum number of jobs at a time where `process_count_max` is not configured. Further jobs
/// are refused.
const JOBS_MAX: usize = 100;

/// The parts of the daemon that serve a master. Clones are cheap.
#[derive(Clone, Debug)]
pub(crate) struct MasterSession {
    pub(crate) opts: Opts,
    pub(crate) upstreams: Upstreams,
    pub(crate) launcher: Launcher,
    pub(crate) startup: Arc<Startup>,
    pub(crate) blackout: Arc<Blackout>,
    pub(crate) own: OwnRequests,
}

impl MasterSession {
    /// Keeps an upstream connected for as long as the daemon runs.
    pub(crate) async fn serve(self, upstream: Arc<Upstream>, mut session: Session) {
        let mut is_first = true;
        if upstream.is_over() {
            return;
        }
        let delay = startup_delay(&self.opts);
        if !delay.is_zero() {
            log::info(format_args!(
                "Connecting in {delay:.1?} (random_startup_delay)"
            ));
            pause(delay).await;
        }
        while !upstream.is_over() {
            let (link, welcome) = session.connect(&upstream).await;
            log::info(format_args!("Connected to the master {}", link.who()));
            // The handle is set first: the messages that greet the master may be ready before the
            // link is read.
            let durable = upstream.connected(&link, &welcome);
            self.upstreams.adopt(&self.opts).await;
            let is_first = std::mem::take(&mut is_first);
            if !upstream.is_replaced() {
                self.startup.greet(&upstream, is_first).await;
            }
            self.speak(&upstream, &mut session, link, durable).await;
        }
    }

    /// Does what the master asks until the connection is lost or there is a better one.
    async fn speak(
        &self,
        upstream: &Arc<Upstream>,
        session: &mut Session,
        link: Link,
        durable: u64,
    ) {
        let handle = link.handle();
        let take = |request, answerer| {
            let (this, upstream) = (self.clone(), upstream.clone());
            smol::spawn(async move { this.answer(&upstream, request, answerer).await }).detach();
        };
        let lost = async { Some(upstream.speak(link, durable, take).await) };
        let silent = async { Some(upstream.silence(&handle, alive_interval(&self.opts)).await) };
        let mut reason = "";
        let is_idle = || self.own.jobs.len() == 0;
        let ends = async {
            reason = session.is_to_end(upstream, is_idle).await;
            None
        };
        let pings = async {
            ping(upstream, ping_interval(&self.opts)).await;
            None
        };
        let lost = lost.or(silent).or(ends).or(pings).await;
        let was_useless = upstream.disconnected();
        match lost {
            Some(error) => {
                log::warning(format_args!("lost the connection to the master: {error}"));
                session.lost(upstream, was_useless);
            }
            None => {
                log::info(format_args!("Leaving the master: {reason}"));
                #[expect(
                    clippy::let_underscore_must_use,
                    reason = "the connection is closed in any case"
                )]
                let _ = handle.bye(reason).await;
                handle.close("failback");
            }
        }
    }

    /// Answers a request of the master.
    async fn answer(&self, upstream: &Arc<Upstream>, request: Request, answerer: Answerer) {
        let answered = match request {
            Request::Job(job) => match self.take(upstream, job) {
                Ok(()) => answerer.done(Value::Null).await,
                Err((reason, text)) => answerer.fail(reason, text).await,
            },
            Request::Ping(_) => answerer.done(true).await,
            Request::NextKey(next) => next_key::keep(&self.opts, next, answerer).await,
            // The job has ended and its return is still in the spool: the master must
            // not conclude that the job is lost.
            Request::FindJob(asked) if upstream.has_return(&asked.jid) => answerer.done(true).await,
            request => match self.own.answer(&request).await {
                Some(answer) => answerer.done(answer).await,
                None => {
                    answerer
                        .fail("refused", "a minion does not answer requests of this kind")
                        .await
                }
            },
        };
        if let Err(error) = answered {
            log::debug(format_args!("{error}"));
        }
    }

    /// Accepts a job from the master. The error is a reason code and a sentence.
    fn take(&self, upstream: &Arc<Upstream>, job: Job) -> Result<(), (&'static str, String)> {
        if !jid::is_jid(&job.jid) {
            return Err(("invalid", format!("invalid job id {:?}", job.jid)));
        }
        let most = self.opts.int("process_count_max");
        let most = most.and_then(|most| usize::try_from(most).ok());
        let most = most.filter(|most| *most > 0).unwrap_or(JOBS_MAX);
        let jobs = &self.own.jobs;
        if jobs.len() >= most {
            let text = format!("{most} jobs are already running (process_count_max)");
            return Err(("busy", text));
        }
        let jid = job.jid.clone();
        if !jobs.is_new(&jid) {
            return Ok(());
        }
        let return_to = ReturnTo::Master(upstream.clone());
        let mut job = self.with_returners(job);
        self.blackout.mark(&mut job);
        let started = self.launcher.start(job, return_to);
        started.map(drop).map_err(|error| {
            jobs.is_not_begun(&jid);
            ("failed", format!("cannot start the job: {error}"))
        })
    }

    /// Returns a master's job with the returners of this minion's configuration (`return`) added to
    /// its own.
    fn with_returners(&self, mut job: Job) -> Job {
        if let Some(own) = self.opts.text("return").filter(|own| !own.is_empty()) {
            let both = [std::mem::take(&mut job.ret), own.to_owned()];
            let both = both.into_iter().filter(|names| !names.is_empty());
            job.ret = both.collect::<Vec<_>>().join(",");
        }
        job
    }
}

/// Returns `ping_interval`, which is in minutes; `None` if there are no pings.
fn ping_interval(opts: &Opts) -> Option<Duration> {
    let minutes = opts.get("ping_interval").and_then(Value::as_float)?;
    (minutes > 0.0).then(|| seconds(minutes * 60.0)).flatten()
}

/// Sends the master an event at each interval, until the connection ends.
async fn ping(upstream: &Upstream, every: Option<Duration>) {
    let Some(every) = every else {
        // No deadline: without the option there are no pings.
        return pending().await;
    };
    loop {
        pause(every).await;
        let data = Map::new().with("pretag", Value::Null).with("data", "ping");
        upstream.keep(event("minion_ping", data)).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pings_come_at_an_interval_of_minutes_if_there_is_one() {
        let every =
            |minutes: i64| ping_interval(&Opts::new(Map::new().with("ping_interval", minutes)));
        assert_eq!(every(2), Some(Duration::from_secs(120)));
        assert_eq!((every(0), every(-1)), (None, None));
        assert_eq!(ping_interval(&Opts::new(Map::new())), None);
    }
}
