//! [`Cluster`]: the masters of the cluster that serves this minion, which one of them has stated. The
//! file `masters` in `cachedir` has them, so that they are known after a restart.
//!
//! A cluster is served by one session and one spool. Where the configuration has several masters
//! with a session each (`master_type: str`), a session that receives a list *joins* the cluster, and
//! so does each one whose master is in the list by its address. The first one that has joined keeps
//! serving; the others deliver what their spools have, to any master of the cluster, and end. The file
//! has the joined ones too, so that after a restart they end before they connect. Events that were
//! stored before the sessions have joined are delivered by each of them, once in the minion's life.
//!
//! A minion knows one cluster. A list of another one is ignored, and so is an older list of the same
//! one, because its sender may lag behind. Only a sender that the known list does not have may state a
//! lower index. It was reached when no master of the list was, and the minion accepts its key because
//! of `master_finger`: this is a cluster that was set up again elsewhere. A cluster that is restored
//! with the same keys has to state a higher index than before, or the file has to be removed.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use link::pki::Pki;
use link::{MasterList, PublicKey};
use state::opts::Opts;
use value::json::{self, Layout};
use value::{Map, Value, log, read, trust};
use wire::Masters;

/// The name of the file.
const NAME: &str = "masters";
/// The maximum size of the file in bytes. A list with the longest names and addresses is shorter.
const FILE_MAX: u64 = 64 << 10;

/// The masters of a cluster, and which of the minion's sessions have joined it.
#[derive(Debug)]
pub(crate) struct Cluster {
    folder: PathBuf,
    pki_dir: PathBuf,
    /// The first masters of the minion's sessions, as the configuration has them.
    sessions: Vec<String>,
    known: Mutex<Known>,
    /// Held while a list is taken, so that another session does not take one at the same time.
    taking: Mutex<()>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Known {
    list: Option<Arc<MasterList>>,
    /// The sessions that have joined. The first one of them serves the minion.
    joined: Vec<String>,
}

impl Cluster {
    /// Reads what was stored last. `sessions` are the first masters of the minion's sessions; there
    /// are none in a command. A file that cannot be used is logged: the masters state the list again.
    pub(crate) fn open(opts: &Opts, sessions: Vec<String>) -> Self {
        let mut cluster = Self {
            folder: opts.cachedir(),
            pki_dir: opts.path("pki_dir"),
            sessions,
            known: Mutex::default(),
            taking: Mutex::default(),
        };
        if let Some(known) = read::or_log(cluster.place(), cluster.stored()) {
            cluster.known = Mutex::new(known);
        }
        cluster
    }

    fn place(&self) -> String {
        self.folder.join(NAME).display().to_string()
    }

    fn stored(&self) -> io::Result<Known> {
        let file = File::open(self.folder.join(NAME))?;
        trust::folder(&self.folder)?;
        let mut text = String::new();
        file.take(FILE_MAX).read_to_string(&mut text)?;
        let stored = json::read(&text).map_err(io::Error::other)?;
        let entry = |name| stored.get(name).cloned().unwrap_or(Value::Null);
        let sent = Masters {
            index: entry("index").to_text().parse().map_err(io::Error::other)?,
            masters: entry("masters").as_list().unwrap_or_default().to_vec(),
        };
        let list = MasterList::new(sent, self.place()).map_err(io::Error::other)?;
        Ok(Known {
            list: Some(Arc::new(list)),
            joined: entry("joined").texts(),
        })
    }

    fn store(&self, sent: &Masters, joined: &[String]) -> io::Result<()> {
        let map = Map::new()
            .with("index", sent.index)
            .with("masters", sent.masters.clone())
            .with("joined", Value::list(joined.iter().map(Value::from)));
        let text = json::write(&map.into(), Layout::default());
        machine::durable::write(&self.folder, NAME, text.as_bytes())
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the masters of the cluster, if a session has joined it. A minion's only session always
    /// has.
    pub(crate) fn list(&self, session: &str) -> Option<Arc<MasterList>> {
        let known = self.known();
        let has_joined = self.is_only() || known.has(session);
        known.list.clone().filter(|_| has_joined)
    }

    /// Returns the masters of the cluster, for a command, whose session has all configured masters.
    pub(crate) fn any_list(&self) -> Option<Arc<MasterList>> {
        self.known().list.clone()
    }

    fn is_only(&self) -> bool {
        self.sessions.len() == 1
    }

    /// Returns whether another session serves the minion in place of this one.
    pub(crate) fn is_replaced(&self, session: &str) -> bool {
        let known = self.known();
        let mut joined = known.joined.iter();
        let serves = joined.find(|name| self.sessions.contains(name));
        known.has(session) && serves.is_some_and(|name| name != session)
    }

    /// Takes the list that a master has sent to a session, or to a command. Waits for the disk.
    pub(crate) fn take(&self, session: Option<&str>, master: &PublicKey, sent: Masters) {
        if let Err(problem) = self.taken(session, master, sent) {
            log::warning(format_args!(
                "ignoring the list of masters from the master with the key {master}: {problem}"
            ));
        }
    }

    fn taken(
        &self,
        session: Option<&str>,
        master: &PublicKey,
        sent: Masters,
    ) -> Result<(), String> {
        let list = MasterList::new(sent, self.place()).map_err(|bad| bad.to_string())?;
        let _one = self.taking.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = self.known().clone();
        if let Some(old) = &known.list {
            let is_member = old.has_key(master);
            let has_joined = session.is_some_and(|session| self.is_only() || known.has(session));
            if !is_member && !has_joined {
                return Err("this minion belongs to another cluster".to_owned());
            }
            if is_member && list.sent().index < old.sent().index {
                return Err("it is older than the known one".to_owned());
            }
        }
        let addresses = list.addresses();
        let listed = self.sessions.iter().filter(|name| addresses.contains(name));
        for name in session.into_iter().chain(listed.map(String::as_str)) {
            if !known.has(name) {
                known.joined.push(name.to_owned());
            }
        }
        known.list = Some(Arc::new(list.clone()));
        if *self.known() != known {
            let index = list.sent().index;
            log::info(format_args!(
                "The masters of the cluster are known (list {index})"
            ));
            if let Err(error) = self.store(list.sent(), &known.joined) {
                log::error(format_args!("cannot write {}: {error}", self.place()));
            }
            *self.known() = known;
        }
        let followed = Pki::open(&self.pki_dir).and_then(|pki| pki.follow(&list, master));
        followed.map_err(|error| error.to_string())
    }
}

impl Known {
    fn has(&self, session: &str) -> bool {
        self.joined.iter().any(|name| name == session)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::disallowed_methods, reason = "a test's own files")]

    use std::os::unix::fs::MetadataExt;

    use link::{KeyPair, Master, PORT, REMEMBERED};

    use super::*;

    struct World {
        folder: tempfile::TempDir,
        keys: Vec<PublicKey>,
    }

    impl World {
        fn new() -> Self {
            let key = |_| KeyPair::generate().unwrap().public();
            Self {
                folder: tempfile::tempdir().unwrap(),
                keys: (0..4).map(key).collect(),
            }
        }

        fn opts(&self) -> Opts {
            let path = |name| self.folder.path().join(name).display().to_string();
            let map = Map::new().with("cachedir", path("cache"));
            Opts::new(map.with("pki_dir", path("pki")))
        }

        fn file(&self) -> PathBuf {
            self.folder.path().join("cache").join(NAME)
        }

        /// Opens the cluster of a minion with a session for each of these masters.
        fn open(&self, sessions: &[&str]) -> Cluster {
            Cluster::open(
                &self.opts(),
                sessions.iter().map(|name| master(name)).collect(),
            )
        }

        /// Returns the list of the masters with these numbers, `m0` to `m3`.
        fn sent(&self, index: u64, numbers: &[usize]) -> Masters {
            let map = |number: &usize| {
                Map::new()
                    .with("name", format!("m{number}"))
                    .with("address", format!("m{number}:{PORT}"))
                    .with("finger", self.keys[*number].finger())
                    .into()
            };
            Masters {
                index,
                masters: numbers.iter().map(map).collect(),
            }
        }
    }

    /// Returns the name of a session with this master.
    fn master(name: &str) -> String {
        Master::parse(name, PORT).to_string()
    }

    fn index(cluster: &Cluster) -> Option<u64> {
        cluster.any_list().map(|list| list.sent().index)
    }

    #[test]
    fn the_list_survives_a_restart_in_a_file_of_this_user() {
        let world = World::new();
        let cluster = world.open(&["salt"]);
        assert_eq!(cluster.list(&master("salt")), None);
        let sent = world.sent(u64::MAX, &[0, 1]);
        cluster.take(Some(&master("salt")), &world.keys[0], sent.clone());
        let mode = std::fs::metadata(world.file()).unwrap().mode();
        assert_eq!(mode & 0o7777, 0o600);
        let again = world.open(&["salt"]);
        assert_eq!(again.list(&master("salt")).unwrap().sent(), &sent);
        assert_eq!(again.any_list(), cluster.any_list());
    }

    #[test]
    fn a_damaged_file_is_not_believed_and_is_replaced_by_the_next_list() {
        let world = World::new();
        let good = {
            let cluster = world.open(&["salt"]);
            cluster.take(None, &world.keys[0], world.sent(4, &[0]));
            std::fs::read_to_string(world.file()).unwrap()
        };
        let long = format!("{}{good}", " ".repeat(FILE_MAX as usize));
        let negative = good.replace("\"index\": 4", "\"index\": -4");
        let half = &good[..good.len() / 2];
        for bad in ["", "[]", "{}", "{\"index\": 4}", half, &long, &negative] {
            std::fs::write(world.file(), bad).unwrap();
            assert_eq!(index(&world.open(&["salt"])), None, "{bad}");
        }
        std::fs::write(world.file(), &good).unwrap();
        assert_eq!(index(&world.open(&["salt"])), Some(4));
        std::fs::write(world.file(), half).unwrap();
        let cluster = world.open(&["salt"]);
        cluster.take(None, &world.keys[0], world.sent(3, &[0]));
        assert_eq!(index(&world.open(&["salt"])), Some(3));
    }

    #[test]
    fn a_bad_list_is_ignored_and_the_old_one_stays() {
        let world = World::new();
        let cluster = world.open(&["salt"]);
        let salt = master("salt");
        cluster.take(Some(&salt), &world.keys[0], world.sent(4, &[0, 1]));
        let mut bad = world.sent(5, &[0, 1]);
        bad.masters.push("m2".into());
        cluster.take(Some(&salt), &world.keys[0], bad);
        cluster.take(Some(&salt), &world.keys[0], world.sent(6, &[]));
        assert_eq!(index(&cluster), Some(4));
        assert_eq!(index(&world.open(&["salt"])), Some(4));
    }

    #[test]
    fn an_older_list_is_ignored_unless_a_stranger_to_the_known_one_states_it() {
        let world = World::new();
        let cluster = world.open(&["salt"]);
        let salt = master("salt");
        cluster.take(Some(&salt), &world.keys[0], world.sent(40, &[0, 1]));
        // m1 lags behind: it still has m2, which was removed.
        cluster.take(Some(&salt), &world.keys[1], world.sent(39, &[0, 1, 2]));
        let known = cluster.any_list().unwrap();
        assert!(known.sent().index == 40 && !known.has_key(&world.keys[2]));
        cluster.take(Some(&salt), &world.keys[1], world.sent(41, &[1, 2]));
        assert_eq!(index(&cluster), Some(41));
        // The cluster was set up again with another master, which `master_finger` names.
        cluster.take(Some(&salt), &world.keys[3], world.sent(1, &[3]));
        assert_eq!(index(&cluster), Some(1));
    }

    #[test]
    fn a_removed_master_is_not_remembered_either() {
        let world = World::new();
        let pki = Pki::open(&world.opts().path("pki_dir")).unwrap();
        pki.remember(REMEMBERED, &world.keys[0]).unwrap();
        let cluster = world.open(&["salt"]);
        let salt = master("salt");
        cluster.take(Some(&salt), &world.keys[1], world.sent(1, &[0, 1]));
        cluster.take(Some(&salt), &world.keys[0], world.sent(2, &[1]));
        let remembered = || pki.find_master_key(REMEMBERED).unwrap();
        assert_eq!(remembered(), Some(world.keys[0]));
        cluster.take(Some(&salt), &world.keys[1], world.sent(2, &[1]));
        assert_eq!(remembered(), Some(world.keys[1]));
    }

    #[test]
    fn sessions_of_one_cluster_leave_it_to_the_first_that_has_joined() {
        let world = World::new();
        let names = ["alone", "one.example", "two.example", "m2"];
        let check = |cluster: &Cluster, replaced: [bool; 4]| {
            let all = names.map(|name| cluster.is_replaced(&master(name)));
            assert_eq!(all, replaced);
        };
        let cluster = world.open(&names);
        check(&cluster, [false; 4]);
        // The name of the first one is not in the list, and the address of the last one is.
        let sent = world.sent(7, &[0, 1, 2]);
        cluster.take(Some(&master("two.example")), &world.keys[1], sent.clone());
        check(&cluster, [false, false, false, true]);
        cluster.take(Some(&master("one.example")), &world.keys[0], sent);
        check(&cluster, [false, true, false, true]);
        assert_eq!(cluster.list(&master("alone")), None);
        assert!(cluster.list(&master("one.example")).is_some());
        check(&world.open(&names), [false, true, false, true]);
        // Without the one that serves, the next one does.
        let fewer = world.open(&["alone", "m2"]);
        assert!(!fewer.is_replaced(&master("m2")) && fewer.list(&master("m2")).is_some());
    }

    #[test]
    fn a_list_of_another_cluster_is_ignored() {
        let world = World::new();
        let names = ["one", "other"];
        let cluster = world.open(&names);
        cluster.take(Some(&master("one")), &world.keys[0], world.sent(7, &[0, 1]));
        cluster.take(Some(&master("other")), &world.keys[3], world.sent(9, &[3]));
        assert_eq!(index(&cluster), Some(7));
        assert_eq!(cluster.list(&master("other")), None);
        assert!(!cluster.is_replaced(&master("other")));
    }
}
