use std::fs;
use std::os::unix::fs::PermissionsExt;

use modules::fileserver::roots::Roots;
use modules::loader::custom::CustomModules;
use modules::state_run::orchestrate::ThisMachine;
use state::opts::Opts;
use tempfile::TempDir;
use value::json;

use super::*;

/// Returns a context with these options.
pub(super) fn context(opts: Map) -> Exec {
    let opts = Opts::new(opts);
    Exec::with_custom(
        opts.clone(),
        &modules::REGISTRY,
        Box::new(Roots::states(&opts)),
        Box::new(ThisMachine),
        Box::new(CustomModules::new(&opts)),
    )
}

/// A folder with files of rosters, that belongs to the user.
struct Site(TempDir);

impl Site {
    fn new(files: &[(&str, &str)]) -> Self {
        let site = Self(tempfile::tempdir().unwrap());
        for (name, text) in files {
            let path = site.0.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        site
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    /// Returns the options with `@` in values replaced by the folder.
    fn opts(&self, json: &str) -> Map {
        let text = json.replace('@', &self.path(""));
        json::read(&text).unwrap().as_map().unwrap().clone()
    }

    fn load(&self, opts: &str) -> Result<Roster, String> {
        Roster::load(&context(self.opts(opts)))
    }

    #[track_caller]
    fn fails(&self, opts: &str, parts: &[&str]) {
        let error = self.load(opts).unwrap_err();
        for part in parts {
            assert!(error.contains(part), "no {part:?}: {error}");
        }
    }
}

fn ids(hosts: &[Host]) -> Vec<&str> {
    hosts.iter().map(|host| host.id.as_str()).collect()
}

/// Copies a folder of the corpus, whose files would not be trusted if they belong to another user.
fn copied(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    fs::set_permissions(to, fs::Permissions::from_mode(0o755)).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let place = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copied(&entry.path(), &place),
            false => {
                fs::copy(entry.path(), &place).unwrap();
                let mode = entry.metadata().unwrap().permissions().mode();
                let mode = if mode & 0o100 == 0 { 0o644 } else { 0o755 };
                fs::set_permissions(&place, fs::Permissions::from_mode(mode)).unwrap();
            }
        }
    }
}

/// Returns a host with the keys of Salt's entry.
fn entry(host: &Host, keys: &Map) -> Map {
    let minion_opts = Value::Map(host.minion_opts.clone());
    let text = |text: Option<&str>| text.map_or(Value::Null, Value::from);
    let mut entry = Map::new()
        .with("host", host.host.as_str())
        .with("user", text(host.user.as_deref()))
        .with(
            "port",
            host.port.map_or(Value::Null, |port| i64::from(port).into()),
        )
        .with("priv", text(host.key.as_deref().and_then(Path::to_str)))
        .with("passwd", text(host.passwd.as_ref().map(Secret::reveal)))
        .with("sudo", host.sudo)
        .with("sudo_user", text(host.sudo_user.as_deref()))
        .with("tty", host.tty)
        .with(
            "timeout",
            host.timeout
                .map_or(Value::Null, |time| (time.as_secs() as i64).into()),
        )
        .with("thin_dir", text(host.folder.as_deref()))
        .with("minion_opts", minion_opts);
    entry.retain(|key, value| keys.contains_value(key) || value.is_true());
    entry.sort_keys();
    entry
}

/// Returns Salt's entry with the types of a host.
fn of_salt(entry: &Value) -> Map {
    let mut entry = entry.as_map().unwrap().clone();
    if let Some(port) = entry.get_mut("port") {
        *port = port.to_text().parse::<i64>().unwrap().into();
    }
    if let Some(sudo) = entry.get_mut("sudo") {
        *sudo = sudo.is_true().into();
    }
    if entry
        .get("minion_opts")
        .is_some_and(|options| !options.is_true())
    {
        entry.remove("minion_opts");
    }
    entry
}

/// The recorded cases: each target has the hosts that Salt finds.
#[test]
fn rosters_have_salts_hosts() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/corpus/ssh");
    let mut seen = 0;
    for case in fs::read_dir(corpus).unwrap() {
        let case = case.unwrap();
        if !case.path().join("case.json").exists() {
            continue;
        }
        let (name, scratch) = (case.file_name(), tempfile::tempdir().unwrap());
        let folder = scratch.path().join("case");
        copied(&case.path(), &folder);
        let read = |file: &str| {
            let text = fs::read_to_string(folder.join(file)).ok()?;
            Some(json::read(&text.replace("@CASE@", folder.to_str().unwrap())).unwrap())
        };
        let given = read("case.json").unwrap();
        let found = read("ours.json").unwrap_or_else(|| read("salt.json").unwrap());
        let cx = context(given.get("opts").and_then(Value::as_map).unwrap().clone());
        let roster = match given.get("cache").and_then(Value::as_map) {
            None => Roster::load(&cx).unwrap(),
            Some(cached) => {
                let mut roster = Roster::default();
                let entries = cache::tests::entries_of(&cx, cached);
                let source = Source::of_data("cache", entries).unwrap();
                roster.add(&cx, source).unwrap();
                roster
            }
        };
        let targets = given.get("targets").and_then(Value::as_list).unwrap();
        let found = found.as_list().unwrap();
        assert_eq!(targets.len(), found.len(), "{name:?}");
        for (target, wanted) in targets.iter().zip(found) {
            let [tgt, tgt_type] = target.as_list().unwrap() else {
                panic!("{name:?}: {target:?}");
            };
            let hosts = roster
                .matched(&cx, tgt, tgt_type.as_str().unwrap(), None)
                .unwrap();
            let wanted = wanted.as_map().unwrap();
            let mut shown = ids(&hosts);
            shown.sort_unstable();
            let wanted_ids: Vec<String> = wanted.keys().map(Value::to_text).collect();
            assert_eq!(shown, wanted_ids, "{name:?}: {target:?}");
            for host in &hosts {
                let mut salts = of_salt(wanted.get(host.id.as_str()).unwrap());
                salts.sort_keys();
                let ours = entry(host, &salts);
                let (ours, salts) = (Value::Map(ours), Value::Map(salts));
                assert_eq!(ours, salts, "{name:?}: {target:?}: {}", host.id);
            }
            seen += 1;
        }
    }
    assert!(seen > 20, "{seen} targets");
}

#[test]
fn the_entry_of_the_last_roster_counts() {
    let site = Site::new(&[
        ("roster", "a: {host: one, user: x}\nb: one\n"),
        ("d/a", "host: two\n"),
        ("known", "c ssh-rsa AAAA\n"),
    ]);
    let opts = r#"{"roster": "sshknownhosts, flat,dir,flat", "roster_file": "@roster", "roster_dir": "@d", "ssh_known_hosts_file": "@known"}"#;
    let roster = site.load(opts).unwrap();
    let cx = context(site.opts(opts));
    let all = roster.matched(&cx, &"*".into(), "glob", None).unwrap();
    let shown: Vec<_> = all
        .iter()
        .map(|host| (host.id.as_str(), host.host.as_str()))
        .collect();
    assert_eq!(shown, [("c", "c"), ("a", "two"), ("b", "one")]);
    assert_eq!(all[1].user, None);
    let sources = Value::Map(roster.by_source().unwrap()).to_text();
    let wanted = format!(
        "{{'{}': {{'c': 'c'}}, '{}': {{'a': 'one', 'b': 'one'}}, '{}': {{'a': 'two'}}}}",
        site.path("known"),
        site.path("roster"),
        site.path("d")
    );
    assert_eq!(sources, wanted);
    assert_eq!(
        ids(&roster.with_ids(&["b".into(), "no".into(), "../x".into()])),
        ["b"]
    );
    let named = Roster::load_named(&cx, &Value::list(["flat".into()])).unwrap();
    assert_eq!(
        ids(&named.matched(&cx, &"*".into(), "glob", None).unwrap()),
        ["a", "b"]
    );
    assert!(Roster::load_named(&cx, &Value::Int(7)).is_err());
    let many = (0..=ROSTERS_MAX)
        .map(|at| at.to_string())
        .collect::<Vec<_>>();
    assert!(named_error(&many.join(",")).contains("more than"));
}

fn named_error(names: &str) -> String {
    named(&names.into()).unwrap_err()
}

#[test]
fn a_roster_file_is_found_by_name_in_the_folders_of_rosters() {
    let site = Site::new(&[
        ("one/x", ""),
        ("two/hosts", "a: two\n"),
        ("hosts", "a: none\n"),
    ]);
    let opts = |file: &str| format!(r#"{{"rosters": ["@one", "@two"], "roster_file": "{file}"}}"#);
    let roster = site.load(&opts("hosts")).unwrap();
    assert_eq!(roster.hosts[0].host, "two");
    // A path, and a name that leads elsewhere, is not looked for there.
    let roster = site.load(&opts("@hosts")).unwrap();
    assert_eq!(roster.hosts[0].host, "none");
    site.fails(&opts("../hosts"), &["../hosts"]);
    site.fails(&opts("gone"), &["cannot read the roster gone"]);
}

#[test]
fn an_error_names_the_file_and_the_host() {
    let site = Site::new(&[
        ("roster", "web1: {hots: a}\n"),
        ("list", "[a, b]\n"),
        ("d/web1", "- a\n"),
        ("id", "'../x': a\n"),
    ]);
    let of = |file: &str| format!(r#"{{"roster_file": "@{file}"}}"#);
    let path = site.path("roster");
    let unknown = "web1: unknown key \"hots\"; did you mean host?";
    site.fails(&of("roster"), &[&format!("roster {path}: {unknown}")]);
    site.fails(
        &of("list"),
        &["list: it must be a dictionary, but is a list"],
    );
    site.fails(&of("gone"), &["cannot read the roster", "gone"]);
    site.fails(&of("id"), &["../x"]);
    site.fails(
        r#"{"roster": "dir", "roster_dir": "@d"}"#,
        &["the file \"web1\"", "dictionary"],
    );
    site.fails(
        r#"{"roster": "dri"}"#,
        &["the roster dri: no such roster", "did you mean dir?"],
    );
    site.fails(r#"{"roster": "../x"}"#, &["no such roster"]);
    site.fails(r#"{"ssh_list_nodegroups": []}"#, &["ssh_list_nodegroups"]);
    let scan = site.load(r#"{"roster": "scan"}"#).unwrap();
    assert!(scan.by_source().unwrap_err().contains("those of a target"));
}

/// Attack: files that another user can change, for each roster that reads one.
#[test]
fn a_roster_that_another_user_can_change_is_refused() {
    let site = Site::new(&[("file", "web1 ssh-rsa AAAA\n"), ("d/a", "host: x\n")]);
    for path in ["file", "d"] {
        fs::set_permissions(site.path(path), fs::Permissions::from_mode(0o777)).unwrap();
    }
    for opts in [
        r#"{"roster": "flat", "roster_file": "@file"}"#,
        r#"{"roster": "ansible", "roster_file": "@file"}"#,
        r#"{"roster": "sshconfig", "ssh_config_file": "@file"}"#,
        r#"{"roster": "sshknownhosts", "ssh_known_hosts_file": "@file"}"#,
        r#"{"roster": "dir", "roster_dir": "@d"}"#,
    ] {
        site.fails(opts, &["is not trusted"]);
    }
}

/// Attack: the program of an inventory, and its output, may contain anything.
#[test]
fn a_program_of_an_inventory_is_checked() {
    let site = Site::new(&[
        ("fails", "#!/bin/sh\necho no >&2; exit 3\n"),
        ("text", "#!/bin/sh\necho hello\n"),
        ("endless", "#!/bin/sh\nexec yes\n"),
        ("hangs", "#!/bin/sh\nexec sleep 100\n"),
        ("list", "#!/bin/sh\necho '[]'\n"),
        (
            "odd",
            "#!/bin/sh\necho '{\"a\": {\"hosts\": {\"x\": 1}}}'\n",
        ),
        (
            "loop",
            "#!/bin/sh\necho '{\"a\": {\"children\": [\"b\"]}, \"b\": {\"children\": [\"a\"]}}'\n",
        ),
        (
            "id",
            "#!/bin/sh\necho '{\"a\": [\"-oProxyCommand=id\"], \"_meta\": {}}'\n",
        ),
        (
            "host",
            "#!/bin/sh\necho '{\"a\": [\"x\"], \"_meta\": {\"hostvars\": {\"x\": {\"ansible_host\": \"-v\"}}}}'\n",
        ),
        (
            "one",
            "#!/bin/sh\n[ $1 = --list ] && echo '{\"a\": [\"x\"]}' || echo \"{\\\"ansible_host\\\": \\\"10.0.0.1\\\", \\\"asked\\\": \\\"$2\\\"}\"\n",
        ),
    ]);
    let opts = |file: &str| format!(r#"{{"roster": "ansible", "roster_file": "@{file}"}}"#);
    for (file, part) in [
        ("fails", "it failed with --list: no"),
        ("text", "it printed no JSON with --list"),
        ("endless", "cannot run it with --list"),
        ("hangs", "it took more than 2 s with --list"),
        ("list", "expected a dictionary, found a list"),
        ("odd", "the group \"a\": expected a list, found a dict"),
        ("loop", "contains itself"),
        ("id", "-oProxyCommand=id"),
        ("host", "x: invalid host \"-v\""),
    ] {
        fs::set_permissions(site.path(file), fs::Permissions::from_mode(0o755)).unwrap();
        site.fails(&opts(file), &[&site.path(file), part]);
    }
    fs::set_permissions(site.path("one"), fs::Permissions::from_mode(0o755)).unwrap();
    let roster = site.load(&opts("one")).unwrap();
    assert_eq!(roster.hosts[0].host, "10.0.0.1");
    assert_eq!(roster.hosts[0].minion_opts.get("asked"), Some(&"x".into()));
}

/// Attack: a folder next to an inventory that another user can change, and files that are no YAML.
#[test]
fn the_folders_of_an_inventory_are_checked() {
    let site = Site::new(&[
        ("inv/hosts", "[web]\nx\n"),
        ("inv/group_vars/web.yml", "a: 1\n"),
        ("list/hosts", "[web]\nx\n"),
        ("list/group_vars/web/1", "[a]\n"),
        ("vault/hosts", "x\n"),
        ("vault/host_vars/x", "$ANSIBLE_VAULT;1.1;AES256\n00\n"),
    ]);
    let opts = |file: &str| format!(r#"{{"roster": "ansible", "roster_file": "@{file}/hosts"}}"#);
    site.load(&opts("inv")).unwrap();
    let open = fs::Permissions::from_mode(0o777);
    fs::set_permissions(site.path("inv/group_vars"), open).unwrap();
    site.fails(&opts("inv"), &["group_vars", "is not trusted"]);
    site.fails(&opts("list"), &["group_vars/web/1", "must be a dictionary"]);
    site.fails(&opts("vault"), &["host_vars/x", "ansible-vault"]);
}

/// Attack: a custom roster passes on what a database says.
#[test]
fn data_cannot_run_commands_on_this_machine() {
    for key in [
        "ssh_options",
        "ssh_pre_hook",
        "ssh_pre_flight",
        "remote_port_forwards",
    ] {
        let entry = Value::Map(Map::new().with("host", "a").with(key, "ProxyCommand=id"));
        let error = Host::from_data("web1", &entry, &Map::new()).unwrap_err();
        assert!(
            error.contains("only accepted from a roster file"),
            "{error}"
        );
    }
}

#[test]
fn a_secret_of_sdb_is_read_and_masked() {
    let site = Site::new(&[(
        "roster",
        "a: {host: x, passwd: 'sdb://envs/ROSTER_TEST_HOME'}\n",
    )]);
    let opts = r#"{"roster_file": "@roster", "envs": {"driver": "env"}}"#;
    site.fails(opts, &["sdb://envs/ROSTER_TEST_HOME"]);
    let site = Site::new(&[(
        "roster",
        "a: {host: x, passwd: 'sdb://envs/CARGO_MANIFEST_DIR'}\n",
    )]);
    let roster = site.load(opts).unwrap();
    let secret = roster.hosts[0].passwd.as_ref().unwrap();
    assert_eq!(secret.reveal(), env!("CARGO_MANIFEST_DIR"));
}

#[test]
fn grains_match_only_where_they_are_known() {
    let site = Site::new(&[("roster", "a: one\nb: two\n")]);
    let opts = r#"{"roster_file": "@roster"}"#;
    let (cx, roster) = (context(site.opts(opts)), site.load(opts).unwrap());
    let grains = |id: &Id| Map::new().with("role", if id.as_str() == "a" { "web" } else { "db" });
    let found = roster.matched(&cx, &"role:web".into(), "grain", Some(&grains));
    assert_eq!(ids(&found.unwrap()), ["a"]);
    let none = roster.matched(&cx, &"role:web".into(), "grain", None);
    assert!(none.unwrap_err().contains("cannot be matched by grain"));
    let pillar = roster.matched(&cx, &"role:web".into(), "pillar", Some(&grains));
    assert!(pillar.unwrap_err().contains("cannot be matched by pillar"));
}

#[test]
fn the_hosts_of_a_scan_are_those_of_the_target() {
    let open = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = open.local_addr().unwrap().port();
    let opts = Map::new()
        .with("roster", "scan")
        .with("ssh_scan_ports", i64::from(port))
        .with("ssh_scan_timeout", Value::Float(0.5))
        .with("roster_defaults", Map::new().with("user", "admin"));
    let cx = context(opts);
    let roster = Roster::load(&cx).unwrap();
    assert_eq!(
        roster
            .matched(&cx, &"*".into(), "glob", None)
            .unwrap()
            .len(),
        0
    );
    let found = roster
        .matched(&cx, &"127.0.0.1".into(), "glob", None)
        .unwrap();
    assert_eq!(
        (ids(&found), found[0].port),
        (vec!["127.0.0.1"], Some(port))
    );
    assert_eq!(found[0].user.as_deref(), Some("admin"));
    assert_eq!(roster.with_ids(&["127.0.0.1".into()]).len(), 1);
}

#[test]
fn a_custom_roster_goes_before_a_built_in_one_and_may_be_disabled() {
    let text = "def targets(tgt, tgt_type='glob'):\n    return {'custom': {'host': '192.0.2.2'}}\n";
    let site = Site::new(&[("hosts", "built_in: {host: 192.0.2.1}\n")]);
    let opts = r#"{"extension_modules": "@extmods", "roster_file": "@hosts"}"#;
    assert_eq!(ids(&site.load(opts).unwrap().hosts), ["built_in"]);
    let folder = site.path("extmods/roster");
    fs::create_dir_all(&folder).unwrap();
    for name in ["flat", "scan"] {
        fs::write(format!("{folder}/{name}.py"), text).unwrap();
        let opts = opts.replace("{\"ext", &format!("{{\"roster\": \"{name}\", \"ext"));
        assert_eq!(ids(&site.load(&opts).unwrap().hosts), ["custom"]);
        let opts = opts.replace(
            "{\"roster\"",
            "{\"disable_rosters\": [\"flat\", \"scan\"], \"roster\"",
        );
        site.fails(
            &opts,
            &[&format!("the roster {name} is disabled by disable_rosters")],
        );
    }
}

/// Attack: a password must not be a template, and must not be readable by others.
#[test]
fn hosts_that_are_given_by_hand_are_added_to_the_roster() {
    let site = Site::new(&[("roster", "web1: 10.0.0.1")]);
    let opts =
        r#"{"roster_file": "@roster", "ssh_passwd": "a{{ 7 * 7 }}\"'b}", "conf_file": "@minion"}"#;
    let cx = context(site.opts(opts));
    let hosts = Roster::by_hand(&cx, &"admin@db1.example.com".into()).unwrap();
    Roster::add_by_hand(&cx, &hosts).unwrap();
    let roster = Roster::load(&cx).unwrap();
    let found = roster.matched(&cx, &"*".into(), "glob", None).unwrap();
    assert_eq!(ids(&found), ["web1", "db1.example.com"]);
    let added = &found[1];
    assert_eq!(added.user.as_deref(), Some("admin"));
    let passwd = added.passwd.as_ref().map(Secret::reveal);
    assert_eq!(passwd, Some(r#"a{{ 7 * 7 }}"'b}"#));
    let mode = fs::metadata(site.path("roster"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let cx = context(site.opts(r#"{"roster": "scan", "conf_file": "@minion"}"#));
    let error = Roster::add_by_hand(&cx, &hosts).unwrap_err();
    assert!(error.contains("the roster flat"), "{error}");
}
