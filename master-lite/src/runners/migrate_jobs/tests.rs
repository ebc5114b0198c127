#![expect(clippy::disallowed_methods, reason = "a test's own files")]

use std::fs;
use std::os::unix::fs::symlink;

use super::*;
use crate::runners::tests::World;
use value::json;

const PING: &str = "20261119100843468059";
const STATES: &str = "20261119101055879502";
const UNIQUE: &str = "20261119101200000001_4711";
const NOCACHE: &str = "20261119101300000002";
const SYNDIC: &str = "20261119101400000003";
const OLD: &str = "20261119101500000004";
const STUB: &str = "20261119101600000005";

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/corpus/job_cache")
}

/// Returns what Salt reads from the recorded cache.
fn salt() -> Value {
    json::read(&fs::read_to_string(corpus().join("salt.json")).unwrap()).unwrap()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

/// A master in whose cache a Salt master has left its jobs.
struct Left {
    world: World,
    root: PathBuf,
}

impl Left {
    fn new() -> Self {
        let world = World::new();
        let root = world.master.runners.runs.opts.cachedir().join("jobs");
        assert!(root.starts_with(world.folder.path()));
        copy(&corpus().join("jobs"), &root);
        Self { world, root }
    }

    /// Returns the folder of a job.
    fn folder(&self, jid: &str) -> PathBuf {
        let tops = fs::read_dir(&self.root).unwrap().map(Result::unwrap);
        let mut jobs = tops.flat_map(|top| fs::read_dir(top.path()).unwrap().map(Result::unwrap));
        let is_it = |path: &Path| fs::read_to_string(path.join("jid")).is_ok_and(|of| of == jid);
        let found = jobs.find(|job| is_it(&job.path())).unwrap();
        found.path()
    }

    fn migrate(&self, dry_run: bool) -> Value {
        let args = format!(r#"[{{"__kwarg__": true, "dry_run": {dry_run}}}]"#);
        let answer = self.world.run("cluster.migrate_jobs_to_cache", &args);
        json::read(&answer).unwrap()
    }

    /// Returns the counts of an answer: scanned, migrated, skipped and returns.
    fn counts(&self, dry_run: bool) -> [i64; 4] {
        let answer = self.migrate(dry_run);
        ["scanned", "migrated", "skipped", "returns_migrated"]
            .map(|name| answer.get(name).unwrap().as_int().unwrap())
    }

    fn job(&self, jid: &str) -> Value {
        let shown = self.world.run("jobs.list_job", &format!(r#"["{jid}"]"#));
        json::read(&shown).unwrap()
    }

    fn all(&self) -> String {
        self.world.run("jobs.list_jobs", "[]")
    }
}

#[test]
fn jobs_of_salt_are_counted_then_copied_and_shown_as_salt_shows_them() {
    let left = Left::new();
    let store = &left.world.master.store;
    let before = left.all();
    let salt = salt();
    let answer = |dry_run: bool| {
        let mut answer = salt.get("answer").unwrap().as_map().unwrap().clone();
        answer.insert("dry_run", dry_run);
        answer.insert("jobs_root", left.root.display().to_string());
        // As text, because the order of the keys matters.
        Value::Map(answer).to_text()
    };
    assert_eq!(left.migrate(true).to_text(), answer(true));
    assert_eq!(left.all(), before);
    assert_eq!(left.migrate(false).to_text(), answer(false));
    for (jid, shown) in salt.get("jobs").unwrap().as_map().unwrap() {
        let mut own = left.job(&jid.to_text());
        let own = own.as_map_mut().unwrap();
        own.remove("jid");
        assert_eq!(Value::Map(own.clone()), *shown);
    }
    let stored = store.job(STATES).unwrap().unwrap();
    assert!(left.job(STUB).get("Error").is_some());
    assert_eq!(stored.at_ms, 1_795_083_055_879);
    // Nothing changes when it runs again, no event is fired, and the files stay.
    let after = left.all();
    assert_eq!(left.migrate(false).to_text(), answer(false));
    assert_eq!(left.all(), after);
    let mut events = store.events(1).unwrap().map(Result::unwrap);
    assert!(events.all(|event| event.tag.starts_with("salt/run/")));
    assert!(left.folder(PING).join("m1/return.p").exists());
}

#[test]
fn a_return_is_stored_with_the_fields_that_other_returns_have() {
    let left = Left::new();
    left.migrate(false);
    let id = "m1".parse().unwrap();
    let returned = left.world.master.store.returned(STATES, &id).unwrap();
    let data = returned.unwrap().data;
    let text = |name: &str| data.get(name).unwrap().to_text();
    assert_eq!(
        (text("id"), text("jid"), text("fun")),
        ("m1".into(), STATES.into(), "state.apply".into())
    );
    // The id of a load without it is in the file `jid`.
    let left = Left::new();
    let folder = left.folder(OLD);
    fs::write(folder.join(".load.p"), b"\x81\xa3fun\xa1x").unwrap();
    assert_eq!(left.counts(false), [7, 6, 1, 6]);
    assert_eq!(left.job(OLD).get("Function").unwrap().to_text(), "x");
    fs::write(folder.join("jid"), "req").unwrap();
    assert_eq!(left.counts(false), [7, 5, 2, 5]);
    // Other fields of a load, such as a token of the user, are not stored.
    let job = left.world.master.store.job(PING).unwrap().unwrap();
    let names: Vec<String> = job.load.keys().map(Value::to_text).collect();
    assert_eq!(
        names,
        ["jid", "tgt_type", "tgt", "user", "fun", "arg", "metadata"]
    );
}

#[test]
fn damaged_and_hostile_files_are_skipped_and_counted() {
    let left = Left::new();
    let write = |jid: &str, name: &str, bytes: &[u8]| {
        fs::write(left.folder(jid).join(name), bytes).unwrap();
    };
    // A load that is cut.
    let load = fs::read(left.folder(PING).join(".load.p")).unwrap();
    write(PING, ".load.p", &load[..load.len() / 2]);
    // A return and an outputter without bytes, as after a power cut.
    write(STATES, "m1/return.p", b"");
    write(UNIQUE, "m1/out.p", b"");
    // A job id that leads out of the folder.
    write(NOCACHE, ".load.p", b"\x82\xa3jid\xa7../../x\xa3fun\xa1x");
    // Minions that are no list, and one with a name that no minion can have.
    write(SYNDIC, ".minions.syndic1.p", b"\x01");
    write(SYNDIC, ".minions.p", b"\x92\xa2m1\xa4../x");
    // A symbolic link in the place of a file, of a folder of a minion, of a job, and of several jobs.
    let secret = left.world.folder.path().join("secret");
    fs::write(&secret, b"\x81\xa6return\xa6secret").unwrap();
    let old = left.folder(OLD);
    fs::remove_file(old.join("m1/return.p")).unwrap();
    symlink(&secret, old.join("m1/return.p")).unwrap();
    symlink(left.folder(SYNDIC).join("s1"), old.join("m2")).unwrap();
    symlink(&old, old.with_file_name("linked")).unwrap();
    symlink(old.parent().unwrap(), left.root.join("linked")).unwrap();
    // A file that is too large, a pipe, and a folder that no minion can have.
    let large = |jid: &str, id: &str| {
        fs::create_dir(left.folder(jid).join(id)).unwrap();
        let file = fs::File::create(left.folder(jid).join(id).join("return.p"));
        file.unwrap()
            .set_len(wire::payload::LIMITS.bytes as u64 + 1)
            .unwrap();
    };
    large(OLD, "m3");
    large(OLD, "-m4");
    fs::create_dir(old.join("m5")).unwrap();
    let pipe = old.join("m5/return.p");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    // Skipped: the three jobs PING, NOCACHE and STUB, the files of STATES, UNIQUE and SYNDIC (2), six
    // in OLD, and the linked folders (2).
    let expected = [7, 4, 3 + 4 + 6 + 1, 2];
    assert_eq!(left.counts(true), expected);
    assert_eq!(left.counts(false), expected);
    let shown = |jid: &str, name: &str| left.job(jid).get(name).unwrap().to_text();
    assert_eq!(shown(OLD, "Result"), "{}");
    assert_eq!(shown(SYNDIC, "Minions"), "['m1']");
    assert!(!shown(UNIQUE, "Result").contains("'out'"));
    assert!(!left.all().contains("secret"));
}

#[test]
fn a_job_of_the_store_is_not_replaced_by_another_one_with_its_id() {
    let left = Left::new();
    let job = |fun: &str, minions: &[&str]| Command::Job {
        jid: PING.to_owned(),
        load: Map::new().with("fun", fun).with("user", "root"),
        minions: minions.iter().map(|id| id.parse().unwrap()).collect(),
        at_ms: 5,
    };
    let store = &left.world.master.store;
    store.apply_blocking(job("test.echo", &["m1"])).unwrap();
    assert_eq!(left.counts(false), [7, 5, 2, 4]);
    assert_eq!(
        left.job(PING).get("Function").unwrap().to_text(),
        "test.echo"
    );
    // The same job without some of its minions gets these.
    let left = Left::new();
    let store = &left.world.master.store;
    store.apply_blocking(job("test.ping", &["m9"])).unwrap();
    assert_eq!(left.counts(false), [7, 6, 1, 6]);
    let minions = left.job(PING).get("Minions").unwrap().to_text();
    assert_eq!(minions, "['m9', 'm1', 'm2', 'm3']");
    assert_eq!(store.job(PING).unwrap().unwrap().at_ms, 5);
}

#[test]
fn without_a_cache_there_is_nothing_to_do() {
    let world = World::new();
    let root = world.master.runners.runs.opts.cachedir().join("jobs");
    let shown = root.display();
    let answer = format!(
        r#"{{"status": "skipped", "reason": "no local_cache jobs root at '{shown}'; nothing to do", "scanned": 0, "migrated": 0, "skipped": 0, "returns_migrated": 0, "dry_run": false, "jobs_root": "{shown}"}}"#
    );
    assert_eq!(world.run("cluster.migrate_jobs_to_cache", "[]"), answer);
    fs::write(&root, "").unwrap();
    assert_eq!(world.run("cluster.migrate_jobs_to_cache", "[]"), answer);
    // Attack: a link in its place.
    fs::remove_file(&root).unwrap();
    symlink(world.folder.path(), &root).unwrap();
    let refused = world.run("cluster.migrate_jobs_to_cache", "[]");
    assert!(refused.contains("is a symbolic link"), "{refused}");
}
