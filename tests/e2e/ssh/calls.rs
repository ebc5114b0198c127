//! Functions, shell commands, logins and keys.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::fs::PermissionsExt;

use super::{Host, Site, enlist_one, placed};

#[test]
fn a_host_with_nothing_but_busybox_runs_functions_and_states() {
    let Some(site) = Site::new() else { return };
    let box_ = Host::start(&site, &["box"]);
    site.enlist(&[("web1", box_.port)]);
    site.write("srv/pillar/top.sls", "base: {'web*': [color]}\n");
    site.write("srv/pillar/color.sls", "color: red\n");
    site.write("srv/salt/f.txt", "{{ grains.id }} is {{ pillar.color }}\n");
    site.write(
        "srv/salt/web.sls",
        "/root/out:\n  file.managed:\n    - source: salt://f.txt\n    - template: jinja\n",
    );
    site.ssh(&["*", "test.ping", "--out=json"])
        .is(0, &[r#""web1": true"#]);
    let folder = box_.path("box/var/tmp/.root_pinch");
    let first = placed(&folder);
    assert_eq!(first.len(), 1, "{first:?}");
    site.ssh(&["*", "state.apply", "web"])
        .is(0, &["Succeeded: 1 (changed=1)"]);
    let written = fs::read_to_string(box_.path("box/root/out")).unwrap();
    assert_eq!(written, "web1 is red\n");
    site.ssh(&["*", "state.apply", "web"])
        .is(0, &["Succeeded: 1\n"]);
    assert_eq!(placed(&folder), first, "the program was sent again");
    assert_eq!(
        fs::read_dir(folder.join("ids/web1/jobs")).unwrap().count(),
        0
    );
}

#[test]
fn several_ids_of_a_roster_may_be_one_machine() {
    let Some(site) = Site::new() else { return };
    let host = Host::start(&site, &[]);
    site.enlist(&[("web1", host.port), ("db1", host.port)]);
    let ran = site.ssh(&["*", "cmd.run", "sleep 1; echo done", "--out=txt"]);
    ran.is(0, &["web1: done", "db1: done"]);
}

#[test]
fn an_unknown_host_key_is_refused_unless_it_is_to_be_accepted() {
    let Some((site, _host)) = Site::with_host() else {
        return;
    };
    site.write("known", "");
    site.ssh(&["web1", "test.ping"])
        .is(20, &["Host key verification failed."]);
    site.ssh(&["-i", "web1", "test.ping"]).is(0, &["True"]);
    assert!(
        fs::read_to_string(site.path("known"))
            .unwrap()
            .contains("ssh-ed25519")
    );
}

#[test]
fn passwords_of_the_roster_log_in_and_are_read_by_sudo_only_if_it_needs_one() {
    let Some(site) = Site::new() else { return };
    let host = Host::start(&site, &["login"]);
    for user in ["asked", "free"] {
        enlist_one(
            &site,
            &host,
            &format!("user: {user}, passwd: pass word, sudo: True"),
        );
        let ran = site.ssh(&["web1", "cmd.run", "id -un; env", "--out=json"]);
        ran.is(0, &["root"]);
        let raw = site.ssh(&["-r", "web1", "whoami; cat; echo it\\'s"]);
        raw.is(0, &["root", "it's"]);
        assert!(!(ran.out + &raw.out + &raw.err).contains("pass word"));
    }
    enlist_one(&site, &host, "user: free, passwd: wrong");
    site.ssh(&["web1", "test.ping"])
        .is(20, &["Permission denied", "--key-deploy"]);
    let left = host.path("home/asked");
    assert!(fs::read_dir(left).is_err() || !host.path("home/asked/.ssh").exists());
}

#[test]
fn the_key_is_deployed_by_a_password_and_then_logs_in_alone() {
    let Some(site) = Site::new() else { return };
    let host = Host::start(&site, &["login"]);
    enlist_one(&site, &host, "user: free");
    let config = fs::read_to_string(site.path("etc/master")).unwrap();
    let key = site.path("new/key").display().to_string();
    let old = format!("ssh_priv: {}", site.path("key").display());
    site.write(
        "etc/master",
        &config.replace(&old, &format!("ssh_priv: {key}")),
    );
    site.ssh(&["--key-deploy", "web1", "test.ping"]).is(1, &[]);
    site.ssh(&["--key-deploy", "--passwd=pass word", "web1", "test.ping"])
        .is(0, &["True"]);
    site.ssh(&["--key-deploy", "--passwd=pass word", "web1", "test.ping"])
        .is(0, &["True"]);
    site.ssh(&["web1", "test.ping"]).is(0, &["True"]);
    let keys = fs::read_to_string(host.path("home/free/.ssh/authorized_keys")).unwrap();
    assert_eq!(keys.lines().count(), 1, "{keys}");
    let mode = fs::metadata(site.path("new/key")).unwrap().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_pinned_key_is_the_only_one_that_is_accepted() {
    let Some(site) = Site::new() else { return };
    let host = Host::start(&site, &[]);
    let key = |name: &str| {
        let text = fs::read_to_string(site.path(name)).unwrap();
        text.split(' ').take(2).collect::<Vec<_>>().join(" ")
    };
    enlist_one(&site, &host, &format!("host_key: {}", key("hostkey.pub")));
    site.write("known", "");
    site.ssh(&["web1", "test.ping"]).is(0, &["True"]);
    enlist_one(&site, &host, &format!("host_key: {}", key("key.pub")));
    for words in [&["web1", "test.ping"][..], &["-i", "web1", "test.ping"]] {
        site.ssh(words).is(20, &["Host key verification failed."]);
    }
}

#[test]
fn the_users_own_commands_run_before_the_first_job() {
    let Some(site) = Site::new() else { return };
    let host = Host::start(&site, &[]);
    let script = site.path("flight.sh");
    fs::write(&script, "echo \"$1 $#\" >>/root/flight\n").unwrap();
    let hook = site.path("hooked");
    let more = format!(
        "ssh_pre_hook: touch {}, ssh_pre_flight: {}, ssh_pre_flight_args: [\"it's\", b], set_path: \"$PATH:/opt/more\", cmd_umask: '077'",
        hook.display(),
        script.display()
    );
    enlist_one(&site, &host, &more);
    let ran = site.ssh(&["web1", "cmd.run", "echo $PATH; umask"]);
    ran.is(0, &["/opt/more", "0077"]);
    assert!(hook.exists());
    let flown = || fs::read_to_string(host.path("root/flight")).unwrap();
    assert_eq!(flown(), "it's 2\n");
    site.ssh(&["web1", "test.ping"]).is(0, &["True"]);
    assert_eq!(flown(), "it's 2\n");
    site.ssh(&["--pre-flight", "web1", "test.ping"])
        .is(0, &["True"]);
    assert_eq!(flown(), "it's 2\nit's 2\n");
    fs::write(&script, "echo no >&2; exit 3\n").unwrap();
    site.ssh(&["--pre-flight", "web1", "test.ping"])
        .is(11, &["ssh_pre_flight", "no"]);
    fs::set_permissions(&script, fs::Permissions::from_mode(0o666)).unwrap();
    site.ssh(&["--pre-flight", "web1", "test.ping"])
        .is(11, &["can be changed by"]);
}
