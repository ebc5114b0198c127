#![expect(
    clippy::disallowed_methods,
    clippy::let_underscore_must_use,
    reason = "a test's own files, and results that the test does not look at"
)]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

use value::{Map, Value};
use wire::{Event, Return};

use super::*;

fn event(n: u64) -> Event {
    Event {
        sequence: 0,
        tag: format!("my/event/{n}"),
        stamp: format!("2026-11-20T10:00:00.{n:06}"),
        data: Map::new().with("n", n),
    }
}

fn ret(n: u64) -> Return {
    Return {
        sequence: 0,
        jid: format!("20261120100000{n:06}"),
        stamp: format!("2026-11-20T11:00:00.{n:06}"),
        data: Map::new().with("fun", "test.ping").with("return", true),
    }
}

fn large(n: u64, bytes: usize) -> Event {
    let data = Map::new().with("text", "x".repeat(bytes));
    Event { data, ..event(n) }
}

fn open(folder: &Path) -> Spool {
    Spool::open(folder, Limits::default()).unwrap()
}

fn all(spool: &Spool) -> Vec<Entry> {
    let mut all = Vec::new();
    loop {
        let next = all.last().map_or(1, |entry: &Entry| entry.sequence() + 1);
        let some = spool.from(next, 1000).unwrap();
        if some.is_empty() {
            return all;
        }
        all.extend(some);
    }
}

fn sequences(spool: &Spool) -> Vec<u64> {
    all(spool).iter().map(Entry::sequence).collect()
}

/// Returns the data of the gap's record, and the numbers of the other records.
fn with_gap(spool: &Spool) -> (Map, Vec<u64>) {
    let is_gap = |entry: &Entry| matches!(entry, Entry::Event(event) if event.tag == GAP);
    let (gaps, others): (Vec<Entry>, Vec<Entry>) = all(spool).into_iter().partition(is_gap);
    let [Entry::Event(gap)] = gaps.as_slice() else {
        panic!("{} gaps", gaps.len());
    };
    let last = gap.data.get("last").and_then(Value::as_int);
    assert_eq!(last, Some(gap.sequence as i64), "it stands where it says");
    (
        gap.data.clone(),
        others.iter().map(Entry::sequence).collect(),
    )
}

fn number(gap: &Map, name: &str) -> u64 {
    gap.get(name).and_then(Value::as_int).unwrap() as u64
}

#[test]
fn events_and_returns_come_back_in_one_row_until_they_are_acked() {
    let folder = tempfile::tempdir().unwrap();
    let spool = open(folder.path());
    assert!(spool.is_empty() && spool.last() == 0 && spool.epoch() != 0);
    assert_eq!(spool.push(event(1)).unwrap(), 1);
    assert_eq!(spool.push(ret(2)).unwrap(), 2);
    let more = vec![event(3).into(), ret(4).into(), event(5).into()];
    assert_eq!(spool.push_all(more).unwrap(), 5);

    let entries = all(&spool);
    let expected: [Entry; 5] = [
        Event {
            sequence: 1,
            ..event(1)
        }
        .into(),
        Return {
            sequence: 2,
            ..ret(2)
        }
        .into(),
        Event {
            sequence: 3,
            ..event(3)
        }
        .into(),
        Return {
            sequence: 4,
            ..ret(4)
        }
        .into(),
        Event {
            sequence: 5,
            ..event(5)
        }
        .into(),
    ];
    assert_eq!(entries, expected);
    assert_eq!(spool.from(4, 1).unwrap(), &expected[3..4]);

    spool.delivered(4).unwrap();
    spool.acked(2).unwrap();
    assert_eq!(sequences(&spool), [3, 5]);
    assert_eq!(spool.len(), 2);
    assert!(!spool.is_waiting(2) && spool.is_waiting(3));
    spool.acked(5).unwrap();
    assert!(spool.is_empty() && spool.bytes() == 0);
    assert_eq!(spool.push(event(6)).unwrap(), 6);
}

#[test]
fn what_is_there_outlasts_the_program_with_its_numbers_and_its_epoch() {
    let folder = tempfile::tempdir().unwrap();
    let spool = open(folder.path());
    let epoch = spool.epoch();
    spool
        .push_all((1..=10).map(|n| event(n).into()).collect())
        .unwrap();
    spool.acked(3).unwrap();
    spool.delivered(7).unwrap();
    let (len, bytes) = (spool.len(), spool.bytes());
    drop(spool);

    let spool = open(folder.path());
    assert_eq!(
        (spool.epoch(), spool.len(), spool.bytes()),
        (epoch, len, bytes)
    );
    assert_eq!(sequences(&spool), [4, 5, 6, 8, 9, 10]);
    // The last record is removed alone: its number is not assigned again.
    spool.delivered(10).unwrap();
    drop(spool);
    let spool = open(folder.path());
    assert_eq!(spool.push(event(11)).unwrap(), 11);
    spool.acked(11).unwrap();
    drop(spool);
    let spool = open(folder.path());
    assert!(spool.is_empty());
    assert_eq!((spool.last(), spool.push(event(12)).unwrap()), (11, 12));
}

#[test]
fn a_master_that_has_more_than_the_spool_moves_it_on() {
    let folder = tempfile::tempdir().unwrap();
    let spool = open(folder.path());
    spool.push(event(1)).unwrap();
    spool.acked(40).unwrap();
    assert_eq!(spool.push(event(2)).unwrap(), 41);
}

#[test]
fn nobody_else_may_open_it_or_read_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("spool");
    let spool = open(&path);
    spool.push(event(1)).unwrap();
    let error = Spool::open(&path, Limits::default())
        .unwrap_err()
        .to_string();
    let expected = format!(
        "the spool {} is in use by another process, pid {}",
        path.display(),
        std::process::id()
    );
    assert_eq!(error, expected);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o700);
    let mut folders = vec![path];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let right = if path.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(mode(&path), right, "{}", path.display());
            folders.extend(path.is_dir().then_some(path));
        }
    }
}

#[test]
fn a_later_format_is_refused_and_damage_is_never_begun_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    drop(open(path));
    let current = fs::read_to_string(path.join("current")).unwrap();
    let error = || Spool::open(path, Limits::default()).unwrap_err();

    fs::write(
        path.join("current"),
        current.replace("format 1", "format 2"),
    )
    .unwrap();
    assert!(matches!(
        error(),
        Error::Newer {
            format: 2,
            known: 1,
            ..
        }
    ));
    for wrong in [
        "",
        "pinch spool\nformat x\n",
        "something\n",
        "pinch spool\nformat 1\nepoch 5\n",
    ] {
        fs::write(path.join("current"), wrong).unwrap();
        assert!(matches!(error(), Error::Damaged { .. }), "{wrong:?}");
    }
    fs::remove_file(path.join("current")).unwrap();
    assert!(matches!(error(), Error::Damaged { .. }));

    fs::write(path.join("current"), &current).unwrap();
    fs::rename(path.join("store.1/version"), path.join("version")).unwrap();
    assert!(matches!(error(), Error::Damaged { .. }));
    fs::write(path.join("store.1/version"), "FJL\u{9}").unwrap();
    assert!(matches!(error(), Error::Damaged { .. }));
    fs::rename(path.join("version"), path.join("store.1/version")).unwrap();
    drop(open(path));

    fs::rename(path.join("store.1"), path.join("elsewhere")).unwrap();
    let text = error().to_string();
    assert!(text.contains("move the folder aside"), "{text}");
}

#[test]
fn a_changed_byte_is_damage_and_a_torn_end_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let spool = open(path);
    for n in 1..=3 {
        spool.push(large(n, 1000)).unwrap();
    }
    drop(spool);
    let journal = path.join("store.1/1.jnl");
    let journal = if journal.exists() {
        journal
    } else {
        path.join("store.1/0.jnl")
    };
    let whole = fs::read(&journal).unwrap();
    let end = whole.iter().rposition(|byte| *byte != 0).unwrap() + 1;

    let mut torn = whole[..end - 500].to_vec();
    fs::write(&journal, &torn).unwrap();
    assert_eq!(sequences(&open(path)), [1, 2]);

    torn = whole[..end].to_vec();
    let text = torn
        .windows(8)
        .rposition(|bytes| bytes == b"xxxxxxxx")
        .unwrap();
    torn[text - 1500] = b'y';
    fs::write(&journal, &torn).unwrap();
    let error = Spool::open(path, Limits::default()).unwrap_err();
    assert!(matches!(error, Error::Damaged { .. }), "{error}");
}

#[test]
fn an_overflow_drops_the_oldest_events_before_returns_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { bytes: 100 << 10 };
    let spool = Spool::open(folder.path(), limits).unwrap();
    for n in 1..=200 {
        match n % 10 {
            0 => spool.push(ret(n)).unwrap(),
            _ => spool.push(large(n, 1000)).unwrap(),
        };
        assert!(spool.bytes() <= limits.bytes);
    }
    let minion: wire::Id = "web1".parse().unwrap();
    wire::tag::may_send(&minion, GAP).unwrap();
    let (gap, others) = with_gap(&spool);
    let (first, last) = (number(&gap, "first"), number(&gap, "last"));
    assert_eq!((first, number(&gap, "returns")), (1, 0));
    let returns = (1..=200).filter(|n| n % 10 == 0);
    let expected: Vec<u64> = (1..=200).filter(|n| n % 10 == 0 || *n > last).collect();
    assert_eq!(others, expected);
    assert_eq!(
        number(&gap, "dropped"),
        last - returns.filter(|n| *n <= last).count() as u64
    );
    assert_eq!(gap.get("since"), Some(&event(1).stamp.into()));
    assert_eq!(spool.len(), others.len() as u64 + 1);
    let bytes = spool.bytes();
    drop(spool);

    // After a restart the same gap grows. Another gap begins when this one's record was delivered.
    let spool = Spool::open(folder.path(), limits).unwrap();
    assert_eq!(spool.bytes(), bytes);
    for n in 201..=300 {
        spool.push(large(n, 1000)).unwrap();
    }
    let (gap, _) = with_gap(&spool);
    assert_eq!(number(&gap, "first"), 1);
    spool.acked(number(&gap, "last")).unwrap();
    for n in 301..=400 {
        spool.push(large(n, 1000)).unwrap();
    }
    let (second, _) = with_gap(&spool);
    assert!(number(&second, "first") > number(&gap, "last"));
}

#[test]
fn returns_go_when_there_are_no_events_and_what_never_fits_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { bytes: 64 << 10 };
    let spool = Spool::open(folder.path(), limits).unwrap();
    for n in 1..=1000 {
        spool.push(ret(n)).unwrap();
        assert!(spool.bytes() <= limits.bytes);
    }
    let (gap, others) = with_gap(&spool);
    assert_eq!(number(&gap, "dropped"), number(&gap, "returns"));
    assert_eq!(number(&gap, "dropped"), number(&gap, "last"));
    assert_eq!(
        others,
        (number(&gap, "last") + 1..=1000).collect::<Vec<_>>()
    );

    let error = spool.push(large(1001, 60_000)).unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error}");
    let error = spool.push(large(1001, 2 << 20)).unwrap_err();
    assert!(
        matches!(error, Error::Frame(wire::Error::TooLong { .. })),
        "{error}"
    );
    // The refused records have used no numbers.
    assert_eq!(spool.push(ret(1001)).unwrap(), 1001);
    // A row that is larger than the spool leaves only its end.
    let row = (1002..=3000).map(|n| event(n).into()).collect();
    assert_eq!(spool.push_all(row).unwrap(), 3000);
    assert!(spool.bytes() <= limits.bytes);
    let (gap, others) = with_gap(&spool);
    assert_eq!(number(&gap, "dropped") + others.len() as u64, 3000);
}

/// Returns the disk space of a folder in bytes. The store's own thread may remove files meanwhile.
fn taken(folder: &Path) -> u64 {
    let mut sum = 0;
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(found) = entry.metadata() else {
            continue;
        };
        sum += found.blocks() * 512;
        if found.is_dir() {
            sum += taken(&entry.path());
        }
    }
    sum
}

#[test]
fn a_hundred_thousand_events_offline_stay_within_the_quota() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { bytes: 2 << 20 };
    let spool = Spool::open(folder.path(), limits).unwrap();
    for start in (1..=100_000).step_by(500) {
        let row = (start..start + 500).map(|n| event(n).into()).collect();
        spool.push_all(row).unwrap();
        assert!(spool.bytes() <= limits.bytes);
        assert!(
            taken(folder.path()) <= 4 * limits.bytes + (1 << 20),
            "{}",
            taken(folder.path())
        );
    }
    let (gap, others) = with_gap(&spool);
    let last = number(&gap, "last");
    assert_eq!((number(&gap, "first"), number(&gap, "dropped")), (1, last));
    assert_eq!(others, (last + 1..=100_000).collect::<Vec<_>>());
    drop(spool);
    let spool = Spool::open(folder.path(), limits).unwrap();
    assert_eq!(sequences(&spool).last(), Some(&100_000));
    spool.acked(100_000).unwrap();
    assert!(spool.is_empty() && spool.bytes() == 0);
}

#[test]
fn online_the_store_does_not_grow() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { bytes: 256 << 10 };
    let spool = Spool::open(folder.path(), limits).unwrap();
    for n in (1..=2000).step_by(10) {
        let row = (n..n + 10).map(|n| large(n, 1000).into()).collect();
        let last = spool.push_all(row).unwrap();
        spool.acked(last).unwrap();
    }
    assert!(taken(folder.path()) < 2 << 20, "{}", taken(folder.path()));
    assert_eq!(spool.last(), 2000);
}

const CHILD: &str = "PINCH_SPOOL_CHILD";

/// The child process of [`nothing_that_was_pushed_is_lost_by_kill_9`]: pushes records, and prints
/// each number when the record is safe. It prints the number of an ack before the ack: when it is
/// killed, the ack may already be on disk.
#[test]
fn child_that_pushes() {
    let Some(folder) = std::env::var_os(CHILD) else {
        return;
    };
    let spool = open(Path::new(&folder));
    let mut out = std::io::stdout().lock();
    for n in 1.. {
        let last = match n % 7 {
            0 => spool.push(ret(n)).unwrap(),
            3 => spool
                .push_all(vec![event(n).into(), ret(n).into(), large(n, 3000).into()])
                .unwrap(),
            _ => spool.push(large(n, 100)).unwrap(),
        };
        writeln!(out, "pushed {last}").unwrap();
        if n % 5 == 0 {
            writeln!(out, "acking {}", last - 3).unwrap();
            spool.acked(last - 3).unwrap();
        }
    }
}

#[test]
fn nothing_that_was_pushed_is_lost_by_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let (mut pushed, mut acked, mut epoch) = (0, 0, None);
    for round in 0..12 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "spool::tests::child_that_pushes", "--nocapture"])
            .env(CHILD, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut left = 20 + 37 * round;
        for line in lines {
            let line = line.unwrap();
            let (word, number) = line.split_once(' ').unwrap_or_default();
            match (word, number.parse::<u64>()) {
                ("pushed", Ok(number)) => pushed = number,
                ("acking", Ok(number)) => acked = number,
                _ => continue,
            }
            left -= 1;
            if left == 0 {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        let spool = open(folder.path());
        assert_eq!(*epoch.get_or_insert_with(|| spool.epoch()), spool.epoch());
        let found = sequences(&spool);
        assert!(spool.last() >= pushed, "{} < {pushed}", spool.last());
        // Acked records may come again. All others are there, up to the last one and without a
        // hole.
        let first = found[0];
        assert!(first <= acked + 1, "{first}, {acked}");
        assert_eq!(found, (first..=spool.last()).collect::<Vec<_>>());
    }
}

fn resident_kb() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Prints figures. Run it alone: `cargo test -p minion --profile quick -- --ignored --exact
/// --nocapture spool::tests::what_a_spool_takes`
#[test]
#[ignore = "prints figures"]
fn what_a_spool_takes() {
    let folder = tempfile::tempdir().unwrap();
    let say = |what: &str, since: std::time::Instant| {
        println!(
            "{what}: {} kB resident, {:?}",
            resident_kb(),
            since.elapsed()
        );
    };
    let start = std::time::Instant::now();
    let _ = event(1).data.len();
    say("before", start);
    let spool = open(folder.path());
    say("made", start);
    drop(spool);
    let start = std::time::Instant::now();
    let spool = open(folder.path());
    say("opened, empty", start);
    let start = std::time::Instant::now();
    for n in 1..=200 {
        let last = spool.push(event(n)).unwrap();
        spool.acked(last).unwrap();
    }
    say("200 pushed and acked one by one", start);
    let start = std::time::Instant::now();
    let count = std::env::var("PINCH_EVENTS").map_or(100_000, |count| count.parse().unwrap());
    for n in (1..=count).step_by(500) {
        spool
            .push_all((n..n + 500).map(|n| event(n).into()).collect())
            .unwrap();
    }
    say("pushed offline in rows of 500", start);
    println!(
        "{} records, {} bytes, {} on the disk",
        spool.len(),
        spool.bytes(),
        taken(folder.path())
    );
    drop(spool);
    let start = std::time::Instant::now();
    let spool = open(folder.path());
    say("opened, full", start);
    let start = std::time::Instant::now();
    spool.acked(spool.last()).unwrap();
    say("all acked", start);
    drop(spool);
    let start = std::time::Instant::now();
    let spool = open(folder.path());
    say("opened, empty again", start);
    println!("{} on the disk", taken(folder.path()));
    drop(spool);
}

const FAULTY: &str = "PINCH_SPOOL_FAULTY";
const TRIES_MAX: usize = 20;

/// Repeats a call until the disk works.
fn tried<T>(mut what: impl FnMut() -> Result<T, Error>) -> T {
    for _ in 0..TRIES_MAX {
        match what() {
            Ok(done) => return done,
            Err(error) => assert!(matches!(error, Error::Disk { .. }), "{error}"),
        }
    }
    panic!("the disk never works");
}

/// The child process of [`what_the_disk_refuses_is_not_there_and_all_else_is`], which runs under
/// `strace`.
#[test]
fn child_whose_disk_fails() {
    let Some(folder) = std::env::var_os(FAULTY) else {
        return;
    };
    let limits = Limits { bytes: 512 << 10 };
    let open = || tried(|| Spool::open(Path::new(&folder), limits));
    let mut spool = open();
    let (mut next, mut acked) = (1, 0);
    let rest = |spool: &Spool| -> Vec<Entry> {
        let mut rest = Vec::new();
        loop {
            let from = rest.last().map_or(1, |entry: &Entry| entry.sequence() + 1);
            let some = tried(|| spool.from(from, 1000));
            if some.is_empty() {
                return rest;
            }
            rest.extend(some);
        }
    };
    for round in 0..100 {
        let row = || (next..next + 10).map(|n| large(n, 1000).into()).collect();
        assert_eq!(
            tried(|| spool.push_all(row())),
            next + 9,
            "in round {round}"
        );
        next += 10;
        if round % 3 == 0 {
            acked = next - 200.min(next - 1);
            let _ = spool.acked(acked);
        }
        if round % 40 == 39 {
            drop(spool);
            spool = open();
        }
    }
    // Each record is there once with its number. Acked records may be there again after a failure.
    for again in [false, true] {
        if again {
            drop(spool);
            spool = open();
        }
        let rest = rest(&spool);
        let first = rest[0].sequence();
        assert!(first <= acked + 1);
        let expected = (first..next).map(|n| {
            Entry::from(Event {
                sequence: n,
                ..large(n, 1000)
            })
        });
        assert!(rest.into_iter().eq(expected));
    }
}

#[test]
fn what_the_disk_refuses_is_not_there_and_all_else_is() {
    // The first writes of a thread are messages about the test.
    for (call, first) in [
        ("write", 40),
        ("fdatasync", 1),
        ("fsync", 1),
        ("ftruncate", 1),
    ] {
        for (error, after) in [("ENOSPC", 0), ("EIO", 2), ("ENOSPC", 25), ("EIO", 70)] {
            let at = first + after;
            let folder = tempfile::tempdir().unwrap();
            let inject = format!("inject={call}:error={error}:when={at}..{}", at + 1);
            let ran = Command::new("timeout")
                .args([
                    "100",
                    "strace",
                    "-f",
                    "--seccomp-bpf",
                    "-qq",
                    "-o",
                    "/dev/null",
                ])
                .args(["-e", &format!("trace={call}"), "-e", &inject])
                .arg(std::env::current_exe().unwrap())
                .args(["--exact", "spool::tests::child_whose_disk_fails"])
                .env(FAULTY, folder.path().join("spool"))
                .output()
                .expect("strace is needed: apt-get install strace");
            let said = String::from_utf8_lossy(&ran.stdout);
            assert!(ran.status.success(), "{inject}: {}\n{said}", ran.status);
        }
    }
}
