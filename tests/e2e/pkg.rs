//! Tests of the machine's package manager and its effects on this program. Each test has a
//! throw-away root with its own repository.

use std::process::Command;

use tests::program::{in_recorded_environment, program};
use tests::scratch::{Scratch, corpus};

/// Runs `apt.sh` and then a script in a throw-away root, and returns the output. `pinch` in the
/// script is the program with the minion's folder. `None` without root.
fn in_throwaway(script: &str) -> Option<String> {
    if !tests::skip::is_root() {
        return None;
    }
    let scratch = Scratch::new();
    scratch.write("etc/minion.d/case.conf", "pkg_lock_timeout: 1\n");
    scratch.write("srv/salt/demo.sls", "demo:\n  pkg.installed\n");
    let (corpus, program) = (corpus(), program().join(" "));
    let (apt, etc) = (corpus.join("apt.sh"), scratch.path().join("etc"));
    let (apt, etc) = (apt.display(), etc.display());
    let all =
        format!(". {apt}\npinch() {{ {program} -c {etc} --local \"$@\" 2>&1 || true; }}\n{script}");
    let mut command = Command::new(corpus.join("throwaway.sh"));
    command.arg(scratch.path()).args(["sh", "-euc", &all]);
    let output = in_recorded_environment(&mut command).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{stderr}");
    Some(text)
}

#[test]
fn a_lock_is_waited_for_and_its_holder_is_named() {
    let script = r#"
printf '#!/bin/sh\ntouch /tmp/locked\nexec sleep 6 >/dev/null 2>&1\n' >/tmp/postinst
chmod 755 /tmp/postinst
postinst=/tmp/postinst
package slow 1.0
index
apt-get -qq update
apt-get -qq -y install slow >/dev/null 2>&1 &
while [ ! -e /tmp/locked ]; do sleep 0.1; done
pinch state.apply demo
wait
"#;
    let Some(text) = in_throwaway(script) else {
        return;
    };
    assert!(text.contains("Could not get lock"), "{text}");
    assert!(
        text.contains("Waited 1 seconds for the lock that process "),
        "{text}"
    );
    assert!(
        text.contains(" holds: apt-get -qq -y install slow"),
        "{text}"
    );
}

#[test]
fn names_that_would_be_options_are_refused() {
    let script = "
apt-get -qq update
pinch pkg.install name=-o
pinch pkg.install 'demo-'
pinch pkg.remove pkgs='[\"-demo\"]'
pinch pkg.hold name=-o
pinch pkg.owner -- -o
";
    let Some(text) = in_throwaway(script) else {
        return;
    };
    assert_eq!(text.matches("invalid package name").count(), 4, "{text}");
    assert!(text.contains("would be an option"), "{text}");
}
