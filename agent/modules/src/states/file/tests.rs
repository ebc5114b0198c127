//! Tests of states of files in a scratch folder: they make a change once, not twice, and never in
//! test mode.

use std::path::Path;

use state::exec::Exec;
use state::module::Ret;
use value::{Map, Value};

use crate::testing::{apply, exec_with};

struct Scratch {
    folder: tempfile::TempDir,
    cx: Exec,
}

impl Scratch {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let roots = folder.path().join("roots");
        std::fs::create_dir(&roots).unwrap();
        let opts = Map::new()
            .with("root_for_files", roots.display().to_string())
            .with(
                "cachedir",
                folder.path().join("cache").display().to_string(),
            );
        let pillar = Map::new().with("p", Map::new().with("q", "from pillar"));
        let cx = exec_with(opts, pillar);
        Self { folder, cx }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn put(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).unwrap();
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).unwrap()
    }

    fn args(&self, name: &str) -> Map {
        Map::new().with("name", self.path(name))
    }

    fn run(&self, function: &str, args: Map) -> Ret {
        apply(&self.cx, function, args).unwrap()
    }

    fn fails(&self, function: &str, args: Map) -> String {
        apply(&self.cx, function, args).unwrap_err().to_string()
    }

    fn trying(&self) -> Exec {
        let mut cx = self.cx.clone();
        cx.test = true;
        cx
    }
}

fn change<'a>(ret: &'a Ret, key: &str) -> Option<&'a Value> {
    ret.changes.get(key)
}

#[test]
fn managed_writes_a_file_once_and_says_what_it_did() {
    let scratch = Scratch::new();
    scratch.put("roots/a.txt", "one\n");
    let args = scratch
        .args("a")
        .with("source", "salt://a.txt")
        .with("mode", "0640");
    let would = apply(&scratch.trying(), "file.managed", args.clone()).unwrap();
    assert_eq!(would.result, None);
    assert!(!Path::new(&scratch.path("a")).exists());
    let first = scratch.run("file.managed", args.clone());
    assert_eq!(change(&first, "diff"), Some(&"New file".into()));
    assert_eq!(change(&first, "mode"), Some(&"0640".into()));
    assert_eq!(scratch.text("a"), "one\n");
    let second = scratch.run("file.managed", args.clone());
    assert!(!second.changes.is_true());
    scratch.put("roots/a.txt", "two\n");
    let third = scratch.run("file.managed", args);
    let diff = "--- \n+++ \n@@ -1 +1 @@\n-one\n+two\n";
    assert_eq!(change(&third, "diff"), Some(&diff.into()));
}

#[test]
fn managed_refuses_what_cannot_be() {
    let scratch = Scratch::new();
    let both = scratch
        .args("a")
        .with("source", "salt://x")
        .with("contents", "y");
    assert!(
        scratch
            .fails("file.managed", both)
            .starts_with("'source' cannot be used")
    );
    let missing = scratch.args("a").with("source", "salt://x");
    assert_eq!(
        scratch.fails("file.managed", missing),
        "Unable to manage file: Source file salt://x not found in saltenv 'base'"
    );
    let deep = scratch.args("no/a").with("contents", "y");
    assert_eq!(
        scratch.fails("file.managed", deep),
        "Parent directory not present"
    );
    let unverified = scratch.args("a").with("source", "https://localhost/x");
    assert!(
        scratch
            .fails("file.managed", unverified)
            .contains("please set source_hash")
    );
}

#[test]
fn a_source_with_another_hash_is_never_written() {
    let scratch = Scratch::new();
    scratch.put("src", "evil\n");
    let args = scratch
        .args("a")
        .with("source", scratch.path("src"))
        .with("source_hash", format!("md5={}", "0".repeat(32)));
    assert!(
        scratch
            .fails("file.managed", args)
            .contains("does not match actual checksum")
    );
    assert!(!Path::new(&scratch.path("a")).exists());
}

#[test]
fn a_replaced_file_is_kept_and_can_be_had_back() {
    let scratch = Scratch::new();
    scratch.put("a", "old\n");
    let args = scratch
        .args("a")
        .with("contents", "new")
        .with("backup", "minion");
    scratch.run("file.managed", args);
    let path: Value = scratch.path("a").into();
    let call = |function: &str, more: Vec<Value>| {
        let args = [vec![path.clone()], more].concat();
        scratch.cx.call(function, args, Map::new()).unwrap()
    };
    let backups = call("file.list_backups", Vec::new());
    assert_eq!(backups.as_map().map(Map::len), Some(1));
    let restored = call("file.restore_backup", vec![Value::Int(0)]);
    assert_eq!(restored.get("result"), Some(&true.into()));
    assert_eq!(scratch.text("a"), "old\n");
}

#[test]
fn contents_come_from_pillar_and_templates_see_what_was_accumulated() {
    let scratch = Scratch::new();
    scratch.run(
        "file.managed",
        scratch.args("a").with("contents_pillar", "p:q"),
    );
    assert_eq!(scratch.text("a"), "from pillar\n");
    scratch.put("roots/t", "{{ accumulator.acc | join('+') }}");
    let low = Map::new().with("require_in", vec![Map::new().with("file", "x")]);
    let mut collecting = scratch.cx.clone();
    collecting.chunk = Some(state::low::LowChunk::from_map(low).into());
    let text = Map::new()
        .with("name", "acc")
        .with("filename", scratch.path("b"))
        .with("text", vec!["1", "2"]);
    apply(&collecting, "file.accumulated", text.clone()).unwrap();
    let orphan = scratch.fails("file.accumulated", text);
    assert!(orphan.starts_with("Orphaned accumulator"));
    let args = scratch
        .args("b")
        .with("source", "salt://t")
        .with("template", "jinja");
    scratch.run("file.managed", args);
    assert_eq!(scratch.text("b"), "1+2");
}

#[test]
fn a_clean_folder_keeps_what_required_states_manage() {
    let scratch = Scratch::new();
    std::fs::create_dir_all(scratch.path("d/sub")).unwrap();
    for name in ["d/keep", "d/drop", "d/sub/drop", "d/x.conf"] {
        scratch.put(name, "x");
    }
    let low = Map::new()
        .with("name", scratch.path("d/keep"))
        .with("fun", "managed")
        .with("__id__", "k");
    let run = state::run::RunState {
        lowstate: vec![low],
        ..state::run::RunState::default()
    };
    let mut cx = scratch.cx.clone();
    cx.run = Some(run.into());
    let args = scratch
        .args("d")
        .with("clean", true)
        .with("exclude_pat", "*.conf")
        .with("require", vec![Map::new().with("file", "k")]);
    let ret = apply(&cx, "file.directory", args).unwrap();
    assert_eq!(
        ret.comment,
        format!("Files cleaned from directory {}", scratch.path("d"))
    );
    assert_eq!(scratch.text("d/keep"), "x");
    assert_eq!(scratch.text("d/x.conf"), "x");
    assert!(!Path::new(&scratch.path("d/sub")).exists());
}

#[test]
fn a_link_is_made_once_and_replaces_files_only_by_force() {
    let scratch = Scratch::new();
    scratch.put("f", "x");
    let args = scratch.args("l").with("target", "f");
    let first = scratch.run("file.symlink", args.clone());
    assert_eq!(change(&first, "new"), Some(&scratch.path("l").into()));
    assert!(!scratch.run("file.symlink", args).changes.is_true());
    let over = scratch.args("f").with("target", "l");
    assert!(
        scratch
            .fails("file.symlink", over.clone())
            .starts_with("File exists where")
    );
    scratch.run("file.symlink", over.with("force", true));
    assert!(Path::new(&scratch.path("f")).is_symlink());
}

#[test]
fn absent_removes_once_and_never_in_test_mode() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("d")).unwrap();
    scratch.put("d/f", "x");
    let would = apply(&scratch.trying(), "file.absent", scratch.args("d")).unwrap();
    assert_eq!(would.result, None);
    assert_eq!(scratch.text("d/f"), "x");
    let done = scratch.run("file.absent", scratch.args("d"));
    assert_eq!(
        done.comment,
        format!("Removed directory {}", scratch.path("d"))
    );
    let again = scratch.run("file.absent", scratch.args("d"));
    assert_eq!(
        again.comment,
        format!("File {} is not present", scratch.path("d"))
    );
    let root = Map::new().with("name", "/");
    assert_eq!(
        scratch.fails("file.absent", root),
        "Refusing to make \"/\" absent"
    );
}

#[test]
fn copies_and_moves_leave_what_is_there_alone_unless_forced() {
    let scratch = Scratch::new();
    scratch.put("a", "a");
    scratch.put("b", "b");
    let copy = scratch.args("b").with("source", scratch.path("a"));
    scratch.run("file.copy", copy.clone());
    assert_eq!(scratch.text("b"), "b");
    scratch.run("file.copy", copy.clone().with("force", true));
    assert_eq!(scratch.text("b"), "a");
    scratch.put("b", "b");
    scratch.run("file.rename", copy.with("force", true));
    assert_eq!(scratch.text("b"), "a");
    assert!(!Path::new(&scratch.path("a")).exists());
}
