//! Tests that write, tear, read and remove records.

use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::low::LowChunk;
use crate::run::run;
use crate::run::tests_support::exec;

fn chunk(id: &str, fun: &str) -> LowChunk {
    let words = [
        ("state", "test"),
        ("fun", fun),
        ("name", id),
        ("__id__", id),
        ("__sls__", "s"),
    ];
    LowChunk::from_map(words.into_iter().collect())
}

fn scratch() -> (tempfile::TempDir, Exec) {
    let folder = tempfile::tempdir().unwrap();
    let cachedir = folder.path().join("cache").display().to_string();
    let cx = exec(Map::new().with("cachedir", cachedir).with("runs_keep", 5));
    (folder, cx)
}

fn invocation(jid: &str) -> Invocation<'_> {
    Invocation {
        jid,
        fun: "state.apply",
        args: vec!["web"].into(),
        user: None,
    }
}

fn recorded_run(cx: &Exec, jid: &str) -> PathBuf {
    let plan = Plan::of_chunks(vec![chunk("a", "nop"), chunk("b", "fail_without_changes")]);
    let record = Record::start(cx, &invocation(jid), &plan).unwrap();
    run(cx, &plan, &record);
    record.end(cx, 2);
    record.path().to_path_buf()
}

const JID: &str = "20251120122702123456";

#[test]
fn a_run_is_read_as_it_was_written() {
    let (_folder, cx) = scratch();
    let path = recorded_run(&cx, JID);
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    let read = read(&path).unwrap();
    assert_eq!(read.start.get("jid"), Some(&JID.into()));
    assert_eq!(read.start.get("fun"), Some(&"state.apply".into()));
    assert_eq!(read.start.get("args"), Some(&vec!["web"].into()));
    assert_eq!(read.start.get("plan").unwrap().to_text().len(), 16);
    assert_eq!(read.returns.len(), 2);
    let b = read
        .returns
        .get("test_|-b_|-b_|-fail_without_changes")
        .unwrap();
    assert_eq!(b.get("result"), Some(&false.into()));
    assert_eq!(read.end.unwrap().get("retcode"), Some(&2.into()));
    assert!(Record::start(&cx, &invocation(JID), &Plan::default()).is_err());
}

#[test]
fn a_torn_tail_is_cut_wherever_it_tears() {
    let (_folder, cx) = scratch();
    let path = recorded_run(&cx, JID);
    let whole = std::fs::read(&path).unwrap();
    let mut seen = 0;
    for length in 0..whole.len() {
        std::fs::write(&path, &whole[..length]).unwrap();
        let Ok(read) = read(&path) else { continue };
        assert!(read.end.is_none() && read.returns.len() >= seen);
        seen = read.returns.len();
    }
    assert_eq!(seen, 2);
    let mut bent = whole;
    let at = bent.len() / 2;
    bent[at] ^= 1;
    std::fs::write(&path, &bent).unwrap();
    assert!(read(&path).unwrap().end.is_none());
}

#[test]
fn the_oldest_finished_records_make_room() {
    let (_folder, cx) = scratch();
    let jid = |n: u32| format!("202511201227021234{n:02}");
    // The first did not finish.
    drop(Record::start(&cx, &invocation(&jid(0)), &Plan::default()).unwrap());
    for n in 1..8 {
        recorded_run(&cx, &jid(n));
    }
    let left: Vec<String> = [0, 4, 5, 6, 7].map(jid).to_vec();
    assert_eq!(jids(cx.opts()), left);
    let tight = exec(
        Map::new()
            .with("cachedir", cx.opts().cachedir().display().to_string())
            .with("runs_bytes", 1),
    );
    recorded_run(&tight, &jid(8));
    assert_eq!(jids(cx.opts()), [jid(0), jid(8)]);
}

#[test]
fn another_plan_has_another_hash() {
    let plan = |fun| Plan::of_chunks(vec![chunk("a", fun)]);
    assert_eq!(plan_hash(&plan("nop")), plan_hash(&plan("nop")));
    assert_ne!(
        plan_hash(&plan("nop")),
        plan_hash(&plan("succeed_with_changes"))
    );
}

#[test]
fn a_record_of_an_older_version_is_read() {
    let (folder, _cx) = scratch();
    let path = folder.path().join("old");
    let lines = [
        r#"{"start": 1, "jid": "20251120122702123456", "fun": "state.sls", "args": {}, "plan": "00", "pid": 1, "time": "x"}"#,
        r#"{"barrier": "step b"}"#,
        r#"{"return": "test_|-a_|-a_|-nop", "ret": {"result": true}}"#,
    ];
    let whole = lines.map(|text| {
        let Ok(Value::Map(entry)) = json::read(text) else {
            panic!("{text}")
        };
        line(&entry)
    });
    std::fs::write(&path, whole.concat()).unwrap();
    let recorded = read(&path).unwrap();
    assert_eq!((recorded.returns.len(), recorded.end), (1, None));
    assert_eq!(
        start_of(&path).unwrap().get("fun"),
        Some(&"state.sls".into())
    );
}

#[test]
fn a_record_of_a_newer_version_is_refused() {
    let (folder, _cx) = scratch();
    let path = folder.path().join("new");
    let start = Map::new().with("start", VERSION + 1).with("jid", JID);
    std::fs::write(&path, line(&start)).unwrap();
    let error = read(&path).err().unwrap().to_string();
    assert!(error.contains("was written by a newer version"), "{error}");
}

#[test]
fn what_is_taken_up_is_read_with_what_came_before() {
    let (_folder, cx) = scratch();
    let plan = Plan::of_chunks(vec![chunk("a", "nop"), chunk("b", "nop")]);
    let record = Record::start(&cx, &invocation(JID), &plan).unwrap();
    let ret = Map::new().with("result", true);
    let [a, b] = ["a", "b"].map(|id| format!("test_|-{id}_|-{id}_|-nop"));
    record.returned(&cx, &a, &ret);
    let part = format!("{b}\n");
    record.part_begins(&part);
    record.part_returned(&cx, &part, &a, &ret);
    assert!(record.begins(&cx, &part, &b, Policy::Ask));
    let path = record.path().to_path_buf();
    assert!(is_alive(&path) && Record::resume(&cx, JID, "1", &plan, &[]).is_err());
    drop(record);
    let torn = std::fs::read(&path).unwrap();
    std::fs::write(&path, [torn.as_slice(), b"0000"].concat()).unwrap();
    let cut = read(&path).unwrap();
    let begun = StartedStep {
        part: part.clone(),
        tag: b.clone(),
        policy: Policy::Ask,
        boot: None,
        routed: false,
    };
    assert_eq!((cut.begun, cut.parts[&part].len()), (vec![begun], 1));
    assert!(!is_alive(&path) && !is_finished(&path));
    let again = Record::resume(&cx, JID, "1", &plan, std::slice::from_ref(&b)).unwrap();
    again.end(&cx, 0);
    let read = read(&path).unwrap();
    assert_eq!((read.returns.len(), read.resumed.len()), (1, 1));
    assert!(read.begun.is_empty() && read.parts.is_empty() && read.end.is_some());
}

#[test]
fn lines_without_room_are_written_when_there_is_some_or_the_record_goes() {
    let (_folder, cx) = scratch();
    let plan = Plan::of_chunks(vec![chunk("a", "nop"), chunk("b", "nop")]);
    let record = Record::start(&cx, &invocation(JID), &plan).unwrap();
    let full = || OpenOptions::new().append(true).open("/dev/full").unwrap();
    let swap = |file| std::mem::replace(&mut record.written.lock().unwrap().file, file);
    let ret = Map::new().with("result", true);
    let good = swap(full());
    record.returned(&cx, "a", &ret);
    assert!(!record.begins(&cx, "", "b", Policy::Never));
    drop(swap(good));
    record.returned(&cx, "b", &ret);
    let path = record.path().to_path_buf();
    assert_eq!(read(&path).unwrap().returns.len(), 2);
    swap(full());
    record.end(&cx, 0);
    assert!(!path.exists());
}
