//! Python programs on the master's machine: `salt.client.LocalClient`, `salt.runner`, `salt.wheel`.

use std::os::unix::process::CommandExt;
use std::process::Command;

use tests::program::in_recorded_environment;

use super::{Fleet, NOBODY, PROGRAM};

/// Runs a Python script with the package `salt`, as another user if one is named. The script's
/// `MASTER` is the path of the master's configuration.
fn python(fleet: &Fleet, script: &str, user: Option<u32>) -> (String, String) {
    let package = fleet.path("package");
    let program = fleet.path("pinch");
    let program = if user.is_some() { &program } else { &*PROGRAM };
    let mut install = Command::new(program);
    assert!(
        install
            .arg("install-python")
            .arg(&package)
            .status()
            .unwrap()
            .success()
    );
    let mut command = Command::new("python3");
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    let config = fleet.path("master/etc/master");
    let script = format!("MASTER = {:?}\n{script}", config.display().to_string());
    let output = in_recorded_environment(&mut command)
        .args(["-B", "-c", &script])
        .env("PYTHONPATH", package)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

const RETURNS: &str = r#"
import salt.client, salt.exceptions
client = salt.client.LocalClient(MASTER)
print(sorted(client.cmd("*", "test.ping", timeout=3).items())[:2])
print(sorted(client.cmd(["m1", "m2"], "test.echo", ["x"], tgt_type="list").items()))
print(client.cmd("id:m2", "test.ping", tgt_type="grain", full_return=True)["m2"]["ret"])
print(client.cmd("m1", "test.arg", ["1", "a=1", 2, {"k": 1}], kwarg={"b": "2"})["m1"]["args"])
named = client.cmd("m1", "test.arg", ["a=1"], kwarg={"b": "2"})["m1"]["kwargs"]
print({key: named[key] for key in ("a", "b")})
print(client.cmd("m1", ["test.ping", "test.echo"], [[], ["hi"]]))
rows = list(client.cmd_iter("m[12]", "test.ping"))
print(sorted(name for row in rows for name in row), rows[0].popitem()[1]["ret"])
job = client.run_job("m1", "test.echo", ["later"])
print(sorted(job), job["minions"])
jid = client.cmd_async("m1", "test.echo", ["kept"])
import time
while not client.get_cache_returns(jid):
    time.sleep(0.05)
print(client.get_cache_returns(jid), client.get_cache_returns("20200101000000000000"))
print(client.cmd("m1", "test.ping", jid="20300101000000000000", full_return=True)["m1"]["jid"])
print(client.cmd("none*", "test.ping"), client.cmd_async("none*", "test.ping"), list(client.cmd_iter("none*", "test.ping")))
print(len(client.cmd_subset("m[12]", "test.ping", subset=1)))
print(sorted(name for row in client.cmd_batch("*", "test.ping", batch=1) for name in row))
for row in client.cmd_iter("m[12]", "test.sleep", [20]):
    raise SystemExit("this iteration ends at once")
"#;

const RETURNED: &str = "\
[('m1', True), ('m2', True)]
[('m1', 'x'), ('m2', 'x')]
True
['1', 2, {'k': 1}]
{'a': 1, 'b': '2'}
{'m1': {'test.ping': True, 'test.echo': 'hi'}}
['m1', 'm2'] True
['jid', 'minions'] ['m1']
{'m1': {'ret': 'kept'}} {}
20300101000000000000
{} 0 [{}]
1
['m1', 'm2']
";

const SILENT: &str = r#"
import salt.client
client = salt.client.LocalClient(MASTER)
for name, ret in sorted(client.cmd(["m1", "m3", "unknown"], "test.ping", timeout=2, tgt_type="list").items()):
    print(name, str(ret).split("\n")[0])
print(client.cmd("m3", "test.ping", timeout=2, full_return=True)["m3"]["out"])
print(list(client.cmd_iter("m*", "test.ping", timeout=2))[0]["m1"]["ret"])
print(list(client.cmd_iter("m3", "test.ping", timeout=2, expect_minions=True)))
print(list(client.cmd_iter(["unknown", "m1"], "test.ping", tgt_type="list"))[1])
"#;

const ERRORS: &str = r#"
import salt.client, salt.exceptions, salt.config, salt.runner, salt.wheel
client = salt.client.LocalClient(MASTER)
def shown(call, *args, **kwargs):
    try:
        print(call(*args, **kwargs))
    except salt.exceptions.SaltException as error:
        print(type(error).__name__, error)
shown(client.cmd, "m1 and (", "test.ping", tgt_type="compound")
shown(client.cmd, "m1", "test.ping", eauth="pam", username="x", password="y")
shown(client.cmd, "m1", "test.ping", timout=3)
opts = salt.config.master_config(MASTER)
runner = salt.runner.RunnerClient(opts)
shown(runner.cmd, "manage.up")
print(runner.cmd("test.arg", ["a", "b=1"], full_return=True)["return"])
shown(runner.cmd, "no.such")
print(sorted(salt.wheel.WheelClient(opts).cmd("key.list_all")["minions"]))
"#;

#[test]
fn python_programs_send_jobs_to_the_minions_of_the_master() {
    let mut fleet = Fleet::with("");
    fleet.accepted(&["m1", "m2"]);
    let (out, err) = python(&fleet, RETURNS, None);
    assert_eq!(out, RETURNED, "{err}");
    assert!(err.ends_with("ends at once\n"), "{err}");
    let no_match = "No minions matched the target. No command was sent, no jid was assigned.\n";
    assert_eq!(err.matches(no_match).count(), 3, "{err}");

    let (out, err) = python(&fleet, ERRORS, None);
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 7, "{out}{err}");
    assert!(lines[0].starts_with("SaltInvocationError "), "{out}");
    assert_eq!(
        lines[1..],
        [
            "AuthenticationError Authentication error occurred.",
            "SaltInvocationError LocalClient does not support timout",
            "['m1', 'm2']",
            "{'args': ['a'], 'kwargs': {'b': 1}}",
            "CommandNotFoundError 'no.such' is not available.",
            "['m1', 'm2']",
        ],
        "{err}"
    );
}

#[test]
fn python_programs_see_which_minions_did_not_answer() {
    let mut fleet = Fleet::with("gather_job_timeout: 2\n");
    fleet.accepted(&["m1", "m3"]);
    fleet.kill_minion("m3");
    let (out, err) = python(&fleet, SILENT, None);
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 7, "{out}{err}");
    assert_eq!(lines[0], "m1 True");
    assert!(
        lines[1].starts_with("m3 Minion did not return. [No"),
        "{out}"
    );
    assert_eq!(lines[2], "unknown Minion did not return. [No response]");
    assert_eq!(
        lines[3..],
        [
            "no_return",
            "True",
            "[{'m3': {'failed': True}}]",
            "{'unknown': {'failed': True}}"
        ],
        "{err}"
    );
}

const RUNNER: &str = r#"
import salt.client


def all():
    return sorted(salt.client.LocalClient("MASTER").cmd("*", "test.ping"))
"#;

#[test]
fn a_custom_runner_of_the_master_sends_jobs() {
    let mut fleet = Fleet::with("");
    let config = fleet.path("master/etc/master").display().to_string();
    fleet.write("salt/_runners/pings.py", &RUNNER.replace("MASTER", &config));
    fleet.accepted(&["m1", "m2"]);
    let synced = fleet.run(&["salt-run", "saltutil.sync_runners"]);
    assert!(synced.out.contains("runners.pings"), "{}", synced.out);
    let pinged = fleet.run(&["salt-run", "--out=json", "pings.all"]);
    let answered: Vec<String> = serde_json::from_str(&pinged.out).unwrap_or_default();
    assert_eq!(answered, ["m1", "m2"], "{}{}", pinged.out, fleet.logs());
}

const ONE: &str = r#"
import salt.client, salt.exceptions
client = salt.client.LocalClient(MASTER)
for fun in ("test.ping", "cmd.run"):
    try:
        print(client.cmd("m1", fun, ["id"] if fun == "cmd.run" else []))
    except salt.exceptions.SaltException as error:
        print(type(error).__name__, error)
try:
    print(client.get_cache_returns("20200101000000000000"))
except salt.exceptions.SaltException as error:
    print(type(error).__name__, error)
"#;

#[test]
fn the_master_checks_which_jobs_a_user_may_send_from_python() {
    if !tests::skip::is_root() {
        return eprintln!("passed over: only root can be another user");
    }
    let mut fleet = Fleet::with("publisher_acl:\n  nobody: [test.ping]\n");
    fleet.accepted(&["m1"]);
    fleet.run_as_nobody(&["salt", "--version"]);
    let (out, err) = python(&fleet, ONE, Some(NOBODY));
    let wanted = "{'m1': True}\nAuthorizationError Authorization error occurred.\nAuthorizationError only root and the user that the master runs as may do that\n";
    assert_eq!(out, wanted, "{err}");
}

const USER: &str = r#"
import salt.client, salt.exceptions
client = salt.client.LocalClient(MASTER)
def shown(call, *args, **kwargs):
    try:
        found = call(*args, **kwargs)
        print(found if isinstance(found, dict) else list(found))
    except salt.exceptions.SaltException as error:
        print(type(error).__name__, error)
joe = {"eauth": "file", "username": "joe", "password": "right-horse"}
shown(client.cmd, "m1", "test.ping", **joe)
shown(client.cmd, "m1", "cmd.run", ["id"], **joe)
shown(client.cmd_batch, "*", "test.ping", batch=1, **joe)
shown(client.cmd, "m1", "test.ping", **dict(joe, password="wrong-horse"))
shown(client.cmd, "m1", "test.ping", token="ab" * 32)
"#;

#[test]
fn a_python_program_sends_a_job_in_the_name_of_a_user_with_a_password() {
    let users = tests::scratch::Scratch::new();
    users.write("users", "joe:right-horse\n");
    let file = users.path().join("users").display().to_string();
    let config = format!("external_auth:\n  file:\n    ^filename: {file}\n    joe: [test.ping]\n");
    let mut fleet = Fleet::with(&config);
    fleet.accepted(&["m1"]);
    let (out, err) = python(&fleet, USER, None);
    let wanted = "{'m1': True}\nAuthorizationError Authorization error occurred.\n[{'m1': True}]\nAuthenticationError Authentication error occurred.\nAuthenticationError Authentication error occurred.\n";
    assert_eq!(out, wanted, "{err}");
    assert!(!fleet.logs().contains("-horse"));
}

#[test]
fn without_a_master_the_client_says_what_is_missing_and_what_to_use() {
    let mut fleet = Fleet::with("");
    let socket = fleet.path("master/run/master.sock").display().to_string();
    fleet.kill_master();
    let (out, err) = python(&fleet, ONE, None);
    let wanted = format!("The salt master could not be contacted. Is master running? ({socket}: ");
    assert_eq!(out.matches(&wanted).count(), 3, "{out}{err}");
    assert_eq!(
        out.matches("use salt.client.Caller\n").count(),
        3,
        "{out}{err}"
    );
    assert!(out.starts_with("SaltClientError "), "{out}{err}");

    // A build without a master lacks this file of the package.
    std::fs::remove_file(fleet.path("package/salt/_master.py")).unwrap();
    let output = Command::new("python3")
        .args(["-B", "-c", "import salt.client\nsalt.client.LocalClient()"])
        .env("PYTHONPATH", fleet.path("package"))
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    let wanted = "SaltClientError: this program is built without a master. Use salt.client.Caller for this machine\n";
    assert!(err.ends_with(wanted), "{err}");
}
