use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use value::{Map, Value, json};

use super::*;
use crate::config::{Default, all, master_table};
use value::yaml::{YamlFault, YamlLayout};

/// A reader for lines of `name: JSON`, which is enough YAML for these tests.
struct Lines;

impl Yaml for Lines {
    fn load(&self, text: &str) -> Result<Value, YamlFault> {
        let mut map = Map::new();
        for (index, line) in text
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
        {
            let fault = || YamlFault {
                message: "not a line".into(),
                line: index + 1,
                column: 1,
            };
            let (key, value) = line.split_once(':').ok_or_else(fault)?;
            let value = if value.trim().is_empty() {
                Value::Null
            } else {
                json::read(value).map_err(|_| fault())?
            };
            map.insert(key, value);
        }
        Ok(Value::Map(map))
    }

    fn dump(&self, _: &Value, _: YamlLayout) -> String {
        String::new()
    }
}

static FOLDERS: AtomicU32 = AtomicU32::new(0);

struct Folder(PathBuf);

impl Folder {
    fn with(files: &[(&str, &str)]) -> Self {
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let folder =
            Self(std::env::temp_dir().join(format!("cli-config-{}-{number}", std::process::id())));
        fs::create_dir_all(&folder.0).unwrap();
        for (name, text) in files {
            let path = folder.0.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    fn load(&self, overrides: Map) -> Result<Loaded, ConfigError> {
        load(&self.0, overrides, &Lines)
    }

    fn path(&self) -> String {
        self.0.to_string_lossy().into_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn text(loaded: &Loaded, key: &str) -> String {
    loaded
        .opts
        .get(key)
        .map(Value::to_text)
        .unwrap_or_else(|| "(not there)".into())
}

#[test]
fn files_in_minion_d_stand_over_the_main_file_and_are_merged_with_each_other() {
    let folder = Folder::with(&[
        (
            "minion",
            "id: \"m1\"\nl: [0]\nkept: 1\ninclude: [\"more/*.conf\", \"none\"]\n",
        ),
        ("minion.d/b.conf", "l: [2, 3]\nd: {\"b\": 2}\n"),
        (
            "minion.d/a.conf",
            "l: [1, 2]\nd: {\"a\": 1}\ninclude: \"../deep\"\n",
        ),
        ("minion.d/.hidden.conf", "l: [9]\n"),
        ("deep", "deep: true\n"),
        ("more/x.conf", "kept: 2\n"),
    ]);
    let loaded = folder.load(Map::new()).unwrap();
    assert_eq!(text(&loaded, "l"), "[1, 2, 3]");
    assert_eq!(text(&loaded, "d"), "{'a': 1, 'b': 2}");
    assert_eq!(
        (text(&loaded, "deep"), text(&loaded, "kept")),
        ("True".into(), "2".into())
    );
    assert_eq!(
        loaded.warnings,
        [format!(
            "Warning parsing configuration file: \"include\" path/glob '{}/none' matches no files",
            folder.path()
        )]
    );
    assert_eq!(
        text(&loaded, "conf_file"),
        format!("{}/minion", folder.path())
    );
}

#[test]
fn paths_move_below_the_root_as_in_salt() {
    let minion = "id: \"m1\"\nroot_dir: \"/tmp/x\"\nlog_file: \"a/b\"\npki_dir: \"pk\"\ncachedir: \"/tmp/x/c\"\nfileserver_backend: [\"git\", \"roots\"]\nhash_type: \"SHA256\"\n";
    let loaded = Folder::with(&[("minion", minion)])
        .load(Map::new())
        .unwrap();
    let want = [
        ("log_file", "/tmp/x/a/b"),
        ("pki_dir", "/tmp/x/pk"),
        ("cachedir", "/tmp/x/c"),
        ("__cachedir", "/tmp/x/c"),
        ("sock_dir", "/tmp/x/c/.salt-unix"),
        ("extension_modules", "/tmp/x/var/cache/salt/minion/extmods"),
        ("pidfile", "/tmp/x/var/run/salt-minion.pid"),
        ("fileserver_backend", "['gitfs', 'roots']"),
        ("hash_type", "sha256"),
        ("file_roots", "{'base': ['/srv/salt', '/srv/spm/salt']}"),
    ];
    for (key, value) in want {
        assert_eq!(text(&loaded, key), value, "{key}");
    }
}

#[test]
fn roots_are_lists_by_environment_and_the_command_line_replaces_them() {
    let folder = Folder::with(&[
        ("minion", "id: \"m1\"\n"),
        ("r/one/x", ""),
        ("r/two/x", ""),
        (
            "minion.d/f.conf",
            "file_roots: {\"base\": [\"@/r/*\", \"/plain\"], \"dev\": null, \"__env__\": [\"/e/__env__\"]}\n",
        ),
    ]);
    let conf = folder.0.join("minion.d/f.conf");
    fs::write(
        &conf,
        fs::read_to_string(&conf)
            .unwrap()
            .replace('@', &folder.path()),
    )
    .unwrap();
    let loaded = folder.load(Map::new()).unwrap();
    assert_eq!(
        text(&loaded, "file_roots"),
        format!(
            "{{'base': ['{0}/r/one', '{0}/r/two', '/plain'], 'dev': [], '__env__': ['/e/__env__']}}",
            folder.path()
        )
    );
    let over = Map::new()
        .with("file_roots", Map::new().with("base", vec!["/x"]))
        .with("id", "other")
        .with("cachedir", "/c");
    let loaded = folder.load(over).unwrap();
    let got = ["file_roots", "id", "cachedir", "extension_modules"].map(|key| text(&loaded, key));
    assert_eq!(got, ["{'base': ['/x']}", "other", "/c", "/c/extmods"]);
}

#[test]
fn a_value_of_a_wrong_type_names_its_line_and_stops_everything() {
    let folder = Folder::with(&[
        ("minion", "id: \"m1\"\n"),
        (
            "minion.d/o.conf",
            "# options\nauth_timeout: \"7\"\nstate_verbose: \"yes\"\n",
        ),
    ]);
    let error = folder.load(Map::new()).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "{}/minion.d/o.conf:3: option `state_verbose` needs True or False, found 'yes' (str)",
            folder.path()
        )
    );
    let failure = crate::failure::Failure::from(error);
    assert_eq!(
        (failure.kind as u8, failure.hints.as_slice()),
        (1, ["write yes without quotes".to_owned()].as_slice())
    );
    let folder = Folder::with(&[("minion", "keysize: \"planted-secret\"\n")]);
    let text = folder.load(Map::new()).unwrap_err().to_string();
    assert!(text.contains("found another value (str)"), "{text}");
    let folder = Folder::with(&[("minion", "masterless_tgt: \"some\"\n")]);
    assert!(folder.load(Map::new()).unwrap_err().to_string().ends_with(
        "minion:1: option `masterless_tgt` needs one of default, all, match, found 'some' (str)"
    ));
}

#[test]
fn a_file_that_does_not_parse_names_its_place() {
    let folder = Folder::with(&[("minion", "id: \"m1\"\nnonsense\n")]);
    assert_eq!(
        folder.load(Map::new()).unwrap_err().to_string(),
        format!("{}/minion:2:1: not a line", folder.path())
    );
}

#[test]
fn only_options_that_would_be_missed_are_warned_of() {
    let minion = "id: 5\nmaster: \"h\"\npublish_port: 4505\nown: 1\ngrains_dirs: [\"x\"]\nfile_roots:\nenvironment: \"dev\"\nauth_timeout: \"7\"\nfeatures: {\"x509_v2\": true}\n";
    let folder = Folder::with(&[("minion", minion)]);
    let loaded = folder.load(Map::new()).unwrap();
    let path = folder.path();
    assert_eq!(
        loaded.warnings,
        [
            format!("{path}/minion:5: option `grains_dirs` is not supported and has no effect"),
            format!("{path}/minion:6: option `file_roots` has no value: using its default"),
            "The 'environment' minion config option has been renamed to 'saltenv'. Using dev as the 'saltenv' config value.".into(),
        ]
    );
    let got = [
        "id",
        "own",
        "saltenv",
        "auth_timeout",
        "runs_keep",
        "file_sync",
    ]
    .map(|key| text(&loaded, key));
    assert_eq!(got, ["5", "1", "dev", "7", "200", "barrier"]);
}

#[test]
fn a_missing_folder_is_a_warning_and_an_id_is_made() {
    let folder = Folder::with(&[]);
    let loaded = load(
        &folder.0.join("none"),
        Map::new().with("root_dir", "/nowhere"),
        &Lines,
    )
    .unwrap();
    assert_eq!(
        loaded.warnings,
        [format!(
            "CONFIG '{}/none' directory does not exist.",
            folder.path()
        )]
    );
    assert!(!text(&loaded, "id").is_empty());
    let folder = Folder::with(&[("etc/salt/minion_id", "kept.example\n")]);
    fs::write(
        folder.0.join("minion"),
        format!(
            "root_dir: \"{}\"\nappend_domain: \"x.org\"\n",
            folder.path()
        ),
    )
    .unwrap();
    let loaded = folder.load(Map::new()).unwrap();
    assert_eq!(
        (text(&loaded, "id").as_str(), loaded.new_id),
        ("kept.example.x.org", None)
    );
    assert_eq!(
        static_grains(Path::new("/nowhere"), &Lines).unwrap(),
        Map::new()
    );
}

#[test]
fn the_table_is_sorted_and_its_defaults_fit_their_types() {
    assert!(all().is_sorted_by(|a, b| a.name < b.name));
    for known in all() {
        if let Some(value) = known.default.value() {
            assert!(known.accept(&value).is_ok(), "{}", known.name);
        }
    }
    assert_eq!(
        find_option("state_output").unwrap().default,
        Default::Text("full")
    );
}

#[test]
fn options_are_completed_as_salt_completes_them() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/config");
    let read = |name: &str| json::read(&fs::read_to_string(corpus.join(name)).unwrap()).unwrap();
    let defaults = read("defaults.json");
    let mut bad = Vec::new();
    let mut cases = 0;
    for file in fs::read_dir(&corpus).unwrap() {
        let name = file.unwrap().file_name().to_string_lossy().into_owned();
        let case = read(&name);
        let folder = Folder::with(&[]);
        for (path, text) in case.get("files").and_then(Value::as_map).unwrap().iter() {
            let path = folder.0.join(path.as_str().unwrap());
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text.as_str().unwrap().replace('@', &folder.path())).unwrap();
        }
        let loaded = folder.load(Map::new()).unwrap();
        // A case contains only the options that differ from the defaults.
        let mut want = defaults
            .get("opts")
            .and_then(Value::as_map)
            .unwrap()
            .clone();
        want.update(case.get("opts").and_then(Value::as_map).unwrap().clone());
        for (key, want) in want.iter() {
            let got = text(&loaded, key.as_str().unwrap()).replace(&folder.path(), "@");
            if got != want.to_text() {
                bad.push(format!(
                    "{name} {}: want {} got {got}",
                    key.to_text(),
                    want.to_text()
                ));
            }
        }
        cases += 1;
    }
    assert!(
        cases > 10 && bad.is_empty(),
        "{cases} cases, {} differences:\n{}",
        bad.len(),
        bad.join("\n")
    );
}

#[test]
fn an_environment_without_a_list_of_folders_is_named() {
    let folder = Folder::with(&[(
        "minion",
        "id: \"m1\"\nfile_roots: {\"base\": \"/srv/salt\", \"dev\": null}\n",
    )]);
    let want = "option `file_roots`: environment `base` needs a list of folders, found str; using an empty list";
    assert_eq!(folder.load(Map::new()).unwrap().warnings, [want]);
}

#[test]
fn a_master_has_its_own_files_defaults_and_folders() {
    let master = "root_dir: \"/tmp/x\"\nautosign_file: \"/etc/a\"\nnodegroups: [{\"g\": \"a*\"}, {\"h\": \"b\"}]\nworker_threads: 9\nallow_minion_key_revoke: false\n";
    let folder = Folder::with(&[
        ("master", master),
        ("minion", "id: \"no\"\n"),
        ("master.d/a.conf", "auto_accept: true\n"),
    ]);
    let loaded = load_master(&folder.0, "salt", Map::new(), &Lines).unwrap();
    let want = [
        ("auto_accept", "True"),
        ("pki_dir", "/tmp/x/etc/salt/pki/master"),
        ("cachedir", "/tmp/x/var/cache/salt/master"),
        ("sock_dir", "/tmp/x/var/run/salt/master"),
        ("key_logfile", "/tmp/x/var/log/salt/key"),
        ("autosign_file", "/tmp/x/etc/a"),
        ("nodegroups", "{'g': 'a*', 'h': 'b'}"),
        ("timeout", "5"),
        ("ret_port", "4506"),
        ("state_top", "top.sls"),
        ("file_client", "local"),
        ("startup_states", "(not there)"),
        ("__role", "master"),
        ("__cli", "salt"),
    ];
    for (key, value) in want {
        assert_eq!(text(&loaded, key), value, "{key}");
    }
    assert!(text(&loaded, "id").ends_with("_master"));
    assert_eq!(
        loaded.warnings,
        [format!(
            "{}/master:5: option `allow_minion_key_revoke` is not supported and has no effect",
            folder.path()
        )]
    );
}

#[test]
fn a_wrong_value_of_a_master_names_its_line() {
    let folder = Folder::with(&[("master.d/a.conf", "publisher_acl_blacklist: \"x\"\n")]);
    let error = load_master(&folder.0, "salt-run", Map::new(), &Lines).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "{}/master.d/a.conf:1: option `publisher_acl_blacklist` needs a mapping, found 'x' (str)",
            folder.path()
        )
    );
}

#[test]
fn a_hook_that_listens_nowhere_names_its_line() {
    let folder = Folder::with(&[("master", "user: \"root\"\nhook_listen: \"web:80\"\n")]);
    let error = load_master(&folder.0, "salt-master", Map::new(), &Lines).unwrap_err();
    let listen = "an address with a port (127.0.0.1:8000, [::1]:8000) or a port";
    assert_eq!(
        error.to_string(),
        format!(
            "{}/master:2: option `hook_listen` needs {listen}, found 'web:80' (str)",
            folder.path()
        )
    );
}

#[test]
fn the_masters_table_is_sorted_and_its_defaults_fit_their_types() {
    assert!(master_table::TABLE.is_sorted_by(|a, b| a.name < b.name));
    assert!(master_table::SHARED.is_sorted());
    for known in master_table::TABLE {
        if let Some(value) = known.default.value() {
            assert!(known.accept(&value).is_ok(), "{}", known.name);
        }
    }
    for name in master_table::SHARED {
        assert!(
            find_option(name).is_some_and(|known| known.default.value().is_some()),
            "{name}"
        );
    }
}

#[test]
fn an_option_that_resembles_a_known_one_is_a_warning() {
    for (written, meant) in [
        ("file_root", "file_roots"),
        ("hash_typ", "hash_type"),
        ("ext_pillr", "ext_pillar"),
        ("auto_acept", "auto_accept"),
    ] {
        let folder = Folder::with(&[("minion", &format!("id: \"a\"\n{written}: \"x\"\n"))]);
        let loaded = folder.load(Map::new()).unwrap();
        let want = format!(
            "{}/minion:2: unknown option `{written}`; did you mean `{meant}`?",
            folder.path()
        );
        assert_eq!(loaded.warnings, [want]);
    }
}

#[test]
fn options_of_the_user_and_of_a_master_cause_no_warning() {
    let own = "id: \"a\"\nrole: \"web\"\nmy.deploy_key: \"x\"\nauto_accept: true\nroot: \"x\"\n";
    let loaded = Folder::with(&[("minion", own)]).load(Map::new()).unwrap();
    assert_eq!(loaded.warnings, Vec::<String>::new());
}

#[test]
fn a_word_that_is_no_log_level_is_a_warning_with_the_levels() {
    let folder = Folder::with(&[("minion", "id: \"a\"\nlog_level: \"verbose\"\n")]);
    let loaded = folder.load(Map::new()).unwrap();
    assert_eq!(loaded.opts.get("log_level"), Some(&"warning".into()));
    let [warning] = &loaded.warnings[..] else {
        panic!("one warning: {:?}", loaded.warnings);
    };
    assert!(
        warning.contains(
            "minion:2: option `log_level` is not a log level: 'verbose' (the levels are all, debug,"
        ),
        "{warning}"
    );
}

#[test]
fn values_that_may_have_secrets_are_not_shown() {
    let list = Value::list(["planted-secret".into()]);
    assert_eq!(shown("retry_dns", &list), "another value");
    assert_eq!(shown("enroll_token", &"planted".into()), "another value");
    assert_eq!(shown("retry_dns", &"soon".into()), "'soon'");
}
