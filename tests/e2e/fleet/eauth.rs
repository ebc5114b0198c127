//! Users of `external_auth`: passwords of PAM in a throw-away root, and logins over the master's socket.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use super::Fleet;
use super::api::Asked;
use tests::program::{in_recorded_environment, pinch_program};
use tests::scratch::{Scratch, corpus};

const CONFIG: &str = "\
# pam
auth.pam.service: login
external_auth:
  pam:
    alice: ['@jobs']
    staff%: ['@manage']
    '*': ['@doc']
";

/// Users are made, a master runs, and each command prints its answer after its name.
const SCRIPT: &str = r#"
for user in alice bob carol dave erin; do
    useradd "$user"
    echo "$user:right-horse" | chpasswd
done
groupadd -f staff
usermod -aG staff bob
usermod -L carol
usermod -e 1970-01-05 dave
chage -d 0 erin
start
say right run alice right-horse jobs.active
say wrong run alice wrong-horse jobs.active
say group run bob right-horse manage.up
say other run bob right-horse jobs.active
say locked run carol right-horse doc.runner nothing
say expired run dave right-horse doc.runner nothing
say aged run erin right-horse doc.runner nothing
say nobody run nobody-here right-horse doc.runner nothing
echo right-horse | setsid @PINCH@ salt -c etc -a pam -T --username alice x test.ping >/dev/null 2>>err.log || true
say token pinch salt-run -c etc --out=json -a pam jobs.active
login_of alice right-horse
login_of alice wrong-horse
for user in carol dave erin nobody-here; do login_of $user right-horse; done
login_of alice right-horse
call='[{"client": "runner", "fun": "jobs.active"}]'
say http-call post / "$call"
# A stream of events has the token, too, and its check counts for a second.
curl -s -N -H "X-Auth-Token: $token" http://127.0.0.1:8000/events >stream &
stream=$!
until grep -q retry stream; do sleep 0.1; done
usermod -L alice
say gone pinch salt-run -c etc --out=json -a pam jobs.active
say http-gone post / "$call"
sleep 1.1
pinch salt-run -c etc test.arg x >/dev/null 2>>err.log
timeout 60 tail --pid=$stream -f /dev/null
if grep test.arg stream; then exit 1; fi
usermod -U alice
stop
printf 'auth.pam.helper: unix_chkpwd\n' >>etc/master
rm -f token
start
say chkpwd run alice right-horse jobs.active
say chkpwd-wrong run alice wrong-horse jobs.active
say chkpwd-expired run dave right-horse doc.runner nothing
login_of bob right-horse
login_of bob wrong-horse
stop
if grep -rl 'right-horse\|wrong-horse' root master.log err.log stream answer; then echo 'a password is on the disk'; fi
"#;

/// The answer to a login that is refused.
pub(super) const NO_LOGIN: &str =
    "{\"status\": 401, \"return\": \"Could not authenticate using provided credentials\"}401";

/// The functions of the scripts: `run USER PASSWORD FUN` calls a runner, `post PATH JSON` sends a request
/// to the API, `login_of USER PASSWORD` prints whether there is a token.
const FUNCTIONS: &str = r#"
ip link set lo up 2>/dev/null || true
pinch() { applet=$1; shift; @PINCH@ "$applet" "$@"; }
start() {
    @PINCH@ salt-master -c etc >>master.log 2>&1 &
    master=$!
    until [ -S root/var/run/salt/master/master.sock ] && curl -s -o /dev/null http://127.0.0.1:8000/; do sleep 0.1; kill -0 $master; done
}
stop() { kill $master; wait $master || true; rm -f root/var/run/salt/master/master.sock; }
say() { printf '%s: ' "$1"; shift; "$@" 2>>err.log </dev/null | tr '\n' ' '; echo; }
run() { user=$1 password=$2; shift 2; echo "$password" | setsid @PINCH@ salt-run -c etc --out=json -a @EAUTH@ --username "$user" "$@" 2>>err.log; }
post() { curl -s -w '%{http_code}' -H 'Content-Type: application/json' -H "X-Auth-Token: ${token:-}" -d "$2" "http://127.0.0.1:8000$1"; }
login_of() {
    post /login "{\"username\": \"$1\", \"password\": \"$2\", \"eauth\": \"@EAUTH@\"}" >answer
    printf 'http %s: ' "$1"
    token=$(sed -n 's/.*"token": "\([0-9a-f]*\)".*/\1/p' answer)
    if [ -n "$token" ]; then echo "a token"; else cat answer; echo; fi
}
"#;

const API: &str = "\
rest_cherrypy: {port: 8000}
netapi_enable_clients: [runner]
interface: 127.0.0.1
";

/// Runs a script with a master in a throw-away root. The first line of its configuration names the
/// source. Returns what it prints, and the log of the master.
pub(super) fn in_throw_away_root(config: &str, script: &str) -> (String, String) {
    let scratch = Scratch::new();
    let dir = scratch.path().display().to_string();
    let eauth = config.lines().next().unwrap().trim_start_matches("# ");
    let config = format!("{config}{API}root_dir: {dir}/root\ntoken_file: {dir}/token\n");
    scratch.write("etc/master", &config);
    let all = format!("dir={dir}\n{FUNCTIONS}{script}")
        .replace("@PINCH@", &pinch_program().display().to_string())
        .replace("@EAUTH@", eauth)
        .replace("@CORPUS@", &corpus().display().to_string());
    let mut command = Command::new(corpus().join("throwaway.sh"));
    command.arg(scratch.path()).args(["sh", "-euc", &all]);
    let output = in_recorded_environment(&mut command).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let log = fs::read_to_string(scratch.path().join("master.log")).unwrap_or_default();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{errors}{log}");
    (text, log)
}

#[test]
fn accounts_of_the_machine_log_in_with_their_passwords() {
    if !tests::skip::is_root() {
        return eprintln!("passed over: only root can make accounts");
    }
    let (text, log) = in_throw_away_root(CONFIG, SCRIPT);
    let refused = |user: &str| {
        format!("\"Authentication failure of type \\\"eauth\\\" occurred for user {user}.\" ")
    };
    let expected = [
        ("right", "{} ".to_owned()),
        ("wrong", refused("alice")),
        ("group", "[] ".to_owned()),
        ("other", refused("bob")),
        ("locked", refused("carol")),
        ("expired", refused("dave")),
        ("aged", refused("erin")),
        ("nobody", refused("nobody-here")),
        ("token", "{} ".to_owned()),
        ("http alice", "a token".to_owned()),
        ("http alice", NO_LOGIN.to_owned()),
        ("http carol", NO_LOGIN.to_owned()),
        ("http dave", NO_LOGIN.to_owned()),
        ("http erin", NO_LOGIN.to_owned()),
        ("http nobody-here", NO_LOGIN.to_owned()),
        ("http alice", "a token".to_owned()),
        ("http-call", "{\"return\": [{}]}200".to_owned()),
        (
            "gone",
            "\"Authentication failure of type \\\"token\\\" occurred.\" ".to_owned(),
        ),
        (
            "http-gone",
            "{\"status\": 401, \"return\": \"No permission -- see authorization schemes\"}401"
                .to_owned(),
        ),
        ("chkpwd", "{} ".to_owned()),
        ("chkpwd-wrong", refused("alice")),
        ("chkpwd-expired", refused("dave")),
        ("http bob", "a token".to_owned()),
        ("http bob", NO_LOGIN.to_owned()),
    ];
    let expected: String = expected
        .iter()
        .map(|(name, answer)| format!("{name}: {answer}\n"))
        .collect();
    assert_eq!(text, expected, "{log}");
}

/// Runs a command as a user without rights, with a line on its standard input.
fn answered(fleet: &Fleet, line: &str, words: &[&str]) -> (String, Option<i32>) {
    let program = fleet.path("pinch");
    let (applet, rest) = words.split_first().unwrap();
    let mut command = Command::new("setsid");
    command.args([
        "-w",
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
    ]);
    command
        .arg(&program)
        .arg(applet)
        .arg("-c")
        .arg(fleet.path("master/etc"))
        .args(rest);
    in_recorded_environment(&mut command);
    command.env("HOME", fleet.path("home"));
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(line.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        output.status.code(),
    )
}

/// A master with two minions and a file of users, or `None` without root.
fn with_users() -> Option<(Fleet, Scratch)> {
    if !tests::skip::is_root() {
        return None;
    }
    let users = Scratch::new();
    users.write("users", "joe:right-horse\nann:right-horse\n");
    let file = users.path().join("users").display().to_string();
    let config = format!(
        "external_auth:\n  file:\n    ^filename: {file}\n    joe:\n      - test.ping\n      - m2: [{{cmd.run: {{args: ['echo .*']}}}}]\n      - '@jobs'\n      - '@wheel': [key.list_all]\n    ann: []\n"
    );
    let mut fleet = Fleet::with(&config);
    fleet.accepted(&["m1", "m2"]);
    let home = fleet.path("home");
    fs::create_dir(&home).unwrap();
    fs::set_permissions(&home, fs::Permissions::from_mode(0o777)).unwrap();
    // Without a login there are no rights.
    let without = fleet.run_as_nobody(&["salt", "m1", "test.ping"]);
    assert_eq!(without.out, REFUSED);
    Some((fleet, users))
}

const REFUSED: &str = "Authorization error occurred.\n";
const WRONG: &str = "Authentication error occurred.\n";

/// Runs `salt` as joe with the right password.
fn by_joe(fleet: &Fleet, words: &[&str]) -> String {
    let joe = ["salt", "--out=txt", "-a", "file", "--username", "joe"];
    answered(fleet, "right-horse\n", &[&joe[..], words].concat()).0
}

#[test]
fn users_log_in_on_the_socket() {
    let Some((fleet, _users)) = with_users() else {
        return;
    };
    assert_eq!(by_joe(&fleet, &["m1", "test.ping"]), "m1: True\n");
    assert_eq!(by_joe(&fleet, &["m2", "cmd.run", "echo x"]), "m2: x\n");
    for words in [
        &["m1", "cmd.run", "echo x"][..],
        &["m2", "cmd.run", "id"],
        &["*", "test.arg"],
    ] {
        assert_eq!(by_joe(&fleet, words), REFUSED, "{words:?}");
    }
    let words = ["salt", "-a", "file", "--username", "joe", "m1", "test.ping"];
    let wrong = answered(&fleet, "wrong-horse\n", &words);
    assert_eq!(wrong, (WRONG.to_owned(), Some(2)));
    let unknown = answered(&fleet, "", &["salt", "-a", "pam2", "m1", "test.ping"]);
    let text = "\"pam2\" is not available\nAvailable eauth types: auto, file,";
    assert!(unknown.0.contains(text), "{}", unknown.0);
    assert_eq!(unknown.1, Some(2));
    // The record names the user.
    let jobs = fleet.run(&["salt-run", "--out=json", "jobs.list_jobs"]).out;
    assert!(jobs.contains(r#""User": "joe""#), "{jobs}");
    assert!(!fleet.logs().contains("-horse"));
}

#[test]
fn a_token_needs_no_password_and_is_in_no_event() {
    let Some((fleet, _users)) = with_users() else {
        return;
    };
    assert_eq!(by_joe(&fleet, &["-T", "m1", "test.ping"]), "m1: True\n");
    let file = fleet.path("home/salt_token");
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let by = |words: &[&str]| answered(&fleet, "", words);
    assert_eq!(
        by(&["salt", "--out=txt", "m1", "test.ping"]).0,
        "m1: True\n"
    );
    assert_eq!(by(&["salt", "m1", "cmd.run", "id"]).0, REFUSED);
    let active = by(&["salt-run", "--out=json", "-a", "file", "jobs.active"]);
    assert_eq!(active, ("{}\n".to_owned(), Some(0)));
    let up = by(&["salt-run", "-a", "file", "manage.up"]).0;
    let text = "Authentication failure of type \"token\" occurred for user joe.";
    assert!(up.contains(text), "{up}");
    let keys = by(&["salt-key", "--auth=file", "-L"]).0;
    assert!(keys.contains("m1"), "{keys}");
    by(&["salt-key", "--auth=file", "-y", "-d", "m1"]);
    assert!(fleet.run(&["salt-key", "-l", "acc"]).out.contains("m1"));
    let token = fs::read_to_string(&file).unwrap();
    let made = ["username=joe", "password=right-horse", "eauth=file"];
    let made = [&["salt-run", "--out=json", "auth.mk_token"][..], &made].concat();
    let made = fleet.run(&made).out;
    let made: serde_json::Value = serde_json::from_str(&made).unwrap();
    let other = made["token"].as_str().unwrap();
    let events = fleet
        .run(&["salt-run", "state.event", "from=0", "until=now"])
        .out;
    assert!(events.contains("auth.mk_token"), "{events}");
    let seen = format!("{events}{}", fleet.logs());
    for secret in [token.as_str(), other, "right-horse"] {
        assert!(!seen.contains(secret), "{secret} is in an event or a log");
    }
    let deleted = fleet.run(&["salt-run", "auth.del_token", &token]).out;
    assert_eq!(deleted, "True\n");
    let gone = by(&["salt", "m1", "test.ping"]);
    assert_eq!(gone, (WRONG.to_owned(), Some(2)));
}

#[test]
fn the_passwords_of_the_configuration_are_in_no_answer_and_in_no_event() {
    let secrets = ["battery-staple", "horse-battery"];
    let fleet = Fleet::with_api(&format!(
        "sharedsecret: {}\nauth.ldap.bindpw: {}\n",
        secrets[0], secrets[1]
    ));
    let token = fleet.login("alice");
    let chunk = serde_json::json!([{"client": "wheel", "fun": "config.values"}]);
    let reply = fleet.ask(&Asked::post("/", &chunk).token(&token));
    let values = &reply.json()["return"][0]["data"]["return"];
    assert!(values["rest_cherrypy"].is_object(), "{reply:?}");
    assert_eq!(values["sharedsecret"], "‹secret›");
    let events = fleet.run(&["salt-run", "state.event", "from=0", "until=now"]);
    assert!(events.out.contains("config.values"), "{}", events.out);
    let seen = format!("{}{}{}", reply.body, events.out, fleet.logs());
    for secret in secrets {
        assert!(!seen.contains(secret), "{secret}");
    }
}
