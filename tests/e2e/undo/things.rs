//! Tests of undoing changes to things other than files: packages, accounts, crontabs, services,
//! kernel settings.

use std::process::Command;

use tests::program::{boot, in_recorded_environment, pinch_program};
use tests::scratch::{Scratch, corpus};

/// Runs a script in a throw-away root and returns its output. `pinch` and `call` in the script are
/// the program with the minion's folder. `None` without root.
fn in_throwaway(init: Option<&str>, files: &[(&str, &str)], script: &str) -> Option<String> {
    if !tests::skip::is_root() {
        return None;
    }
    let scratch = Scratch::new();
    for (name, text) in files {
        scratch.write(name, text);
    }
    if let Some(init) = init {
        assert!(boot(scratch.path(), init).unwrap());
    }
    let etc = scratch.path().join("etc");
    let all = format!(
        "export SALT_CONFIG_DIR={}\npinch() {{ {1} \"$@\" 2>&1 || true; }}\ncall() {{ {1} salt-call --local \"$@\" 2>&1 || true; }}\n{script}",
        etc.display(),
        pinch_program().display(),
    );
    let mut command = Command::new(corpus().join("throwaway.sh"));
    command.arg(scratch.path()).args(["sh", "-euc", &all]);
    let output = in_recorded_environment(&mut command).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{stderr}");
    Some(text)
}

/// Returns the text between `from` and `to`.
fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let rest = text
        .split_once(from)
        .unwrap_or_else(|| panic!("no {from} in {text}"))
        .1;
    rest.split_once(to)
        .unwrap_or_else(|| panic!("no {to} in {text}"))
        .0
}

const MACHINE: &str = "\
demo:
  pkg.latest: []
tool:
  pkg.installed: []
undone-g:
  group.present: [{gid: 4321}]
undone-u:
  user.present: [{uid: 4322}, {home: /var/undone-u}]
job:
  cron.present: [{name: /bin/undone}, {minute: 5}]
names:
  host.present: [{ip: 127.0.0.9}, {names: [undone.example]}]
";

#[test]
fn packages_accounts_crontabs_and_hosts_are_undone() {
    let script = format!(
        r#"
. {}
apt-get -qq update
apt-get -qq -y install demo=1.1 >/dev/null 2>&1
printf '# its own\n1 2 3 4 5 /bin/before\n' | crontab -
look() {{ dpkg-query -W -f '${{Package}} ${{Version}} ${{Status}}\n'; getent passwd undone-u; getent group undone-u undone-g; cat /etc/hosts; crontab -l; }}
echo BEFORE; look || true
call state.apply s
echo AFTER; look || true
echo PLAN; pinch undo last --dry-run
echo UNDO; pinch undo last --yes
echo UNDONE; look || true
echo AGAIN; pinch undo last --yes
echo REDONE; look || true
echo END
"#,
        corpus().join("apt.sh").display()
    );
    let Some(text) = in_throwaway(None, &[("srv/salt/s.sls", MACHINE)], &script) else {
        return;
    };
    let before = between(&text, "BEFORE\n", "local:");
    let after = between(&text, "AFTER\n", "PLAN\n");
    let undone = between(&text, "UNDONE\n", "AGAIN\n");
    let redone = between(&text, "REDONE\n", "END\n");
    for made in [
        "demo 2:2.0-1 install",
        "tool 0.9",
        "extra 1.0",
        "undone-u:x:4322",
        "undone-g:x:4321",
        "undone.example",
        "/bin/undone",
    ] {
        assert!(
            after.contains(made) && !before.contains(made),
            "{made}: {text}"
        );
    }
    let no_config = |look: &str| {
        // Packages that apt removes keep their configuration, so they remain in the list.
        let lines = look.lines().filter(|line| !line.ends_with("config-files"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(no_config(undone), no_config(before), "{text}");
    assert_eq!(redone, after, "{text}");
    let plan = between(&text, "PLAN\n", "UNDO\n");
    for line in [
        "~ package demo: 2:2.0-1 -> 1.1\n",
        "~ crontab root: its text is restored\n",
        "-5 * * * * /bin/undone\n",
        " 0 cannot be undone\n",
    ] {
        assert!(plan.contains(line), "{line}: {text}");
    }
}

#[test]
fn what_moved_of_a_thing_is_named_and_a_version_that_is_gone_too() {
    let script = format!(
        r#"
. {}
apt-get -qq update
apt-get -qq -y install demo=1.1 >/dev/null 2>&1
call state.apply s
usermod -s /bin/moved undone-u
echo MOVED; pinch undo last --yes
usermod -s /bin/sh undone-u
echo LEFT; getent passwd undone-u
rm /srv/repo/demo_1.1_all.deb; index; apt-get -qq update
echo PLAN; pinch undo last --dry-run --except undone-u
echo END
"#,
        corpus().join("apt.sh").display()
    );
    let sls = "demo:\n  pkg.latest: []\nundone-u:\n  user.present: [{uid: 4322}, {shell: /bin/sh}, {createhome: False}]\n";
    let Some(text) = in_throwaway(None, &[("srv/salt/s.sls", sls)], &script) else {
        return;
    };
    let moved = between(&text, "MOVED\n", "LEFT\n");
    assert!(
        moved.contains("user undone-u: it is not as the run left it"),
        "{text}"
    );
    assert!(moved.contains("nothing was changed"), "{text}");
    assert!(
        between(&text, "LEFT\n", "PLAN\n").contains("undone-u:x:4322"),
        "{text}"
    );
    let plan = between(&text, "PLAN\n", "END\n");
    assert!(
        plan.contains("! package demo: its version 1.1 is no longer in any repository"),
        "{text}"
    );
    assert!(plan.contains("0 to undo"), "{text}");
}

#[test]
fn a_service_is_stopped_and_not_to_start_again() {
    let script = r#"
mkdir /etc/sv/sleeper
printf '#!/bin/sh\nexec sleep 1357\n' >/etc/sv/sleeper/run
chmod 755 /etc/sv/sleeper/run
call state.single service.running sleeper enable=True
echo "RAN $(call --out=txt service.status sleeper) $(call --out=txt service.enabled sleeper)"
pinch undo last --yes
echo "UNDONE $(call --out=txt service.status sleeper) $(call --out=txt service.enabled sleeper)"
"#;
    let minion = [("etc/minion.d/case.conf", "grains:\n  os: Void\n")];
    let Some(text) = in_throwaway(Some("runit"), &minion, script) else {
        return;
    };
    assert!(text.contains("RAN local: True local: True"), "{text}");
    assert!(
        text.contains("~ service running sleeper: yes -> no"),
        "{text}"
    );
    assert!(text.contains("UNDONE local: False local: False"), "{text}");
}
