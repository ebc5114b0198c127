//! Tests with planted secrets in a pillar that a master compiles, and in the master's own runs. The
//! tests search for them in everything that the master and its minion store and print.

use std::fs;
use std::path::Path;

use super::Fleet;
use crate::secret::Gpg;

/// Parts of the secrets.
const PLANTED: [&str; 4] = [
    "keyed-planted",
    "crypted-planted",
    "given-planted",
    "silent-planted",
];

const STATES: &str = "\
f:
  file.managed:
    - name: @HERE@/file
    - contents: '{{ pillar.url }} {{ pillar.get('crypted', '') }} {{ pillar.pin }}'
show:
  cmd.run:
    - name: cat @HERE@/file; echo {{ pillar.db_pass }}
    - fire_event: True
fails:
  cmd.run:
    - name: 'cat @HERE@/file >&2; false'
quiet:
  cmd.run:
    - name: echo {{ 'silent' ~ '-planted-word' }}; false
    - no_log: True
    - fire_event: True
";

const ORCH: &str = "\
own:
  salt.function:
    - name: cmd.run
    - tgt: m1
    - arg: [echo {{ pillar.own_pass }}]
silent:
  salt.function:
    - name: cmd.run
    - tgt: m1
    - arg: [\"echo {{ 'silent' ~ '-planted-word' }}\"]
    - no_log: True
states:
  salt.state:
    - tgt: m1
    - sls: s
    - require: [{salt: own}]
";

fn search(folder: &Path, skipped: &[&Path]) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if skipped.contains(&path.as_path()) {
            continue;
        }
        if path.is_dir() {
            search(&path, skipped);
        } else if path.is_file() {
            let bytes = fs::read(&path).unwrap();
            let text = String::from_utf8_lossy(&bytes);
            for planted in PLANTED {
                assert!(!text.contains(planted), "{planted} in {}", path.display());
            }
        }
    }
}

/// A master with secrets in its pillar, and a minion whose states write below `out`.
fn planted(gpg: Option<&Gpg>, home: &Path) -> Fleet {
    let config = format!(
        "gpg_keydir: {}\nsecret_keys: ['*_pass', pin]\n",
        home.display()
    );
    let mut fleet = Fleet::with(&config);
    fleet.write("pillar/top.sls", "base: {'*': [s]}\n");
    let word = gpg.map(|gpg| {
        let word = gpg.crypted("crypted-planted-word", 2);
        format!("crypted: |\n{word}")
    });
    let plain = "db_pass: keyed-planted-word\npin: 40711\nurl: 'postgres://u:keyed-planted-word@dbhost/x'\n";
    let mine = "mine_functions:\n  host: {mine_function: test.echo, text: dbhost}\n  shared: {mine_function: pillar.get, key: db_pass}\n";
    let plain = format!("{plain}{mine}");
    let pillar = format!("#!yaml|gpg\n{plain}{}", word.unwrap_or_default());
    fleet.write("pillar/s.sls", &pillar);
    let here = fleet.path("out");
    fs::create_dir(&here).unwrap();
    let states = STATES.replace("@HERE@", &here.display().to_string());
    fleet.write("salt/s.sls", &states);
    fleet.write("salt/orch.sls", ORCH);
    fleet.accepted(&["m1"]);
    fleet
}

#[test]
fn neither_a_master_nor_its_minion_keeps_or_prints_a_secret() {
    let keys = tempfile::tempdir().unwrap();
    let home = keys.path().join("keys");
    let gpg = Gpg::new(&home);
    let mut fleet = planted(gpg.as_ref(), &home);
    let here = fleet.path("out");
    let mut told = String::new();
    let mut ask = |words: &[&str]| {
        let answer = fleet.run(words);
        told.push_str(&answer.out);
        answer.out
    };
    let applied = ask(&["salt", "-t", "60", "--out=json", "m1", "state.apply", "s"]);
    assert!(
        applied.contains("postgres://u:‹secret›@dbhost/x"),
        "{applied}{}",
        fleet.logs()
    );
    assert!(applied.contains("quiet_|-‹secret›_|-run"), "{applied}");
    let held = fs::read_to_string(here.join("file")).unwrap();
    assert!(
        held.contains("keyed-planted-word") && held.contains("40711"),
        "{held}"
    );
    let items = ask(&["salt", "-t", "60", "--out=json", "m1", "pillar.items"]);
    assert!(items.contains("\"pin\": \"‹secret›\""), "{items}");
    let shown = ask(&["salt-run", "--out=json", "pillar.show_pillar", "m1"]);
    assert!(
        shown.contains("‹secret›") && !shown.contains("40711"),
        "{shown}"
    );
    // The mine is for all: it takes what is no secret, and says so of the rest.
    let update = ["salt", "-t", "60", "--out=json", "m1", "mine.update"];
    assert!(ask(&update).contains("true"));
    let mined = ask(&["salt-run", "--out=json", "cache.mine", "m1"]);
    assert!(
        mined.contains("dbhost") && !mined.contains("shared"),
        "{mined}"
    );
    let send = ["salt", "-t", "60", "m1", "mine.send", "shared", "key=url"];
    let sent = ask(&[&send[..], &["mine_function=pillar.get"]].concat());
    assert!(sent.contains("in the mine: it contains a secret"), "{sent}");
    let given = "pillar={'own_pass': 'given-planted-word'}";
    let orch = ask(&["salt-run", "--out=json", "state.orchestrate", "orch", given]);
    assert!(orch.contains("own"), "{orch}");
    let jobs = ask(&["salt-run", "--out=json", "jobs.list_jobs"]);
    let jobs: serde_json::Value = serde_json::from_str(&jobs).unwrap();
    let jids: Vec<String> = jobs.as_object().unwrap().keys().cloned().collect();
    assert!(jids.len() > 2, "{jids:?}");
    for jid in &jids {
        ask(&["salt-run", "--out=json", "jobs.lookup_jid", jid]);
    }
    for planted in PLANTED {
        assert!(!told.contains(planted), "{planted} in {told}");
        assert!(
            !fleet.logs().contains(planted),
            "{planted}: {}",
            fleet.logs()
        );
    }
    fleet.kill_minion("m1");
    fleet.kill_master();
    let folder = fleet.path("");
    search(&folder, &[&here, &fleet.path("master/srv")]);
}
