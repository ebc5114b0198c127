//! [`Session`]: finds a master and connects to it, again after every loss.

use std::time::Duration;

use link::wait::pause;
use link::{Master, Status};
use smol::channel::{Sender, bounded};
use smol::future::FutureExt;
use state::opts::Opts;
use value::{channel, log};
use wire::Welcome;

use super::connection::Link;
use super::enroll;
use super::settings::{self, Failover};
use crate::error::Error;

/// The time that a command waits for the master, unless `auth_timeout` is configured.
const PATIENCE: Duration = Duration::from_secs(60);

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
        session.quic.hello_mut().features = vec![wire::CALL.to_owned()];
        Ok(session)
    }

    /// Tries until a master accepts this minion, for as long as it takes. `problem` receives the
    /// reason why a try has failed or the key is pending.
    pub(crate) async fn connect(
        &mut self,
        mut problem: impl FnMut(String) + Send,
    ) -> (Link, Welcome) {
        let mut tell = |status: Status<'_>| {
            match &status {
                Status::Failed(error) => problem(error.to_string()),
                Status::Pending(who, reason) => problem(format!("{who}: {reason}")),
                _ => {}
            }
            tell(status);
        };
        let (link, welcome) = self.quic.connect(&mut tell).await;
        (Link(link), welcome)
    }

    /// Records that the connection was lost. With `master_alive_interval`, that master is tried last.
    pub(crate) fn lost(&mut self) {
        if self.failover.leaves {
            self.quic.skip_master();
        }
    }

    /// Waits until the minion can go back to its first master. Waits for ever if that is not
    /// configured, or if the first master is the connected one.
    pub(crate) async fn first_is_back(&mut self) {
        let is_with_first = self.quic.is_with_first();
        let Some(interval) = self.failover.failback.filter(|_| !is_with_first) else {
            return smol::future::pending().await;
        };
        loop {
            pause(interval).await;
            if self.quic.first_answers().await {
                return self.quic.begin_with_first();
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
