//! [`Session`]: connects to a Salt master, and computes how long to wait before the next try.

use std::sync::Arc;
use std::time::Duration;

use link::wait::unblock;
use link::{Backoff, Master, WAIT_MAX, Waits, lot};
use saltlink::{Identity, Joined, Kind, Settings};
use state::opts::Opts;

use super::super::settings::waits;
use super::facts::Facts;
use super::{Link, settings};
use crate::error::Error;
use crate::jobs::Jobs;

/// A Salt master, across losses of the connection with it.
#[derive(Debug)]
pub(in crate::uplink) struct Session {
    settings: Settings,
    identity: Option<Identity>,
    facts: Arc<Facts>,
    jobs: Arc<Jobs>,
    /// False for a command, which accepts no jobs.
    serves: bool,
    waits: Waits,
    backoff: Backoff,
    /// `rejected_retry`: true to try again after the master has rejected this minion's key.
    rejected_retry: bool,
    was_connected: bool,
}

/// The result of one try.
pub(in crate::uplink) enum Outcome {
    /// The master has accepted this minion.
    Connected(Link),
    /// The master has not accepted this minion's key: a sentence, and the wait before the next try.
    Pending(String, Duration),
    /// The try failed: a sentence, and the wait before the next one; `None` if another try makes no
    /// sense.
    Failed(String, Option<Duration>),
}

impl Session {
    /// Creates a session that has tried nothing yet.
    pub(in crate::uplink) fn new(
        opts: &Opts,
        master: &Master,
        jobs: Arc<Jobs>,
        serves: bool,
    ) -> Result<Self, Error> {
        let mut settings = settings::settings(opts, master)?;
        settings.publications = serves;
        Ok(Self {
            settings,
            identity: None,
            facts: Arc::default(),
            jobs,
            serves,
            waits: waits(opts),
            backoff: Backoff::default(),
            rejected_retry: opts.flag("rejected_retry"),
            was_connected: false,
        })
    }

    /// Returns how long the first try after a lost connection waits: a random time, so that a fleet
    /// does not come at once.
    pub(in crate::uplink) fn delay(&mut self) -> Duration {
        if !std::mem::take(&mut self.was_connected) {
            return Duration::ZERO;
        }
        let longest = self.waits.random_reauth_delay.min(WAIT_MAX);
        longest.mul_f64(f64::from(lot()) / f64::from(u32::MAX))
    }

    /// Tries to connect once.
    pub(in crate::uplink) async fn attempt(&mut self) -> Outcome {
        let joined = match self.identity().await {
            Ok(identity) => saltlink::join(&self.settings, &identity).await,
            Err(error) => Err(error),
        };
        match joined {
            Ok(Joined::Accepted(session)) => {
                self.backoff.reset();
                self.was_connected = true;
                Outcome::Connected(self.link(session))
            }
            Ok(Joined::Pending) => {
                let wait = self.backoff.refused(&self.waits, None, lot());
                let text = format!(
                    "the Salt master {} has not accepted this minion's key yet (there: salt-key -a {})",
                    self.settings.host, self.settings.id
                );
                Outcome::Pending(text, wait)
            }
            Ok(Joined::Rejected) => self.rejected(),
            Ok(Joined::Full) => {
                let wait = self.backoff.refused(&self.waits, None, lot());
                let host = &self.settings.host;
                let text =
                    format!("the Salt master {host} has as many minions as max_minions allows");
                Outcome::Failed(text, Some(wait))
            }
            Err(error) => {
                let wait = match error.kind() {
                    Kind::Lost => self.backoff.lost(&self.waits, lot()),
                    _ => self.backoff.refused(&self.waits, None, lot()),
                };
                Outcome::Failed(error.to_string(), Some(wait))
            }
        }
    }

    fn rejected(&mut self) -> Outcome {
        let (host, id) = (&self.settings.host, &self.settings.id);
        let wait = self
            .rejected_retry
            .then(|| self.backoff.refused(&self.waits, None, lot()));
        let next = match wait {
            Some(_) => "trying again (rejected_retry)",
            None => "restart this minion after that, or set rejected_retry: True",
        };
        let text = format!(
            "the Salt master {host} has rejected this minion's key: delete it there (salt-key -d {id}) and accept the new request; {next}"
        );
        Outcome::Failed(text, wait)
    }

    /// Returns the minion's key. Creating one takes seconds on a small machine.
    async fn identity(&mut self) -> Result<Identity, saltlink::Error> {
        if let Some(identity) = &self.identity {
            return Ok(identity.clone());
        }
        let settings = self.settings.clone();
        let identity = unblock(move || Identity::load(&settings)).await?;
        self.identity = Some(identity.clone());
        Ok(identity)
    }

    fn link(&self, session: saltlink::Session) -> Link {
        let (facts, jobs) = (self.facts.clone(), self.jobs.clone());
        Link::new(&self.settings.id, session, facts, jobs, self.serves)
    }
}
