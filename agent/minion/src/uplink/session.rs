//! [`Session`]: finds a master and connects to it, again after every loss.

use std::sync::Arc;
use std::time::Duration;

use link::wait::pause;
use link::{Master, PublicKey, Status};
use smol::channel::{Sender, bounded};
use smol::future::{FutureExt, pending};
use state::opts::Opts;
use value::{channel, log};
use wire::{Masters, Welcome};

use super::cluster::Cluster;
use super::connection::Link;
#[cfg(feature = "salt-master")]
use super::part::{MaybeSalt, Salt};
use super::part::{News, Part, Pinch, Tell, Tried};
use super::protocol::{Protocol, Protocols};
#[cfg(feature = "salt-master")]
use super::salt;
use super::settings::{self, Failover};
use super::{Upstream, enroll};
use crate::error::Error;
use crate::jobs::Jobs;

/// The time that a command waits for the master, unless `auth_timeout` is configured.
const PATIENCE: Duration = Duration::from_secs(60);

/// The interval of checks whether a connection should end, unless the configuration has one.
const LOOKS: Duration = Duration::from_secs(300);

/// A minion's connection to its masters, across losses.
#[derive(Debug)]
pub(crate) struct Session {
    /// The masters, in the order in which they are tried. There are several parts only if masters of
    /// both kinds take turns (`master_type: failover`).
    parts: Vec<Part>,
    /// The position of the part that is tried first, which is that of the last connection.
    at: usize,
    failover: Failover,
    protocols: Arc<Protocols>,
}

/// The settings of a session.
pub(super) struct Setup<'a> {
    pub(super) opts: &'a Opts,
    /// The epoch of the spool.
    pub(super) epoch: u64,
    /// The version of the program.
    pub(super) program: &'a str,
    #[cfg_attr(
        not(feature = "salt-master"),
        expect(dead_code, reason = "only a Salt master needs to know the jobs")
    )]
    pub(super) jobs: Arc<Jobs>,
    pub(super) protocols: Arc<Protocols>,
    /// False for a command, which accepts no jobs.
    pub(super) serves: bool,
}

impl Setup<'_> {
    /// Returns the part of these masters in Pinch's protocol. Those of `maybe_salts` may turn out to
    /// speak Salt's.
    fn pinch(&self, masters: Vec<Master>, maybe_salts: &[Master]) -> Result<Part, Error> {
        let options = settings::session(self.opts, masters.clone(), self.epoch, self.program)?;
        let evidence = enroll::evidence(self.opts, &options.pair.public())?;
        let mut session = link::Session::new(options);
        session.show(evidence);
        if !self.serves {
            let features = &mut session.hello_mut().features;
            features.push(wire::CALL.to_owned());
        }
        Ok(Part::Pinch(Box::new(Pinch {
            session,
            masters,
            maybe_salts: self.maybe_salts(maybe_salts),
        })))
    }

    /// Returns the sessions in Salt's protocol. Options that Salt's protocol does not support, such as
    /// several fingerprints, exclude it.
    #[cfg(feature = "salt-master")]
    fn maybe_salts(&self, masters: &[Master]) -> Vec<MaybeSalt> {
        let session = |master| match self.salt_of(master) {
            Ok(session) => Some(session),
            Err(error) => {
                log::debug(format_args!(
                    "The master {master} is not tried in Salt's protocol: {error}"
                ));
                None
            }
        };
        masters.iter().filter_map(session).collect()
    }

    #[cfg(feature = "salt-master")]
    fn salt_of(&self, master: &Master) -> Result<Salt, Error> {
        let jobs = self.jobs.clone();
        Ok(Salt {
            session: salt::Session::new(self.opts, master, jobs, self.serves)?,
            master: master.clone(),
        })
    }

    /// Returns the part of a master in Salt's protocol.
    #[cfg(feature = "salt-master")]
    fn salt(&self, master: &Master) -> Result<Part, Error> {
        Ok(Part::Salt(Box::new(self.salt_of(master)?)))
    }

    #[cfg(not(feature = "salt-master"))]
    #[expect(clippy::unused_self, reason = "the other build reads options here")]
    fn maybe_salts(&self, _: &[Master]) -> Vec<super::part::MaybeSalt> {
        Vec::new()
    }

    #[cfg(not(feature = "salt-master"))]
    fn salt(&self, master: &Master) -> Result<Part, Error> {
        Err(settings::wrong(
            "master_protocol",
            format!(
                "this program was built without the feature salt-master, so it cannot speak with the Salt master {master}"
            ),
        ))
    }

    /// Returns the masters in parts: one part of all masters if none is known to be Salt's, otherwise
    /// one for each.
    fn parts(&self, masters: Vec<Master>) -> Result<Vec<Part>, Error> {
        let mut chosen = Vec::new();
        for master in &masters {
            chosen.push(self.protocols.choose(master)?);
        }
        let with = masters.iter().zip(&chosen);
        let open = with.clone().filter(|(_, protocol)| protocol.is_none());
        let open: Vec<Master> = open.map(|(master, _)| master.clone()).collect();
        if !chosen.contains(&Some(Protocol::Salt)) {
            return Ok(vec![self.pinch(masters, &open)?]);
        }
        let part = |(master, protocol): (&Master, &Option<Protocol>)| match protocol {
            Some(Protocol::Salt) => self.salt(master),
            Some(Protocol::Pinch) => self.pinch(vec![master.clone()], &[]),
            None => self.pinch(vec![master.clone()], std::slice::from_ref(master)),
        };
        with.map(part).collect()
    }
}

impl Session {
    /// Creates a session that has tried nothing yet.
    pub(super) fn new(setup: &Setup<'_>, masters: Vec<Master>) -> Result<Self, Error> {
        let mut parts = setup.parts(masters)?;
        let opts = setup.opts;
        if opts.flag("random_master") || opts.flag("master_shuffle") {
            shuffle(&mut parts);
        }
        Ok(Self {
            parts,
            at: 0,
            failover: Failover::from_opts(opts),
            protocols: setup.protocols.clone(),
        })
    }

    /// Creates the session of a command, for a machine where no daemon runs.
    fn of_command(opts: &Opts) -> Result<Self, Error> {
        let setup = Setup {
            opts,
            epoch: 0,
            program: env!("CARGO_PKG_VERSION"),
            jobs: Arc::default(),
            protocols: Arc::new(Protocols::open(opts)?),
            serves: false,
        };
        let mut session = Self::new(&setup, settings::masters(opts)?)?;
        let list = Cluster::open(opts, Vec::new()).any_list();
        for part in &mut session.parts {
            if let Some(pinch) = part.pinch() {
                pinch.know(list.clone());
            }
        }
        Ok(session)
    }

    /// Returns the session of Pinch's protocol, if the masters have no other.
    fn only_pinch(&mut self) -> Option<&mut link::Session> {
        match self.parts.as_mut_slice() {
            [part] => part.pinch(),
            _ => None,
        }
    }

    /// Passes the masters of the cluster to the session of Pinch's protocol.
    fn know(&mut self, upstream: &Upstream) {
        if let Some(pinch) = self.only_pinch() {
            pinch.know(upstream.list());
        }
    }

    /// Tries until a master accepts this minion, for as long as it takes. The upstream receives the
    /// reason why a try has failed or the key is pending.
    pub(crate) async fn connect(&mut self, upstream: &Upstream) -> (Link, Welcome) {
        self.know(upstream);
        let mut tell = |news: News<'_>| {
            match &news {
                News::Pinch(Status::Failed(error)) => upstream.failed(error.to_string()),
                News::Pinch(Status::Pending(who, reason)) => {
                    upstream.failed(format!("{who}: {reason}"));
                }
                #[cfg(feature = "salt-master")]
                News::Pending(text) | News::Failed(text) => upstream.failed((*text).to_owned()),
                _ => {}
            }
            log_news(news);
        };
        self.connect_telling(&mut tell).await
    }

    async fn connect_telling(&mut self, tell: Tell<'_>) -> (Link, Welcome) {
        let (mut first, mut waits) = (self.at, Vec::new());
        loop {
            let is_only = self.parts.len() == 1;
            // There is always a part at this position.
            let Some(part) = self.parts.get_mut(self.at) else {
                return pending().await;
            };
            match part.attempt(&self.protocols, is_only, tell).await {
                Tried::Connected(connected) => {
                    self.split_off_salt();
                    return *connected;
                }
                Tried::Failed(wait) => waits.push(wait),
            }
            if self.split_off_salt() {
                first = self.at;
                waits.truncate(1);
            } else {
                self.at = (self.at + 1) % self.parts.len();
            }
            if self.at != first {
                continue;
            }
            let wait = std::mem::take(&mut waits).into_iter().flatten().min();
            tell(News::Waiting(wait));
            match wait {
                Some(wait) => pause(wait).await,
                // No deadline: no master of this session will accept this minion.
                None => return pending().await,
            }
        }
    }

    /// Gives a master that turned out to be Salt's a separate part, and makes it the current one. If it
    /// was the only master, its part replaces the other one. Returns true if there is such a master.
    #[cfg(feature = "salt-master")]
    fn split_off_salt(&mut self) -> bool {
        let Some(part) = self.parts.get_mut(self.at) else {
            return false;
        };
        let Some(salt) = part.take_salt(&self.protocols) else {
            return false;
        };
        let is_rest = matches!(part, Part::Pinch(pinch) if pinch.masters.len() > 1);
        match is_rest {
            true => {
                self.at += 1;
                self.parts.insert(self.at, Part::Salt(salt));
            }
            false => *part = Part::Salt(salt),
        }
        true
    }

    #[cfg(not(feature = "salt-master"))]
    fn split_off_salt(&mut self) -> bool {
        false
    }

    /// Makes the next round begin with another master.
    fn skip_master(&mut self) {
        match self.only_pinch() {
            Some(pinch) => pinch.skip_master(),
            None => self.at = (self.at + 1) % self.parts.len().max(1),
        }
    }

    fn has_others(&mut self) -> bool {
        self.only_pinch().is_some_and(|pinch| pinch.has_others())
    }

    fn is_with_first(&mut self) -> bool {
        let at = self.at;
        self.only_pinch()
            .map_or(at == 0, |pinch| pinch.is_with_first())
    }

    fn begin_with_first(&mut self) {
        self.at = 0;
        if let Some(pinch) = self.only_pinch() {
            pinch.begin_with_first();
        }
    }

    async fn first_answers(&mut self) -> bool {
        match self.parts.first_mut() {
            Some(part) => part.first_answers().await,
            None => false,
        }
    }

    /// Records that the connection was lost, and whether it was of no use. In a cluster or with
    /// `master_alive_interval`, that master is tried last.
    pub(crate) fn lost(&mut self, upstream: &Upstream, was_useless: bool) {
        self.know(upstream);
        if self.failover.leaves || self.has_others() {
            self.skip_master();
        }
        if was_useless && let Some(pinch) = self.only_pinch() {
            pinch.was_useless();
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
            let is_with_first = self.is_with_first();
            let failback = self.failover.failback.filter(|_| !is_with_first);
            pause(failback.unwrap_or(LOOKS)).await;
            self.know(upstream);
            if upstream.is_over() {
                return "another connection serves this minion";
            }
            if !is_idle() {
                continue;
            }
            if upstream.minority().is_stay() {
                upstream.minority().forget();
                self.skip_master();
                return "another master may have a majority";
            }
            let goes_back = failback.is_some() || self.has_others();
            if goes_back && !self.is_with_first() && self.first_answers().await {
                self.begin_with_first();
                return "its first master is available again";
            }
        }
    }
}

/// Puts the parts into a random order.
fn shuffle(parts: &mut [Part]) {
    for place in (1..parts.len()).rev() {
        let other = usize::try_from(value::random::jitter(place as u64 + 1)).unwrap_or(0);
        parts.swap(place, other.min(place));
    }
}

/// Logs the status of a session.
fn log_news(news: News<'_>) {
    match news {
        News::Pinch(status) => tell(status),
        #[cfg(feature = "salt-master")]
        News::Pending(text) => log::warning(text),
        #[cfg(feature = "salt-master")]
        News::Failed(text) => log::error(text),
        News::Waiting(Some(wait)) => log::info(format_args!("Retrying in {wait:.1?}")),
        News::Waiting(None) => log::error("not trying this master again"),
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
    let mut tell = |news: News<'_>| handle_news(&news, &mut last, &sender);
    let connect = async { Ok(session.connect_telling(&mut tell).await.0) };
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

/// Handles the news of a command's session: what ends the attempt goes to `given_up`.
fn handle_news(news: &News<'_>, last: &mut Option<String>, given_up: &Sender<String>) {
    let not_accepted = |reason: &str| {
        let text = format!(
            "Minion failed to authenticate with the master, has the minion key been accepted? ({reason})"
        );
        channel::if_open(given_up.try_send(text));
    };
    match news {
        News::Pinch(Status::Pending(_, reason)) => not_accepted(reason),
        News::Pinch(Status::Remembered(who)) => log::warning(format_args!(
            "trusting the key of a master that is seen for the first time: {who}"
        )),
        News::Pinch(status @ (Status::Succeeded(_) | Status::OldFinger(_))) => tell_key(status),
        News::Pinch(Status::Failed(error)) => *last = Some(error.to_string()),
        News::Pinch(Status::Waiting(_)) | News::Waiting(_) => {
            channel::if_open(given_up.try_send(last.take().unwrap_or_default()));
        }
        News::Pinch(Status::Trying(..)) => {}
        #[cfg(feature = "salt-master")]
        News::Pending(text) => not_accepted(text),
        #[cfg(feature = "salt-master")]
        News::Failed(text) => *last = Some((*text).to_owned()),
    }
}
