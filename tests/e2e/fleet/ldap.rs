//! Users of `external_auth: ldap`: passwords of a real directory, over the socket and over HTTP.

use std::path::Path;

use super::eauth::{NO_LOGIN, in_throw_away_root};

const CONFIG: &str = "\
# ldap
auth.ldap.server: 127.0.0.1
auth.ldap.basedn: dc=example,dc=org
auth.ldap.binddn: cn=reader,dc=example,dc=org
auth.ldap.bindpw: reader-horse
auth.ldap.filter: 'uid={{ username }}'
external_auth:
  ldap:
    alice: ['@jobs']
    staff%: ['@manage']
";

/// A directory and a master run, and each command prints its answer after its name.
const SCRIPT: &str = r#"
. @CORPUS@/slapd.sh
start
say right run alice right-horse jobs.active
say wrong run alice wrong-horse jobs.active
say empty run alice '' jobs.active
say group run bob right-horse manage.up
say other run bob right-horse jobs.active
say pattern run 'a*' right-horse jobs.active
say nobody run nobody right-horse jobs.active
login_of alice right-horse
login_of alice wrong-horse
login_of alice ''
login_of bob right-horse
call='[{"client": "runner", "fun": "manage.up"}]'
say http-group post / "$call"
call='[{"client": "runner", "fun": "jobs.active"}]'
say http-other post / "$call"
login_of 'alice)(uid=*' right-horse
stop
printf 'auth.ldap.tls: True\nauth.ldap.port: 636\n' >>etc/master
start
# The directory's certificate is not trusted yet.
printf 'TLS_CACERT /dev/null\n' >/etc/ldap/ldap.conf
login_of bob right-horse
printf 'TLS_CACERT %s\n' "$dir/ldap.crt" >/etc/ldap/ldap.conf
login_of alice right-horse
say tls run alice right-horse jobs.active
login_of alice wrong-horse
stop_slapd
login_of bob right-horse
stop
if grep -rl 'right-horse\|wrong-horse' root master.log err.log answer; then echo 'a password is on the disk'; fi
"#;

#[test]
fn accounts_of_a_directory_log_in_with_their_passwords_and_have_the_rules_of_their_groups() {
    if !tests::skip::is_root() {
        return eprintln!("passed over: only root can make a throw-away root");
    }
    let has = |path: &str| Path::new(path).exists();
    if !has("/usr/sbin/slapd") && !has("/var/cache/pinch-tests/ldap/root/usr/sbin/slapd") {
        return tests::skip::skip("it needs slapd");
    }
    let (text, log) = in_throw_away_root(CONFIG, SCRIPT);
    let refused = |user: &str| {
        format!("\"Authentication failure of type \\\"eauth\\\" occurred for user {user}.\" ")
    };
    let not_allowed = "{\"status\": 401, \"return\": \"Authentication failure of type \\\"token\\\" occurred for user bob.\"}401";
    let expected = [
        ("right", "{} "),
        ("wrong", &refused("alice")),
        ("empty", &refused("alice")),
        ("group", "[] "),
        ("other", &refused("bob")),
        ("pattern", &refused("a*")),
        ("nobody", &refused("nobody")),
        ("http alice", "a token"),
        ("http alice", NO_LOGIN),
        ("http alice", NO_LOGIN),
        ("http bob", "a token"),
        ("http-group", "{\"return\": [[]]}200"),
        ("http-other", not_allowed),
        ("http alice)(uid=*", NO_LOGIN),
        ("http bob", NO_LOGIN),
        ("http alice", "a token"),
        ("tls", "{} "),
        ("http alice", NO_LOGIN),
        ("http bob", NO_LOGIN),
    ];
    let line = |(name, answer): &(&str, &str)| format!("{name}: {answer}\n");
    let expected: String = expected.iter().map(line).collect();
    assert_eq!(text, expected, "{log}");
}
