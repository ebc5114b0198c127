//! `cluster.sync_roots`: a master sends its `file_roots` and `pillar_roots` to the others.
//!
//! The sender reads the files that its file server shows ([`manifest`]). It sends each other master
//! their paths, sizes, modes and hashes in parts; the receiver answers which ones it needs, and gets
//! these in pieces ([`sender`], [`message`]). The receiver believes nothing of it: it writes plain
//! paths below its own roots, without following links ([`receiver`], [`place`]).
//!
//! A master that joins without any file gets them once from the leader.

mod manifest;
mod message;
mod place;
mod receiver;
mod removal;
mod sender;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use link::PublicKey;
use link::wait::{pause, unblock};
use smol::lock::Mutex;
use state::opts::Opts;
use value::{Value, log};

pub(crate) use message::Channel;
pub(super) use message::Message;

use super::requests::Ask;
use super::{ASK_MAX, Cluster};
use manifest::{Manifest, has_no_files};
use receiver::Receiving;

/// The maximum size of a file, and of all files of a sync, in bytes.
const FILE_MAX: u64 = 1 << 30;
const TOTAL_MAX: u64 = 8 << 30;
/// The maximum number of files of a sync, and of those in one request.
const FILES_MAX: usize = 1_000_000;
const ENTRIES_MAX: usize = 1000;
/// The maximum size of a piece of a file in bytes.
const PIECE_MAX: usize = 1 << 20;
/// The maximum length of a path, and of each name in it, in bytes.
const PATH_MAX: usize = 1024;
const NAME_MAX: usize = 255;
/// The maximum number of names in a path: 64 folders, as in the file server, and the file.
const DEPTH_MAX: usize = 65;
/// The maximum size of all paths of a sync that removes files, in bytes.
const PATHS_MAX: usize = 64 << 20;
/// The maximum number of problems that an answer names, and of characters of each.
const PROBLEMS_SHOWN: usize = 20;
const SENTENCE_MAX: usize = 500;
/// The environment for all names that the configuration does not have.
const DYNAMIC: &str = "__env__";

/// The maximum time for the answer to a request of a sync: the receiver reads up to 1 GiB for it.
const ANSWER_MAX: Duration = Duration::from_secs(300);
/// The maximum time for a sync with one master.
const SYNC_MAX: Duration = Duration::from_secs(4 * 3600);
/// The time without a request after which a sync has ended.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// The pause between two requests of a joined master for the leader's roots, and their number.
const FETCH_AGAIN: Duration = Duration::from_secs(5);
const FETCHES_MAX: usize = 60;

/// The refusal of a second sync.
const SENDING: &str = "this master sends its roots already: try again when it has ended";

/// The syncs of a master.
pub(super) struct Roots {
    opts: Arc<Opts>,
    /// Locked while this master sends its roots.
    sending: Arc<Mutex<()>>,
    /// The number of the next sync.
    next: AtomicU64,
    /// The roots that another master sends.
    receiving: Arc<Mutex<Option<Receiving>>>,
    /// True once this master has received roots up to the end.
    has_received: Arc<AtomicBool>,
}

impl Roots {
    /// Creates the syncs of the start of a master that has this number.
    pub(super) fn new(opts: &Opts, boot: u64) -> Self {
        Self {
            opts: Arc::new(opts.clone()),
            sending: Arc::default(),
            // Numbers of an earlier start are not used again.
            next: AtomicU64::new((boot & 0x7fff_ffff) << 32),
            receiving: Arc::default(),
            has_received: Arc::default(),
        }
    }

    /// Returns whether another master sends its roots at present.
    fn is_receiving(&self) -> bool {
        let receiving = self.receiving.try_lock();
        receiving.is_none_or(|receiving| receiving.is_some())
    }
}

impl Cluster {
    fn next_sync(&self) -> u64 {
        self.0.roots.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes a request of another master about roots.
    pub(super) async fn take_roots(
        &self,
        key: &PublicKey,
        message: Message,
    ) -> Result<Value, String> {
        let of = self.number_of(key)?;
        match message {
            Message::Fetch => self.give_roots(of),
            Message::Begin {
                sync,
                channels,
                deletes,
            } => self.begin_roots((of, sync), &channels, deletes),
            Message::Manifest { sync, .. }
            | Message::Piece { sync, .. }
            | Message::End { sync, .. } => self.continue_roots((of, sync), message).await,
        }
    }

    /// Begins to receive the roots of another master.
    fn begin_roots(
        &self,
        id: (u64, u64),
        channels: &[Channel],
        deletes: bool,
    ) -> Result<Value, String> {
        let roots = &self.0.roots;
        let mut receiving = roots.receiving.try_lock().ok_or(RECEIVING)?;
        if let Some(other) = receiving.as_ref()
            && !other.is_of(id.0)
            && other.at.elapsed() < SILENCE_MAX
        {
            let from = &other.from;
            return Err(format!("it receives the roots of {from}: try again later"));
        }
        let from = self.name(id.0);
        *receiving = Some(Receiving::new(&roots.opts, id, from, channels, deletes));
        smol::spawn(self.clone().forget_roots(id)).detach();
        Ok(true.into())
    }

    /// Continues to receive the roots of another master.
    async fn continue_roots(&self, id: (u64, u64), message: Message) -> Result<Value, String> {
        let receiving = self.0.roots.receiving.try_lock_arc();
        let mut receiving = receiving.ok_or(RECEIVING)?;
        let has_received = self.0.roots.has_received.clone();
        unblock(move || {
            let current = receiving.as_mut().filter(|current| current.is(id));
            let current = current.ok_or("it does not receive this sync any more")?;
            let is_end = matches!(message, Message::End { .. });
            let answer = current.take(message);
            if is_end || answer.is_err() {
                *receiving = None;
            }
            if is_end {
                has_received.store(true, Ordering::Relaxed);
            }
            answer
        })
        .await
    }

    /// Ends a sync whose sender is silent.
    async fn forget_roots(self, id: (u64, u64)) {
        loop {
            pause(SILENCE_MAX).await;
            let Some(mut receiving) = self.0.roots.receiving.try_lock() else {
                continue;
            };
            match receiving.as_ref().filter(|current| current.is(id)) {
                None => return,
                Some(current) if current.at.elapsed() >= SILENCE_MAX => {
                    let from = &current.from;
                    log::warning(format_args!(
                        "the sync of the roots of {from} has ended before all was received"
                    ));
                    *receiving = None;
                    return;
                }
                Some(_) => {}
            }
        }
    }

    /// Begins to send the roots of this master to one that has joined without files.
    fn give_roots(&self, to: u64) -> Result<Value, String> {
        let sending = self.0.roots.sending.try_lock_arc().ok_or(SENDING)?;
        let cluster = self.clone();
        let give = async move {
            let opts = cluster.0.roots.opts.clone();
            let read = move || Manifest::read(&opts, &Channel::ALL, false);
            let sent = match unblock(read).await {
                Ok(manifest) => cluster.send_roots(to, &manifest, false).await,
                Err(why) => Err(why),
            };
            drop(sending);
            let problem = match sent {
                Ok(sent) => sent.problems(),
                Err(why) => Some(why),
            };
            let name = cluster.name(to);
            match problem {
                None => log::info(format_args!("The master {name} has the roots of this one")),
                Some(why) => log::warning(format_args!("cannot send the roots to {name}: {why}")),
            }
        };
        smol::spawn(give).detach();
        Ok(true.into())
    }

    /// Makes the leader send its roots to this master, which has joined, if it has no file. Asks again
    /// until they have arrived.
    pub(super) async fn fetch_roots(self) {
        let opts = self.0.roots.opts.clone();
        match unblock(move || has_no_files(&opts)).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(why) => return log::warning(format_args!("cannot read the roots: {why}")),
        }
        let (mut last, mut asked) = (String::new(), 0);
        while asked < FETCHES_MAX {
            // A leader that sends its roots at present refuses.
            if let Err(why) = self.ask_for_roots().await {
                last = format!(": {why}");
            }
            pause(FETCH_AGAIN).await;
            if self.0.roots.has_received.load(Ordering::Relaxed) {
                return;
            }
            asked += usize::from(!self.0.roots.is_receiving());
        }
        log::warning(format_args!(
            "cannot get the roots of the leader{last}. Run `salt-run cluster.sync_roots` on a master that has files"
        ));
    }

    /// Makes the leader begin to send its roots to this master.
    async fn ask_for_roots(&self) -> Result<(), String> {
        let status = self.status();
        let leader = status.leader.filter(|leader| *leader != status.node);
        let leader = leader.ok_or("no other master leads")?;
        let name = self.name(leader);
        let asked = self.ask(leader, &Ask::Roots(Message::Fetch), ASK_MAX).await;
        asked.map_err(|why| format!("{name}: {why}"))?;
        log::info(format_args!(
            "The roots of this master have no files: {name} sends its own"
        ));
        Ok(())
    }
}

/// The refusal of two requests of syncs at a time.
const RECEIVING: &str = "it works on another request of a sync: try again later";
