//! Tests of returns that go to returners in addition to the master.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use tests::program::in_recorded_environment;

use super::{Fleet, PROGRAM};

fn lines(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn has(path: &Path, parts: &[&str]) -> bool {
    let is_it = |line: &String| parts.iter().all(|part| line.contains(part));
    lines(path).iter().any(is_it)
}

fn answers(fleet: &Fleet) {
    fleet.soon("the minion answers", || {
        fleet.run(&["salt", "-t", "60", "m1", "test.ping"]).rc == Some(0)
    });
}

#[test]
fn returns_are_lines_of_a_file_for_jobs_schedules_and_configurations() {
    let mut fleet = Fleet::with("auto_accept: True\n");
    let (own, other, kept) = (
        fleet.path("own.json"),
        fleet.path("other.json"),
        fleet.path("kept.json"),
    );
    let config = format!(
        "rawfile_json.filename: {}\nother.rawfile_json.filename: {}\nschedule:\n  probe:\n    function: test.echo\n    args: [by plan]\n    seconds: 1\n    returner: rawfile_json\n    return_job: False\n",
        own.display(),
        other.display()
    );
    fleet.start_minion("m1", &config);
    fleet.soon("the scheduled job is returned", || {
        has(
            &own,
            &[
                r#""fun": "test.echo""#,
                r#""return": "by plan""#,
                r#""schedule": "probe""#,
                r#""id": "m1""#,
            ],
        )
    });
    answers(&fleet);
    let asked = |words: &[&str]| {
        let words: Vec<&str> = ["salt", "-t", "60"].iter().chain(words).copied().collect();
        let answer = fleet.run(&words);
        assert_eq!(answer.rc, Some(0), "{}", answer.out);
    };
    asked(&["--return", "rawfile_json", "m1", "test.echo", "asked"]);
    fleet.soon("the job is returned", || {
        has(&own, &[r#""return": "asked""#, r#""success": true"#])
    });
    let words = [
        "--return=rawfile_json",
        "--return_config=other",
        "m1",
        "test.echo",
        "elsewhere",
    ];
    asked(&words);
    fleet.soon("the job is returned to the other file", || {
        has(&other, &[r#""return": "elsewhere""#])
    });
    let kwargs = format!(r#"--return_kwargs={{"filename": "{}"}}"#, kept.display());
    asked(&["--return=rawfile_json", &kwargs, "m1", "test.echo", "there"]);
    fleet.soon("the job is returned to the given file", || {
        has(&kept, &[r#""return": "there""#])
    });
    assert!(!has(&own, &["elsewhere"]));
    // The returners of the configuration are used in any case.
    fleet.kill_minion("m1");
    let config = format!(
        "return: [rawfile_json, local_cache]\nrawfile_json: {{filename: {}}}\n",
        kept.display()
    );
    fleet.start_minion("m1", &config);
    answers(&fleet);
    fleet.soon("every job is returned", || {
        has(&kept, &[r#""fun": "test.ping""#, r#""return": true"#])
    });
}

#[test]
fn returners_of_the_tree_are_programs_in_any_language() {
    let mut fleet = Fleet::with("auto_accept: True\n");
    let out = fleet.path("returned");
    let program = format!(
        "#!/bin/sh\nwhile read -r request; do\n  case $request in\n  '{{\"load\"'*) echo '{{\"return\": {{\"functions\": {{\"returner\": {{\"args\": [[\"ret\"]]}}}}}}}}' ;;\n  *) echo \"$request\" >> {}; echo '{{\"return\": null}}' ;;\n  esac\ndone\n",
        out.display()
    );
    fleet.write("salt/_returners/keep", &program);
    let file = fleet.path("master/srv/salt/_returners/keep");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    fleet.start_minion("m1", "");
    answers(&fleet);
    let synced = fleet.run(&["salt", "-t", "60", "m1", "saltutil.sync_returners"]);
    assert!(synced.out.contains("returners.keep"), "{}", synced.out);
    let words = [
        "salt",
        "-t",
        "60",
        "--return=keep",
        "m1",
        "test.echo",
        "kept",
    ];
    assert_eq!(fleet.run(&words).rc, Some(0));
    fleet.soon("the returner program gets the return", || {
        has(&out, &[r#""run": "keep.returner""#, r#""return": "kept""#])
    });
    // A missing returner is reported in the minion's log, and the job succeeds anyway.
    let words = ["salt", "-t", "60", "--return=carbon", "m1", "test.ping"];
    assert_eq!(fleet.run(&words).rc, Some(0));
    fleet.soon("the missing returner is logged", || {
        has(
            &fleet.path("m1/log"),
            &["returner carbon cannot store the return"],
        )
    });
}

#[test]
fn a_call_without_a_master_goes_to_returners_that_there_are() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path().display();
    fs::create_dir(dir.path().join("etc")).unwrap();
    let text = format!(
        "id: m1\nfile_client: local\nroot_dir: {here}\npki_dir: {here}/pki\ncachedir: {here}/cache\nsock_dir: {here}/run\nlog_file: {here}/log\nenable_fqdns_grains: False\nrawfile_json.filename: {here}/out\n"
    );
    fs::write(dir.path().join("etc/minion"), text).unwrap();
    let call = |words: &[&str]| {
        in_recorded_environment(&mut Command::new(&*PROGRAM))
            .args(["salt-call", "-c"])
            .arg(dir.path().join("etc"))
            .args(words)
            .output()
            .unwrap()
    };
    assert!(
        call(&["--return=rawfile_json", "test.echo", "x"])
            .status
            .success()
    );
    assert!(has(
        &dir.path().join("out"),
        &[
            r#""return": "x""#,
            r#""fun": "test.echo", "fun_args": ["x"]"#,
            r#""id": "m1""#
        ]
    ));
    let refused = call(&["--return=carbon", "test.echo", "y"]);
    assert!(!refused.status.success());
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        said.contains("The returner 'carbon' is not available"),
        "{said}"
    );
    assert!(refused.stdout.is_empty());
}
