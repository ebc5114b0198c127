//! Attacks on the file server, and files that minions send to the master.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use value::Map;
use wire::{File, List, MinePut, Push, Stat};

use crate::fleet::Fleet;
use crate::fleet::hostile::{Hostile, key, run};

fn file(path: &str, saltenv: &str) -> File {
    File {
        path: path.into(),
        saltenv: saltenv.into(),
        offset: 0,
        hash: None,
    }
}

#[test]
fn a10_nothing_outside_the_roots_is_served() {
    nothing_outside_is_served("fileserver_followsymlinks: False\n", 2);
}

#[test]
fn l2_links_out_of_the_roots_are_not_served_unless_the_configuration_says_so() {
    let fleet = nothing_outside_is_served("", 0);
    fleet.soon("the log says why", || {
        let log = fleet.master_log();
        let told = "salt/link: it links to /etc/passwd, which is outside of file_roots";
        log.contains(told) && log.contains("fileserver_followsymlinks: True")
    });
    let told = fleet.master_log().matches("links to /etc,").count();
    assert_eq!(told, 1, "{}", fleet.master_log());
}

/// Asks for files outside of the roots in every way, and for lists. Salt lists the links themselves
/// where it follows none.
fn nothing_outside_is_served(config: &str, links: u64) -> Fleet {
    let fleet = Fleet::with(&format!("auto_accept: True\n{config}"));
    fleet.write("salt/top.sls", "base: {}\n");
    fs::write(fleet.path("master/srv/secret"), "hush").unwrap();
    symlink("/etc/passwd", fleet.path("master/srv/salt/link")).unwrap();
    symlink("/etc", fleet.path("master/srv/salt/folder")).unwrap();
    run(async {
        let peer = Hostile::let_in(fleet.port(), &key(), "m1").await;
        peer.done(file("top.sls", "base")).await;
        let paths = [
            "../secret",
            "a/../../secret",
            "/etc/passwd",
            "//etc/passwd",
            "%2e%2e/secret",
            "..%2fsecret",
            "link",
            "folder/passwd",
            "top.sls\0",
            "",
            ".",
            "..",
        ];
        for path in paths {
            let (word, text) = peer.refused(file(path, "base")).await;
            assert!(
                ["missing", "invalid", "failed"].contains(&word.as_str()),
                "{path:?}: {word} {text}"
            );
            let stat = Stat {
                path: path.into(),
                saltenv: "base".into(),
            };
            peer.refused(stat).await;
        }
        for saltenv in ["../pillar", "/etc", "..", "", "a/b"] {
            let (word, _) = peer.refused(file("top.sls", saltenv)).await;
            assert_eq!(word, "invalid", "{saltenv:?}");
            let what = "files".to_owned();
            let list = List {
                what,
                saltenv: saltenv.into(),
                prefix: String::new(),
            };
            peer.refused(list).await;
        }
        let list = List {
            what: "files".into(),
            saltenv: "base".into(),
            prefix: String::new(),
        };
        assert_eq!(peer.done(list).await, 1_u64.into());
        let list = List {
            what: "symlinks".into(),
            saltenv: "base".into(),
            prefix: String::new(),
        };
        assert_eq!(peer.done(list).await, links.into());
    });
    fleet
}

/// Returns every file below a folder.
fn below(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.is_symlink() {
            found.extend(below(&path));
        } else {
            found.push(path.display().to_string());
        }
    }
    found
}

#[test]
fn a11_a_minion_writes_no_files_of_the_master() {
    let fleet = Fleet::with("auto_accept: True\n");
    run(async {
        let peer = Hostile::let_in(fleet.port(), &key(), "m1").await;
        for path in ["planted", "../../planted", "/planted", "/root/.ssh/planted"] {
            let push = Push {
                path: path.into(),
                size: 1,
                hash: "x".into(),
            };
            assert_eq!(peer.refused(push).await.0, "refused", "{path}");
            let data = Map::new().with(path, "planted");
            peer.done(MinePut { data, clear: false }).await;
        }
    });
    let planted = below(&fleet.path("master")).into_iter();
    let planted: Vec<String> = planted.filter(|path| path.contains("planted")).collect();
    assert!(planted.is_empty(), "{planted:?}");
    let out = fleet
        .run(&["salt-run", "--out=json", "cache.mine", "m1"])
        .out;
    assert!(out.contains("planted"), "{out}");
}

#[test]
fn a24_environments_are_kept_apart() {
    let mut fleet = Fleet::with("");
    fleet.kill_master();
    let etc = fleet.path("master/etc/master");
    let text = fs::read_to_string(&etc).unwrap();
    let root = fleet.path("master/srv");
    let here = root.display();
    let roots = format!("file_roots: {{base: [{here}/salt]}}\n");
    let both =
        format!("file_roots: {{base: [{here}/salt], dev: [{here}/dev/salt]}}\nauto_accept: True\n");
    assert!(text.contains(&roots));
    fs::write(&etc, text.replace(&roots, &both)).unwrap();
    fleet.write("salt/name", "of base");
    fleet.write("dev/salt/name", "of dev!");
    fleet.start_master();
    fleet.start_minion("m1", "");
    let get = |env: &str| {
        let words = ["salt", "--out=json", "m1", "cp.get_file_str", "salt://name"];
        let env = format!("saltenv={env}");
        fleet.run(&[&words[..], &[env.as_str()]].concat()).out
    };
    fleet.soon("the minion answers", || get("base").contains("of base"));
    // The same with both files in the minion's cache.
    for _ in 0..2 {
        assert!(get("dev").contains("of dev!"), "{}", get("dev"));
        assert!(get("base").contains("of base"), "{}", get("base"));
    }
}
