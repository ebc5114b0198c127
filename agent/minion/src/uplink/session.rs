//! [`Session`]: finds a master and connects to it, again after every loss.

use std::time::Duration;

use link::wait::pause;
use link::{Master, PublicKey, Status};
use smol::channel::{Sender, bounded};
use smol::future::FutureExt;
use state::opts::Opts;
use value::{channel, log};
use wire::{Masters, Welcome};

use super::cluster::Cluster;
use super::connection::Link;
use super::settings::{self, Failover};
use super::{Upstream, enroll};
use crate::error::Error;

/// The time that a command waits for the master, unless `auth_timeout` is configured.
const PATIENCE: Duration = Duration::from_secs(60);

/// The interval of checks whether a connection should end, unless the configuration has one.
const LOOKS: Duration = Duration::from_secs(300);

/// A minion's connection to its masters, across losses.
#[derive(Debug)]
pub(crate) struct Session {
    quic: link::Session,
    failover: Failover,
}

impl Session {
    /// Creates a session that has tried nothing yet. `epoch` is that of the spool, and `program` the
    /// version of this program.
    pub(crate) fn new(
        opts: &Opts,
        masters: Vec<Master>,
        epoch: u64,
        program: &str,
    ) -> Result<Self, Error> {
        let options = settings::session(opts, masters, epoch, program)?;
        let evidence = enroll::evidence(opts, &options.pair.public())?;
        let mut quic = link::Session::new(options);
        quic.show(evidence);
        let failover = Failover::from_opts(opts);
        Ok(Self { quic, failover })
    }

    /// Creates the session of a command, for a machine where no daemon runs.
    fn of_command(opts: &Opts) -> Result<Self, Error> {
        let program = env!("CARGO_PKG_VERSION");
        let mut session = Self::new(opts, settings::masters(opts)?, 0, program)?;
        session
            .quic
            .hello_mut()
            .features
            .push(wire::CALL.to_owned());
        session
            .quic
            .know(Cluster::open(opts, Vec::new()).any_list());
        Ok(session)
    }

    /// Tries until a master accepts this minion, for as long as it takes. The upstream receives the
    /// reason why a try has failed or the key is pending.
    pub(crate) async fn connect(&mut self, upstream: &Upstream) -> (Link, Welcome) {
        self.quic.know(upstream.list());
        let mut tell = |status: Status<'_>| {
            match &status {
                Status::Failed(error) => upstream.failed(error.to_string()),
                Status::Pending(who, reason) => upstream.failed(format!("{who}: {reason}")),
                _ => {}
            }
            tell(status);
        };
        let (link, welcome) = self.quic.connect(&mut tell).await;
        (Link(link), welcome)
    }

    /// Records that the connection was lost, and whether it was of no use. In a cluster or with
    /// `master_alive_interval`, that master is tried last.
    pub(crate) fn lost(&mut self, upstream: &Upstream, was_useless: bool) {
        self.quic.know(upstream.list());
        if self.failover.leaves || self.quic.has_others() {
            self.quic.skip_master();
        }
        if was_useless {
            self.quic.was_useless();
        }
    }

    /// Waits until the minion is better without this connection, and returns the reason: its first
    /// master is back, another one may have a majority, or another connection serves the minion. Only
    /// the last one interrupts jobs.
    pub(crate) async fn is_to_end(
        &mut self,
        upstream: &Upstream,
        is_idle: impl Fn() -> bool,
    ) -> &'static str {
        loop {
            let failback = self
                .failover
                .failback
                .filter(|_| !self.quic.is_with_first());
            pause(failback.unwrap_or(LOOKS)).await;
            self.quic.know(upstream.list());
            if upstream.is_over() {
                return "another connection serves this minion";
            }
            if !is_idle() {
                continue;
            }
            if upstream.minority().is_stay() {
                upstream.minority().forget();
                self.quic.skip_master();
                return "another master may have a majority";
            }
            let goes_back = failback.is_some() || self.quic.has_others();
            if goes_back && !self.quic.is_with_first() && self.quic.first_answers().await {
                self.quic.begin_with_first();
                return "its first master is available again";
            }
        }
    }
}

/// Logs the status of a session.
fn tell(status: Status<'_>) {
    match status {
        Status::Trying(master, address) => {
            log::debug(format_args!(
                "Connecting to the master {master} at {address}"
            ));
        }
        Status::Remembered(who) => log::warning(format_args!(
            "trusting the key of a master that is seen for the first time: {who}"
        )),
        Status::Succeeded(_) | Status::OldFinger(_) => tell_key(&status),
        Status::Pending(who, reason) => log::warning(format_args!(
            "the master {who} has not accepted this minion's key yet: {reason}"
        )),
        Status::Failed(error) => log::error(format_args!("{error}")),
        Status::Waiting(wait) => log::info(format_args!("Retrying in {wait:.1?}")),
    }
}

/// Logs that the master's key was replaced.
fn tell_key(status: &Status<'_>) {
    match status {
        Status::Succeeded(who) => log::warning(format_args!(
            "the master has the key that it had announced: trusting {who} from now on"
        )),
        Status::OldFinger(who) => log::warning(format_args!(
            "master_finger has the fingerprint of an old key: the master is {who}"
        )),
        _ => {}
    }
}

/// Stores the masters of a cluster, which a master has sent to a command. Waits for the disk.
pub(crate) fn take_masters(opts: &Opts, master: Option<PublicKey>, masters: Masters) {
    if let Some(master) = master {
        Cluster::open(opts, Vec::new()).take(None, &master, masters);
    }
}

/// Connects a command to a master. Each master is tried once. A master that has not accepted this
/// minion's key is an error at once. The error is a sentence.
pub(crate) async fn connect_once(opts: &Opts) -> Result<Link, String> {
    let mut session = Session::of_command(opts).map_err(|error| error.to_string())?;
    // Salt's default of five seconds is the limit of one attempt among many, so it counts as not
    // configured.
    let patience = match opts.int("auth_timeout").map(u64::try_from) {
        None | Some(Err(_) | Ok(5)) => PATIENCE,
        Some(Ok(seconds)) => Duration::from_secs(seconds),
    };
    let (sender, given_up) = bounded(1);
    let mut last = None;
    let mut tell = |status: Status<'_>| handle_status(&status, &mut last, &sender);
    let connect = async { Ok(Link(session.quic.connect(&mut tell).await.0)) };
    let failure = async {
        // No deadline: this future races with `late`.
        let text = given_up.recv().await;
        Err(text.unwrap_or_default())
    };
    let late = async {
        pause(patience).await;
        Err(format!(
            "The master has not answered within {} s",
            patience.as_secs()
        ))
    };
    connect.or(failure).or(late).await
}

/// Handles the status of a command's session: what ends the attempt goes to `given_up`.
fn handle_status(status: &Status<'_>, last: &mut Option<String>, given_up: &Sender<String>) {
    match status {
        Status::Pending(_, reason) => {
            let text = format!(
                "Minion failed to authenticate with the master, has the minion key been accepted? ({reason})"
            );
            channel::if_open(given_up.try_send(text));
        }
        Status::Remembered(who) => log::warning(format_args!(
            "trusting the key of a master that is seen for the first time: {who}"
        )),
        Status::Succeeded(_) | Status::OldFinger(_) => tell_key(status),
        Status::Failed(error) => *last = Some(error.to_string()),
        Status::Waiting(_) => {
            channel::if_open(given_up.try_send(last.take().unwrap_or_default()));
        }
        Status::Trying(..) => {}
    }
}
