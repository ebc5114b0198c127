//! Masters of a cluster with damaged files, or a full disk.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use link::Part;

use super::cluster::{Masters, SECRET, members, voters};
use super::faults::listening;
use super::{Fleet, PATIENCE};

/// Returns the files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => all.extend(files(&path)),
            false => all.push(path),
        }
    }
    all
}

/// Returns the newest file of each kind that a master has: by its folder, and its name without
/// numbers.
fn kinds(cache: &Path) -> BTreeMap<String, PathBuf> {
    let mut kinds: BTreeMap<String, (std::time::SystemTime, PathBuf)> = BTreeMap::new();
    for below in ["cluster", "store/tables"] {
        for path in files(&cache.join(below)) {
            let metadata = path.metadata().unwrap();
            let name = path.strip_prefix(cache).unwrap().display().to_string();
            let kind = name.replace(|letter: char| letter.is_ascii_digit(), "");
            let modified = metadata.modified().unwrap();
            let known = kinds.get(&kind).map(|(at, _)| *at);
            if metadata.len() > 0 && known.is_none_or(|known| known < modified) {
                kinds.insert(kind, (modified, path));
            }
        }
    }
    let kinds = kinds.into_iter();
    kinds.map(|(kind, (_, path))| (kind, path)).collect()
}

fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    let copied = Command::new("cp").arg("-a").args([from, to]).status();
    assert!(copied.unwrap().success());
}

/// Flips one bit of a file, not of the zeros at its end.
fn flip(path: &Path, dice: u64) {
    let mut bytes = fs::read(path).unwrap();
    let end = bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(1, |end| end + 1);
    let at = usize::try_from(dice).unwrap() % (end * 8);
    bytes[at / 8] ^= 1 << (at % 8);
    fs::write(path, bytes).unwrap();
}

/// Returns the numbers of the events with this tag that a master shows.
pub(super) fn numbers(fleet: &Fleet, tag: &str, last: i64) -> BTreeSet<i64> {
    let mut pipe = listening(fleet, tag);
    let mut all = BTreeSet::new();
    while !all.contains(&last) {
        let event = match pipe.next(Some(PATIENCE)).unwrap() {
            Part::Data(event) => event,
            end => panic!("the events ended: {end:?}"),
        };
        let number = event.get("data").and_then(|data| data.get("n"));
        all.insert(number.unwrap().to_text().parse().unwrap());
    }
    all
}

/// Fires a numbered event at a master. Returns whether it was acknowledged.
pub(super) fn fire(masters: &Masters, number: usize, tag: &str, n: i64, filler: usize) -> bool {
    let data = format!("{{\"n\": {n}, \"filler\": \"{}\"}}", "x".repeat(filler));
    let words = ["salt-run", "event.send", tag, &data];
    masters.all[number - 1].run(&words).out.contains("True")
}

/// Waits until a master has ended, or has the same state as the first one. Returns whether it serves.
fn serves(masters: &mut Masters, number: usize) -> bool {
    let applied = |fleet: &Fleet| {
        let status = fleet.run(&["salt-run", "--out=json", "cluster.status"]).out;
        let status: serde_json::Value = serde_json::from_str(&status).unwrap_or_default();
        status["applied_index"].as_u64()
    };
    let began = Instant::now();
    loop {
        let fleet = &mut masters.all[number - 1];
        if fleet
            .master
            .as_mut()
            .unwrap()
            .0
            .try_wait()
            .unwrap()
            .is_some()
        {
            return false;
        }
        let is_up = fleet.path("master/run/master.sock").exists();
        if is_up
            && let Some(first) = applied(&masters.all[0])
            && applied(&masters.all[number - 1]) >= Some(first)
        {
            return true;
        }
        let logs = masters.all[number - 1].logs();
        assert!(
            began.elapsed() < PATIENCE,
            "it neither ends nor serves: {logs}"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_flipped_bit_is_named_and_a_damaged_master_joins_again_as_a_new_one() {
    const LAST: i64 = 60;
    let mut masters = Masters::with(3, SECRET);
    // More than the tables keep in memory, and a snapshot of many pieces.
    for n in 0..=LAST {
        assert!(fire(&masters, 1, "test/kept", n, 100_000));
    }
    let all = numbers(&masters.all[0], "test/kept", LAST);
    let cache = masters.all[2].path("master/cache");
    let saved = masters.all[2].path("saved");
    let output = masters.all[2].path("master/output");
    let log = masters.all[2].path("master/log");
    masters.all[2].kill_master();
    let (mut refused, mut unharmed) = (BTreeSet::new(), BTreeSet::new());
    let kinds_of_files = kinds(&cache).into_keys().collect::<Vec<_>>();
    for (dice, kind) in (1_u64..).zip(kinds_of_files.iter().chain(&kinds_of_files)) {
        let Some(path) = kinds(&cache).remove(kind) else {
            continue;
        };
        copy(&cache, &saved);
        flip(&path, dice.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 8);
        for text in [&output, &log] {
            fs::write(text, "").unwrap();
        }
        masters.all[2].begin_master();
        let is_served = serves(&mut masters, 3);
        if is_served {
            assert_eq!(numbers(&masters.all[2], "test/kept", LAST), all, "{kind}");
            unharmed.insert(kind.clone());
            masters.all[2].kill_master();
        } else {
            masters.all[2].kill_master();
            let logs = fs::read_to_string(&output).unwrap();
            let folder = cache.display().to_string();
            assert!(
                logs.contains(&folder) && logs.contains("remove "),
                "{kind}: {logs}"
            );
            assert!(!logs.contains("panicked"), "{kind}: {logs}");
            refused.insert(kind.clone());
            // It has never run with this damage.
            copy(&saved, &cache);
        }
    }
    println!("refused: {refused:?}\nunharmed: {unharmed:?}");
    for kind in ["cluster/node", "cluster/log/.jnl", "store/tables/.jnl"] {
        assert!(kinds_of_files.iter().any(|known| known == kind), "{kind}");
    }
    assert!(refused.contains("cluster/log/.jnl") && refused.contains("cluster/node"));
    // The remedy of the message.
    let before = members(&masters.all[0])["membership_version"].as_u64();
    for folder in ["cluster", "store"] {
        fs::remove_dir_all(cache.join(folder)).unwrap();
    }
    masters.all[2].start_master();
    masters.soon("the new master has a vote", |masters| {
        members(&masters.all[0])["membership_version"].as_u64() > before
            && masters.all.iter().all(|fleet| voters(fleet).len() == 3)
    });
    assert_eq!(numbers(&masters.all[2], "test/kept", LAST), all);
}

/// A small disk below a folder.
pub(super) struct SmallDisk(PathBuf);

impl SmallDisk {
    pub(super) fn at(folder: PathBuf) -> Self {
        fs::create_dir_all(&folder).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=16m", "tmpfs"])
            .arg(&folder)
            .status();
        assert!(mounted.unwrap().success());
        Self(folder)
    }

    pub(super) fn fill(&self) {
        let mut file = fs::File::create(self.0.join("filler")).unwrap();
        let block = vec![1; 4096];
        while file.write_all(&block).is_ok() {}
    }

    fn free(&self) {
        fs::remove_file(self.0.join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_leader_with_a_full_disk_ends_and_the_others_go_on_without_a_loss() {
    if !rustix::process::geteuid().is_root() {
        println!("only root can mount a small disk");
        return;
    }
    let mut masters = Masters::prepared(3, SECRET);
    let disk = SmallDisk::at(masters.all[0].path("master/cache"));
    masters.start_all();
    let first = masters.name(1);
    let transferred = masters.all[1].run(&["salt-run", "cluster.transfer_leader", &first]);
    assert_eq!(transferred.rc, Some(0), "{}", transferred.out);
    masters.soon("the master with the small disk leads", |masters| {
        members(&masters.all[0])["leader_id"] == masters.name(1)
    });
    assert!(fire(&masters, 2, "test/kept", 0, 0));
    disk.fill();
    let mut acknowledged = BTreeSet::from([0]);
    let mut last = 0;
    let began = Instant::now();
    let has_ended = |masters: &mut Masters| {
        let master = masters.all[0].master.as_mut().unwrap();
        master.0.try_wait().unwrap().is_some()
    };
    while !has_ended(&mut masters) {
        assert!(began.elapsed() < PATIENCE, "{}", masters.all[0].logs());
        last += 1;
        if fire(&masters, 2, "test/kept", last, 60_000) {
            acknowledged.insert(last);
        }
    }
    let output = fs::read_to_string(masters.all[0].path("master/output")).unwrap();
    assert!(output.contains("No space left on device"), "{output}");
    assert!(!output.contains("panicked"), "{output}");
    masters.all[0].kill_master();
    masters.takes_changes(2);
    last += 1;
    assert!(fire(&masters, 3, "test/kept", last, 0));
    acknowledged.insert(last);
    // It ends again while the disk is full, and comes back when it is not.
    masters.all[0].begin_master();
    masters.soon("it names the disk", |masters| {
        let output = fs::read_to_string(masters.all[0].path("master/output")).unwrap();
        output.matches("No space left on device").count() > 1
    });
    masters.all[0].kill_master();
    disk.free();
    masters.all[0].start_master();
    for number in 1..=3 {
        let numbers = numbers(&masters.all[number - 1], "test/kept", last);
        let lost: Vec<_> = acknowledged.difference(&numbers).collect();
        assert!(lost.is_empty(), "the master {number} has lost {lost:?}");
    }
    for fleet in &mut masters.all {
        fleet.kill_master();
    }
}
