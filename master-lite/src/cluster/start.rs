//! The start of a master of a cluster: it continues in its cluster, joins one or founds one.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cluster::core::{LEVEL, Member};
use cluster::raft::log::Log;
use cluster::raft::medium::Disk;
use cluster::raft::pool::{GroupLink, address};
use cluster::raft::{Group, Smol, members_of};
use link::pool::{Answered, Exported, Pool, Request};
use link::wait::pause;
use link::{KeyPair, PublicKey};
use smol::future::FutureExt;
use state::opts::Opts;
use value::log;

use super::join::{self, Answer, End, Founding, Fresh, Join, Joined};
use super::node::{Folder, Node};
use super::requests::JOIN;
use super::settings::Credentials;
use super::{Cluster, Contact, Error, GROUP, Keys, LOOK, Settings, Shared};
use crate::jobs::minions::Minions;
use crate::store::replica::{Journal, Replica};
use crate::store::{Store, now_ms};

/// The pause between two attempts to join.
const AGAIN: Duration = Duration::from_secs(1);
/// The interval at which a master that waits says for what.
const SAY_EVERY: Duration = Duration::from_secs(10);
/// The maximum time for which a master that has caught up waits to hear of the others' minions.
const NOTES_MAX: Duration = Duration::from_millis(1500);
/// The number of the master that founds a cluster.
const FOUNDER: u64 = 1;

/// A master's way into its cluster.
struct Place {
    node: Node,
    /// The index up to which it has to catch up, and the keys of the members it knows.
    joined: Option<Joined>,
}

/// The decision of a master after it has asked all others.
enum Next {
    Found,
    Joined(Joined),
    Wait(String),
    Refused(String),
}

impl Cluster {
    /// Continues in a cluster, joins or founds it. Returns when the store has all that the cluster
    /// has.
    ///
    /// # Errors
    /// When the options, the store or the log cannot be used, or the cluster refuses this master.
    pub(crate) async fn start(
        settings: Settings,
        opts: &Opts,
        (store, store_folder): (&Store, &Path),
        pair: &KeyPair,
        minions: &Minions,
    ) -> Result<Self, Error> {
        let folder = Folder::open(&opts.cachedir())?;
        let keys = Keys::default();
        let of_pool = keys.clone();
        let is_member = Arc::new(move |key: &PublicKey| of_pool.has(key));
        let pool = Pool::bind(settings.address, pair, is_member);
        let pool = pool.map_err(|source| Error::Option {
            option: "cluster_pool_port",
            problem: format!("cannot listen on {} (UDP): {source}", settings.address),
        })?;
        let pool = Arc::new(pool);
        let place = place(
            (&settings, opts),
            &folder,
            (store, store_folder),
            (&pool, &keys),
        )
        .await?;
        if let Some(joined) = &place.joined {
            keys.set(joined.keys.iter().map(|key| *key.bytes()).collect());
        }
        let log = open_log(&folder, (store, store_folder))?;
        // The end of founding cuts the log.
        let founds = place.node.number == FOUNDER && log.removed_upto() == 0;
        let group = group(&settings, &place.node, log, store, &pool).await?;
        let contact = Arc::new(Contact::new(&settings));
        let of_journal = contact.clone();
        let journal = Journal {
            group: group.clone(),
            minority: Arc::new(move || of_journal.minority()),
        };
        let own = own(&settings, pair);
        let has_joined = place.joined.is_some();
        let (node, index) = (place.node, place.joined.map_or(0, |joined| joined.index));
        let cluster = Self(Arc::new(Shared {
            roots: super::Roots::new(opts, node.boot),
            warnings: super::Warnings::default(),
            has_joined,
            settings,
            node,
            group,
            pool,
            store: store.clone(),
            keys,
            minions: minions.clone(),
            pending: super::Pending::default(),
            changing: Arc::default(),
            others: super::Others::default(),
            clock: super::Clock::default(),
            options: super::agreement::Agreement::of(opts),
            contact,
            rings: super::rings::State::default(),
            running: super::runs::Running::default(),
            cachedir: opts.cachedir(),
        }));
        cluster.read_elsewhere();
        if founds {
            cluster.found(own.clone()).await?;
        }
        store.follow(journal);
        smol::spawn(cluster.clone().keep_own_row(own)).detach();
        cluster.ready(index).await?;
        Ok(cluster)
    }

    /// Founds the cluster with this master alone. Others can join afterwards.
    async fn found(&self, own: Member) -> Result<(), Error> {
        let founded = self.0.group.found_alone(own).await;
        founded.map_err(|error| Error::Log(error.to_string()))
    }

    /// Waits until this master is in contact with a majority, has caught up, and knows which minions
    /// are connected to the others.
    async fn ready(&self, index: u64) -> Result<(), Error> {
        let answering = self.clone().answer_all();
        let waiting = async {
            let (mut said, mut began) = (Instant::now(), None);
            loop {
                let status = self.status();
                if let Some(failure) = &status.failure {
                    return Err(Error::Log(failure.clone()));
                }
                self.look(&status);
                let Some(why) = self.minority() else {
                    let has_all =
                        status.applied >= index && status.members.contains_key(&status.node);
                    let began = *began.get_or_insert_with(Instant::now);
                    let knows_minions = self.0.others.alive().len() + 1 >= status.members.len();
                    if has_all && (knows_minions || began.elapsed() > NOTES_MAX) {
                        return Ok(());
                    }
                    pause(LOOK).await;
                    continue;
                };
                if said.elapsed() >= SAY_EVERY {
                    said = Instant::now();
                    log::warning(format_args!("Waiting for the cluster: {why}"));
                }
                pause(LOOK).await;
            }
        };
        let answering = async {
            answering.await;
            Err(Error::Log("the port of the cluster is closed".to_owned()))
        };
        waiting.or(answering).await
    }
}

fn own(settings: &Settings, pair: &KeyPair) -> Member {
    Member {
        name: settings.name.clone(),
        address: settings.address.to_string(),
        minions: settings.minions.to_string(),
        key: pair.public().bytes().to_vec(),
        level: LEVEL,
    }
}

/// Returns the place of this master: that of its last start with a higher boot, or a new one.
async fn place(
    (settings, opts): (&Settings, &Opts),
    folder: &Folder,
    (store, store_folder): (&Store, &Path),
    (pool, known): (&Pool, &Keys),
) -> Result<Place, Error> {
    let control = store.control()?;
    if let Some(members) = control.as_ref().and_then(members_of) {
        known.set(super::keys_of(&members));
    }
    let node = folder.read().map_err(|error| match error {
        Error::Io { path, source } if source.kind() == std::io::ErrorKind::InvalidData => {
            Error::Damaged {
                what: format!("{}: {source}", path.display()),
                store: store_folder.to_owned(),
                log: folder.path().to_owned(),
            }
        }
        error => error,
    })?;
    let place = match node {
        Some(node) if node.cluster != settings.cluster => {
            return Err(Error::State(format!(
                "this master belongs to the cluster {}, and `cluster_id` says {}: move {} and {} away to make it a new master",
                node.cluster,
                settings.cluster,
                folder.path().display(),
                store_folder.display()
            )));
        }
        Some(node) => Place {
            node: Node {
                boot: node.boot + 1,
                ..node
            },
            joined: None,
        },
        None if control.is_some() => {
            return Err(Error::LostLog {
                store: store_folder.to_owned(),
                log: folder.path().to_owned(),
            });
        }
        None => entered(settings, Credentials::read(opts, settings)?, store, pool).await?,
    };
    folder.write(&place.node)?;
    Ok(place)
}

/// Opens the log, if the store is the state that follows from it.
fn open_log(folder: &Folder, (store, store_folder): (&Store, &Path)) -> Result<Log<Disk>, Error> {
    let path = folder.log();
    let failed = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::InvalidData => Error::Damaged {
            what: error.to_string(),
            store: store_folder.to_owned(),
            log: folder.path().to_owned(),
        },
        _ => Error::io(&path, error),
    };
    let log = Log::open(Disk::open(&path).map_err(failed)?, GROUP).map_err(failed)?;
    let applied = store.control()?.and_then(|control| control.applied);
    if applied.is_some() && !log.is_used() {
        return Err(Error::LostLog {
            store: store_folder.to_owned(),
            log: folder.path().to_owned(),
        });
    }
    if applied.map_or(0, |(_, index)| index) < log.removed_upto() {
        return Err(Error::LostStore {
            store: store_folder.to_owned(),
            log: folder.path().to_owned(),
        });
    }
    Ok(log)
}

/// Starts the log with the store as its state.
async fn group(
    settings: &Settings,
    node: &Node,
    log: Log<Disk>,
    store: &Store,
    pool: &Arc<Pool>,
) -> Result<Group<Smol, Replica>, Error> {
    let link = GroupLink {
        pool: pool.clone(),
        group: GROUP,
    };
    let started = Group::start(
        (node.number, node.boot),
        settings.raft().config(),
        log,
        Arc::new(Replica::new(store)),
        link,
    );
    started.await.map_err(|error| Error::Log(error.to_string()))
}

/// Returns whether this master has a log from which its store follows.
pub(crate) fn has_log(opts: &Opts) -> bool {
    let is_master_of_cluster = matches!(Settings::read(opts), Ok(Some(_)));
    is_master_of_cluster && Folder::has_node(&opts.cachedir())
}

/// Makes the store that of a master alone, after the others were removed from the cluster and
/// `cluster_id` from the configuration. Does nothing if the store never was that of a cluster.
///
/// # Errors
/// When the cluster has other members, or the files cannot be used.
pub(crate) async fn leave(opts: &Opts, store: &Store, store_folder: &Path) -> Result<(), Error> {
    let Some(control) = store.control()? else {
        return Ok(());
    };
    let folder = Folder::open(&opts.cachedir())?;
    let node = folder.read()?;
    let members = members_of(&control).unwrap_or_default();
    let names: Vec<&str> = members
        .values()
        .map(|member| member.name.as_str())
        .collect();
    let is_alone = node.is_some_and(|node| members.keys().eq([&node.number]));
    if !is_alone {
        return Err(Error::State(format!(
            "{} is the state of a cluster of {}: set `cluster_id`, or remove the others from the cluster before (`salt-run cluster.remove NAME`)",
            store_folder.display(),
            names.join(", ")
        )));
    }
    store.leave_log().await?;
    folder.remove()?;
    log::info("This master has left its cluster, and has the store alone");
    Ok(())
}

/// Joins or founds a cluster.
async fn entered(
    settings: &Settings,
    credentials: Credentials,
    store: &Store,
    pool: &Pool,
) -> Result<Place, Error> {
    let mut all = settings.peers.clone();
    all.push(settings.address.to_string());
    all.sort();
    let own = Fresh {
        is_empty: store.is_empty()?,
        address: settings.address.to_string(),
        all,
    };
    let asker = Asker {
        settings,
        credentials: &credentials,
        pool,
    };
    let asking = async {
        let mut said: Option<(String, Instant)> = None;
        loop {
            match asker.ask_all(&own).await {
                Next::Found => return Ok(None),
                Next::Joined(joined) => return Ok(Some(joined)),
                Next::Refused(why) => {
                    return Err(Error::Refused {
                        cluster: settings.cluster.clone(),
                        why,
                    });
                }
                Next::Wait(why) => {
                    let is_known = said
                        .as_ref()
                        .is_some_and(|(known, at)| *known == why && at.elapsed() < SAY_EVERY);
                    if !is_known {
                        log::warning(format_args!(
                            "Waiting to join the cluster {}: {why}",
                            settings.cluster
                        ));
                        said = Some((why, Instant::now()));
                    }
                }
            }
            pause(AGAIN).await;
        }
    };
    let answering = async {
        // No deadline: other masters ask at any time.
        while let Some(request) = pool.next().await {
            answer_fresh(settings, &own, request).await;
        }
        Err(Error::Log("the port of the cluster is closed".to_owned()))
    };
    let joined = asking.or(answering).await?;
    let now = || now_ms().saturating_mul(1000);
    let node = Node {
        cluster: settings.cluster.clone(),
        founded_us: joined.as_ref().map_or_else(now, |joined| joined.founded_us),
        number: joined.as_ref().map_or(FOUNDER, |joined| joined.number),
        boot: 1,
    };
    Ok(Place { node, joined })
}

/// Answers a master that asks this one, which is in no cluster either.
async fn answer_fresh(settings: &Settings, own: &Fresh, request: Request) {
    let Some((&JOIN, bytes)) = request.bytes.split_first() else {
        return;
    };
    let exported = request.exported;
    let answer = match Join::decode(bytes) {
        Some(join) if join.cluster == settings.cluster => Answer::Fresh(own.clone()),
        Some(join) => Answer::Refused(format!(
            "{} waits for the cluster {}, not {}",
            settings.name, settings.cluster, join.cluster
        )),
        None => Answer::Refused("the request has an unknown form".to_owned()),
    };
    let key = settings.key();
    let proof = key.map(|key| key.proof(&settings.cluster, End::Member, &exported));
    request.answer(&answer.encode(proof)).await;
}

/// A master that asks others to let it join.
struct Asker<'a> {
    settings: &'a Settings,
    credentials: &'a Credentials,
    pool: &'a Pool,
}

impl Asker<'_> {
    /// Asks all other masters once, and decides.
    async fn ask_all(&self, own: &Fresh) -> Next {
        let (mut fresh, mut waits) = (Vec::new(), Vec::new());
        for peer in &self.settings.peers {
            match self.ask(peer, &self.settings.fingers, own.is_empty).await {
                Ok(Answer::Fresh(other)) => fresh.push(other),
                Ok(Answer::Joined(joined)) => return Next::Joined(joined),
                Ok(Answer::Refused(why)) => {
                    return Next::Refused(format!("{peer} answers: {why}"));
                }
                Ok(Answer::Wait(why)) => return Next::Wait(format!("{peer} answers: {why}")),
                Ok(Answer::Leader { address, finger }) => {
                    let finger: Vec<String> = finger.into_iter().collect();
                    match self.ask(&address, &finger, own.is_empty).await {
                        Ok(Answer::Joined(joined)) => return Next::Joined(joined),
                        Ok(Answer::Refused(why)) => {
                            return Next::Refused(format!("{address} answers: {why}"));
                        }
                        Ok(Answer::Wait(why)) => waits.push(format!("{address} answers: {why}")),
                        Ok(_) => waits.push(format!("{address} leads no more")),
                        Err(why) => waits.push(why),
                    }
                }
                Err(why) => waits.push(why),
            }
        }
        if !waits.is_empty() {
            waits.dedup();
            return Next::Wait(waits.join("; "));
        }
        if matches!(self.credentials, Credentials::Token { .. }) {
            return Next::Wait(
                "the masters in `cluster_peers` are in no cluster, and a master with a token founds none"
                    .to_owned(),
            );
        }
        match join::founding(own, &fresh) {
            Founding::Found => Next::Found,
            Founding::Wait(why) => Next::Wait(why),
            Founding::Refused(why) => Next::Refused(why),
        }
    }

    /// Asks a master to let this one join. The answer is believed if the master proves that it knows
    /// the secret or the token, or has one of the fingerprints.
    async fn ask(&self, peer: &str, fingers: &[String], is_empty: bool) -> Result<Answer, String> {
        let (settings, key) = (self.settings, self.credentials.key());
        let address = address(peer).await?;
        let request = |exported: &Exported| {
            let join = Join::of(settings, self.credentials, is_empty, exported).encode();
            [&[JOIN], join.as_slice()].concat()
        };
        let asked = self.pool.ask_unknown(address, fingers, request).await;
        let (Answered { bytes, .. }, exported) = asked.map_err(|error| error.to_string())?;
        let answer = Answer::decode(&bytes);
        let (answer, proof) =
            answer.ok_or_else(|| format!("{peer}: the answer has an unknown form"))?;
        let is_proved = key.is_some_and(|(key, _)| {
            key.is_proved(&settings.cluster, End::Member, &exported, proof.as_deref())
        });
        if is_proved || !fingers.is_empty() {
            return Ok(answer);
        }
        let state = match answer {
            Answer::Fresh(_) => " (it is in no cluster yet)",
            _ => "",
        };
        unproved(answer).map_err(|()| {
            let option = key.map_or("cluster_secret", |(_, option)| option);
            format!("{peer} does not prove that it knows the `{option}` of this master{state}")
        })
    }
}

/// Returns the part of an answer that can be used although the master has proved nothing. A refusal
/// ends the attempt. The leader that it names receives the request, too, and has to prove all itself.
fn unproved(answer: Answer) -> Result<Answer, ()> {
    match answer {
        Answer::Refused(why) => Ok(Answer::Refused(why)),
        Answer::Leader { address, .. } if address.parse::<SocketAddr>().is_ok() => {
            Ok(Answer::Leader {
                address,
                finger: None,
            })
        }
        _ => Err(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_master_that_proves_nothing_can_only_refuse_or_name_another_one() {
        let leader = |address: &str, finger: Option<&str>| Answer::Leader {
            address: address.to_owned(),
            finger: finger.map(str::to_owned),
        };
        let named = unproved(leader("10.0.0.1:4520", Some("aa:bb")));
        assert_eq!(named, Ok(leader("10.0.0.1:4520", None)));
        assert_eq!(unproved(leader("example.com:4520", Some("aa:bb"))), Err(()));
        let refused = Answer::Refused("no".to_owned());
        assert_eq!(unproved(refused.clone()), Ok(refused));
        let joined = Answer::Joined(Joined {
            number: 1,
            founded_us: 1,
            index: 1,
            keys: Vec::new(),
        });
        for believed_no in [joined, Answer::Wait("later".to_owned())] {
            assert_eq!(unproved(believed_no), Err(()));
        }
    }
}
