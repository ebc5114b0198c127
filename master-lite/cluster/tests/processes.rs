//! Three masters as real processes, with real disks and connections: one after the other is killed
//! while all of them propose. In the end nothing that was acknowledged is lost or was done twice.
//!
//! usage: processes; `PINCH_KILLS` says how many masters are killed (10)
#![allow(
    clippy::indexing_slicing,
    clippy::let_underscore_must_use,
    clippy::panic,
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::exit,
    clippy::disallowed_methods,
    reason = "this test is a separate program"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cluster::core::{Member, Proposal};
use cluster::raft::log::Log;
use cluster::raft::medium::Disk;
use cluster::raft::pool::{self, GroupLink};
use cluster::raft::{Group, Machine, NotAgreed, Settings, Smol};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable};
use link::KeyPair;
use link::pool::Pool;

const MASTERS: u64 = 3;
/// The row with the position in the log.
const CONTROL: &[u8] = b"control";
/// The maximum time for the survivors to commit again.
const RECOVERY_MAX: Duration = Duration::from_secs(10);
/// The time that a proposal may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// A state on the disk: how often each operation was done.
struct Ledger {
    database: Database,
    rows: Keyspace,
}

impl Ledger {
    fn open(folder: &Path) -> Self {
        let database = Database::builder(folder)
            .manual_journal_persist(true)
            .open()
            .unwrap();
        let options = || KeyspaceCreateOptions::default().manual_journal_persist(true);
        let rows = database.keyspace("rows", options).unwrap();
        Self { database, rows }
    }

    fn all(&self) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let rows = self.rows.iter().map(|row| row.into_inner().unwrap());
        rows.map(|(key, value)| (key.to_vec(), value.to_vec()))
            .collect()
    }
}

/// The rows of a state that are left to be sent, or were received.
type Rows = Vec<(Vec<u8>, Vec<u8>)>;

impl Machine for Ledger {
    type Outcome = ();
    type Rows = Rows;

    fn control(&self) -> io::Result<Option<Vec<u8>>> {
        let row = self.rows.get(CONTROL).map_err(io::Error::other)?;
        Ok(row.map(|row| row.to_vec()))
    }

    async fn apply(&self, commands: Vec<Proposal>, control: Vec<u8>) -> io::Result<Vec<()>> {
        let mut batch = self.database.batch().durability(Some(PersistMode::Buffer));
        let mut counts: BTreeMap<Vec<u8>, u8> = BTreeMap::new();
        for proposal in &commands {
            let known = self.rows.get(&*proposal.command).unwrap();
            let known = known.map_or(0, |row| row[0]);
            *counts.entry(proposal.command.to_vec()).or_insert(known) += 1;
        }
        for (operation, count) in counts {
            batch.insert(&self.rows, operation, [count]);
        }
        batch.insert(&self.rows, CONTROL, control);
        batch.commit().map_err(io::Error::other)?;
        Ok(vec![(); commands.len()])
    }

    async fn sync(&self) -> io::Result<()> {
        let synced = self.database.persist(PersistMode::SyncAll);
        synced.map_err(io::Error::other)
    }

    fn rows(&self) -> io::Result<Rows> {
        let snapshot = self.database.snapshot();
        let rows = snapshot.iter(&self.rows);
        let rows = rows.map(|row| row.into_inner().unwrap());
        Ok(rows
            .map(|(key, value)| (key.to_vec(), value.to_vec()))
            .collect())
    }

    async fn next_piece(&self, rows: &mut Rows) -> io::Result<Option<Vec<u8>>> {
        let mut piece = Vec::new();
        while piece.len() < 4096
            && let Some((key, value)) = rows.pop()
        {
            for part in [key, value] {
                piece.extend(u32::try_from(part.len()).unwrap().to_be_bytes());
                piece.extend(part);
            }
        }
        Ok((!piece.is_empty()).then_some(piece))
    }

    fn receive(&self) -> io::Result<Rows> {
        Ok(Vec::new())
    }

    async fn add_piece(&self, rows: &mut Rows, piece: Vec<u8>) -> io::Result<()> {
        let mut rest = piece.as_slice();
        let mut next = || {
            let (length, left) = rest.split_at(4);
            let length = u32::from_be_bytes(length.try_into().unwrap()) as usize;
            let (part, left) = left.split_at(length);
            rest = left;
            (part.to_vec(), left.is_empty())
        };
        loop {
            let (key, _) = next();
            let (value, is_last) = next();
            rows.push((key, value));
            if is_last {
                return Ok(());
            }
        }
    }

    fn received_control(&self, rows: &mut Rows) -> io::Result<Option<Vec<u8>>> {
        let row = rows.iter().find(|(key, _)| key == CONTROL);
        Ok(row.map(|(_, control)| control.clone()))
    }

    async fn install(&self, rows: Rows) -> io::Result<()> {
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncAll));
        for key in self.all().into_keys() {
            batch.remove(&self.rows, key);
        }
        for (key, value) in rows {
            batch.insert(&self.rows, key, value);
        }
        batch.commit().map_err(io::Error::other)
    }
}

fn members(folder: &Path) -> BTreeMap<u64, Member> {
    let member = |number: u64| {
        let of = folder.join(number.to_string());
        let pair = KeyPair::from_pem(&std::fs::read(of.join("key")).unwrap()).unwrap();
        let member = Member {
            name: format!("m{number}"),
            address: std::fs::read_to_string(of.join("address")).unwrap(),
            minions: String::new(),
            key: pair.public().bytes().to_vec(),
            level: 1,
        };
        (number, member)
    };
    (1..=MASTERS).map(member).collect()
}

/// Opens the port of a master, which serves only the others.
fn open_pool(members: &BTreeMap<u64, Member>, address: SocketAddr, pair: &KeyPair) -> Arc<Pool> {
    let keys: BTreeSet<Vec<u8>> = members.values().map(|member| member.key.clone()).collect();
    loop {
        let keys = keys.clone();
        let serves = Arc::new(move |key: &link::PublicKey| keys.contains(key.bytes().as_slice()));
        match Pool::bind(address, pair, serves) {
            Ok(pool) => return Arc::new(pool),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// Runs a master: proposes until its input says to stop, then prints its state until its input ends.
fn master(number: u64, folder: &Path) {
    let own = folder.join(number.to_string());
    let boot: u64 = std::fs::read_to_string(own.join("boot")).map_or(1, |text| {
        let before: u64 = text.trim().parse().unwrap();
        before + 1
    });
    std::fs::write(own.join("boot"), boot.to_string()).unwrap();
    let pair = KeyPair::from_pem(&std::fs::read(own.join("key")).unwrap()).unwrap();
    let members = members(folder);
    let pool = open_pool(&members, members[&number].address.parse().unwrap(), &pair);
    let settings = Settings {
        snapshot_every: 500,
        kept_entries: 100,
        ..Settings::default()
    };
    let ledger = Arc::new(Ledger::open(&own.join("state")));
    let log = Log::open(Disk::open(&own.join("log")).unwrap(), 0).unwrap();
    let link = GroupLink {
        pool: pool.clone(),
        group: 0,
    };
    let started =
        Group::<Smol, Ledger>::start((number, boot), settings.config(), log, ledger.clone(), link);
    let group = smol::block_on(started).unwrap();
    let groups = Arc::new(BTreeMap::from([(0, group.clone())]));
    smol::spawn(async move {
        while let Some(request) = pool.next().await {
            let groups = groups.clone();
            smol::spawn(async move { pool::answer(request, number, &groups).await }).detach();
        }
    })
    .detach();
    smol::block_on(group.found(members)).unwrap();
    let stops = Arc::new(Mutex::new(false));
    for client in 0..4 {
        let (group, stops) = (group.clone(), stops.clone());
        smol::spawn(async move {
            for operation in 0.. {
                if *stops.lock().unwrap() {
                    return;
                }
                let name = format!("{number}.{boot}.{client}.{operation}");
                let done = group.propose(name.clone().into_bytes(), None, PATIENCE);
                match done.await {
                    Ok(()) => println!("done {name}"),
                    Err(NotAgreed::NoMajority) => println!("refused {name}"),
                    Err(_) => {}
                }
                smol::Timer::after(Duration::from_millis(5)).await;
            }
        })
        .detach();
    }
    for line in io::stdin().lines() {
        match line.unwrap().as_str() {
            "stop" => *stops.lock().unwrap() = true,
            _ => {
                let rows = ledger.all();
                for (operation, count) in &rows {
                    if operation != CONTROL {
                        println!("state {} {}", String::from_utf8_lossy(operation), count[0]);
                    }
                }
                println!("end {:?}", rows.get(CONTROL));
                io::stdout().flush().unwrap();
            }
        }
    }
    std::process::exit(0);
}

/// A running master, and what it has said.
struct Running {
    child: Child,
    said: Arc<Mutex<Vec<String>>>,
}

impl Running {
    fn start(number: u64, folder: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .env("PINCH_MASTER", number.to_string())
            .env("PINCH_FOLDER", folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let said = Arc::<Mutex<Vec<String>>>::default();
        let (own, out) = (said.clone(), child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                own.lock().unwrap().push(line);
            }
        });
        Self { child, said }
    }

    /// Kills the process, and waits until its last messages have arrived.
    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }

    fn tell(&mut self, word: &str) {
        let input = self.child.stdin.as_mut().unwrap();
        writeln!(input, "{word}").unwrap();
    }

    fn said(&self) -> Vec<String> {
        self.said.lock().unwrap().clone()
    }

    fn done(&self) -> usize {
        self.said()
            .iter()
            .filter(|line| line.starts_with("done"))
            .count()
    }

    /// Returns the state: its rows, and the position in the log.
    fn state(&mut self) -> (BTreeMap<String, String>, String) {
        let from = self.said().len();
        self.tell("show");
        loop {
            std::thread::sleep(Duration::from_millis(20));
            let said = self.said();
            let Some(end) = said.iter().skip(from).find(|line| line.starts_with("end")) else {
                continue;
            };
            let rows = said.iter().skip(from).filter_map(|line| {
                let row = line.strip_prefix("state ")?;
                let (name, count) = row.split_once(' ')?;
                Some((name.to_owned(), count.to_owned()))
            });
            return (rows.collect(), end.clone());
        }
    }
}

fn prepare(folder: &Path) {
    for number in 1..=MASTERS {
        let own = folder.join(number.to_string());
        std::fs::create_dir(&own).unwrap();
        let pair = KeyPair::generate().unwrap();
        std::fs::write(own.join("key"), pair.pem()).unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap().to_string();
        std::fs::write(own.join("address"), address).unwrap();
    }
}

fn main() {
    if let Ok(number) = std::env::var("PINCH_MASTER") {
        let folder = PathBuf::from(std::env::var_os("PINCH_FOLDER").unwrap());
        return master(number.parse().unwrap(), &folder);
    }
    let kills = std::env::var("PINCH_KILLS").map_or(10, |kills| kills.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    prepare(folder.path());
    let mut masters: Masters = (1..=MASTERS)
        .map(|number| (number, Running::start(number, folder.path())))
        .collect();
    let (mut said, mut longest) = (Vec::new(), Duration::ZERO);
    for kill in 0..kills {
        // Each survivor must commit before the next one is killed.
        std::thread::sleep(Duration::from_millis(400));
        let victim = 1 + kill % MASTERS;
        let mut killed = masters.remove(&victim).unwrap();
        killed.kill();
        said.extend(killed.said());
        longest = longest.max(next_commits(&masters));
        masters.insert(victim, Running::start(victim, folder.path()));
    }
    std::thread::sleep(Duration::from_millis(500));
    let rows = agreed(&mut masters);
    for mut master in masters.into_values() {
        master.kill();
        said.extend(master.said());
    }
    let done = checked(&said, &rows);
    println!(
        "{kills} kills: {done} acknowledged, {} done, 0 lost, 0 twice; the longest time to the next commit of all survivors {} ms",
        rows.len(),
        longest.as_millis()
    );
}

type Masters = BTreeMap<u64, Running>;

/// Waits until each master has got a result, and returns the time.
fn next_commits(masters: &Masters) -> Duration {
    let began = Instant::now();
    let before: BTreeMap<u64, usize> = masters
        .iter()
        .map(|(number, master)| (*number, master.done()))
        .collect();
    while masters
        .iter()
        .any(|(number, master)| master.done() <= before[number])
    {
        assert!(began.elapsed() < RECOVERY_MAX, "no commit after a kill");
        std::thread::sleep(Duration::from_millis(5));
    }
    began.elapsed()
}

/// Stops the proposals, waits until all masters have the same state, and returns it.
fn agreed(masters: &mut Masters) -> BTreeMap<String, String> {
    for master in masters.values_mut() {
        master.tell("stop");
    }
    let began = Instant::now();
    loop {
        std::thread::sleep(Duration::from_millis(200));
        let mut states: Vec<_> = masters.values_mut().map(Running::state).collect();
        let is_quiet = began.elapsed() > PATIENCE;
        if is_quiet && states.windows(2).all(|pair| pair[0] == pair[1]) {
            return states.swap_remove(0).0;
        }
        assert!(
            began.elapsed() < 4 * RECOVERY_MAX,
            "the masters do not agree"
        );
    }
}

/// Checks a state against the messages of the masters. Returns the number of acknowledged
/// operations.
fn checked(said: &[String], rows: &BTreeMap<String, String>) -> usize {
    let with = |word: &str| -> BTreeSet<&str> {
        said.iter()
            .filter_map(|line| line.strip_prefix(word))
            .collect()
    };
    let (done, refused) = (with("done "), with("refused "));
    let lost: Vec<_> = done
        .iter()
        .filter(|name| !rows.contains_key(**name))
        .collect();
    let twice: Vec<_> = rows.iter().filter(|(_, count)| *count != "1").collect();
    let undead: Vec<_> = refused
        .iter()
        .filter(|name| rows.contains_key(**name))
        .collect();
    assert!(lost.is_empty(), "lost: {lost:?}");
    assert!(twice.is_empty(), "done twice: {twice:?}");
    assert!(undead.is_empty(), "refused, and done: {undead:?}");
    done.len()
}
