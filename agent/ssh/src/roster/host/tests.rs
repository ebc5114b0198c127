use super::*;

fn host(json: &str) -> Result<Host, String> {
    Host::from_entry("web1", &value::json::read(json).unwrap(), &Map::new())
}

#[test]
fn an_entry_is_a_name_or_a_dictionary_over_the_defaults() {
    let defaults = Map::new().with("user", "admin").with("port", 2222);
    let entry = value::json::read(r#"{"host": "10.0.0.1", "port": 22, "sudo": true}"#).unwrap();
    let found = Host::from_entry("web1", &entry, &defaults).unwrap();
    assert_eq!((found.host.as_str(), found.port), ("10.0.0.1", Some(22)));
    assert_eq!(found.user.as_deref(), Some("admin"));
    assert!(found.sudo);
    let alone = host(r#""web1.example.com""#).unwrap();
    assert_eq!(alone.host, "web1.example.com");
    let address = host(r#"{"host": "[fe80::1%eth0]"}"#).unwrap();
    assert_eq!(address.host, "fe80::1%eth0");
    assert_eq!(host("{}").unwrap().host, "web1");
}

#[test]
fn all_of_salts_keys_are_read() {
    let found = host(
        r#"{"host": "a", "passwd": "p w", "priv_passwd": "q", "tty": true, "set_path": "$PATH:/opt/bin",
            "cmd_umask": 63, "ssh_pre_hook": "/srv/hook --now", "ssh_pre_flight": "/srv/pre.sh",
            "ssh_pre_flight_args": "one", "remote_port_forwards": "80:web:8080, *:1:a:2",
            "keepalive_interval": 5, "keepalive_count_max": 2, "identities_only": true,
            "mine_functions": {"test.ping": []}, "relenv": true, "winrm": false,
            "host_key": "ssh-ed25519 AAAAC3Nz me@here"}"#,
    )
    .unwrap();
    assert_eq!(found.passwd.as_ref().unwrap().reveal(), "p w");
    assert_eq!(found.priv_passwd.as_ref().unwrap().reveal(), "q");
    assert!(found.tty && found.identities_only && !found.sudo);
    assert_eq!(found.set_path.as_deref(), Some("$PATH:/opt/bin"));
    assert_eq!(found.cmd_umask, Some(0o077));
    assert_eq!(found.ssh_pre_hook.as_deref(), Some("/srv/hook --now"));
    assert_eq!(found.ssh_pre_flight, Some("/srv/pre.sh".into()));
    assert_eq!(found.ssh_pre_flight_args, ["one"]);
    assert_eq!(found.remote_port_forwards, ["80:web:8080", "*:1:a:2"]);
    assert_eq!(
        (found.keepalive_interval, found.keepalive_count_max),
        (Some(5), Some(2))
    );
    assert_eq!(found.host_key.as_deref(), Some("ssh-ed25519 AAAAC3Nz"));
    assert!(found.minion_opts.contains("mine_functions"));
    assert_eq!(
        host(r#"{"cmd_umask": "0027"}"#).unwrap().cmd_umask,
        Some(0o027)
    );
    assert_eq!(
        host(r#"{"keepalive": false}"#).unwrap().keepalive_interval,
        Some(0)
    );
    assert_eq!(
        host(r#"{"passwd": "", "user": null}"#).unwrap().passwd,
        None
    );
}

#[test]
fn passwords_are_secrets() {
    let found = host(
        r#"{"passwd": "roster-secret-1", "priv_passwd": "roster-secret-2", "minion_opts": {"db_password": "roster-secret-3"}}"#,
    );
    let shown = format!("{:?}", found.unwrap());
    assert!(
        !shown.contains("roster-secret-1") && !shown.contains("roster-secret-2"),
        "{shown}"
    );
    for number in 1..=3 {
        let masked = secret::text(&format!("it is roster-secret-{number}")).into_owned();
        assert!(!masked.contains("roster-secret"), "{masked}");
    }
    for wrong in [
        r#"{"passwd": 7654321}"#,
        r#"{"passwd": "roster-secret-4\n"}"#,
    ] {
        let error = host(wrong).unwrap_err();
        assert!(
            !error.contains("7654321") && !error.contains("secret"),
            "{error}"
        );
    }
}

#[test]
fn an_unknown_key_has_a_hint() {
    let error = host(r#"{"hots": "b"}"#).unwrap_err();
    assert_eq!(error, r#"web1: unknown key "hots"; did you mean host?"#);
    let error = host(r#"{"frobnicate": 1}"#).unwrap_err();
    assert_eq!(error, r#"web1: unknown key "frobnicate""#);
}

/// Attack: a roster from grains or an inventory may contain anything.
#[test]
fn a_value_that_could_be_an_option_or_a_command_is_refused() {
    let cases = [
        r#"{"host": "-oProxyCommand=id"}"#,
        r#"{"host": "a b"}"#,
        r#"{"host": "a\nb"}"#,
        r#"{"host": "a;id"}"#,
        r#"{"host": "a\u0000"}"#,
        r#"{"host": ["a"]}"#,
        r#"{"host": true}"#,
        r#"{"host": "a", "user": "-l"}"#,
        r#"{"host": "a", "user": "x`id`"}"#,
        r#"{"host": "a", "user": {"x": 1}}"#,
        r#"{"host": "a", "sudo_user": "x y"}"#,
        r#"{"host": "a", "port": 0}"#,
        r#"{"host": "a", "port": "22 -v"}"#,
        r#"{"host": "a", "port": 70000}"#,
        r#"{"host": "a", "port": true}"#,
        r#"{"host": "a", "thin_dir": "relative"}"#,
        r#"{"host": "a", "thin_dir": "/tmp/$(id)"}"#,
        r#"{"host": "a", "thin_dir": "/tmp/\"x"}"#,
        r#"{"host": "a", "ssh_options": ["A=b\nC=d"]}"#,
        r#"{"host": "a", "ssh_options": ["-v"]}"#,
        r#"{"host": "a", "ssh_options": {"A": "b"}}"#,
        r#"{"host": "a", "timeout": -1}"#,
        r#"{"host": "a", "tty": "yes"}"#,
        r#"{"host": "a", "sudo": "maybe"}"#,
        r#"{"host": "a", "hots": "b"}"#,
        r#"{"host": "a", "priv": "/k\n"}"#,
        r#"{"host": "a", "set_path": "/bin; id"}"#,
        r#"{"host": "a", "set_path": "$(id)"}"#,
        r#"{"host": "a", "set_path": "$IFS"}"#,
        r#"{"host": "a", "set_path": "'/x'"}"#,
        r#"{"host": "a", "cmd_umask": 512}"#,
        r#"{"host": "a", "cmd_umask": "8"}"#,
        r#"{"host": "a", "cmd_umask": "-1"}"#,
        r#"{"host": "a", "ssh_pre_flight": "pre.sh"}"#,
        r#"{"host": "a", "ssh_pre_flight_args": ["a\nb"]}"#,
        r#"{"host": "a", "remote_port_forwards": "80:web"}"#,
        r#"{"host": "a", "remote_port_forwards": "80:-o:80"}"#,
        r#"{"host": "a", "remote_port_forwards": "80:web:99999"}"#,
        r#"{"host": "a", "remote_port_forwards": "/tmp/s:/tmp/t"}"#,
        r#"{"host": "a", "host_key": "AAAAC3Nz"}"#,
        r#"{"host": "a", "host_key": "ssh-ed25519 AAAA,x ssh"}"#,
        r#"{"host": "a", "host_key": "ssh-ed25519 @x"}"#,
        r#"{"host": "a", "minion_opts": [1]}"#,
        r#"{"host": "a", "keepalive_count_max": 0}"#,
        r#"{"host": "a", "winrm": true}"#,
        "[1]",
        "7",
        "null",
    ];
    for case in cases {
        assert!(host(case).is_err(), "{case}");
    }
    for id in ["", "-x", "a/b", "..", "a b"] {
        assert!(
            Host::from_entry(id, &"h".into(), &Map::new()).is_err(),
            "{id}"
        );
    }
}
