//! The .rpm under rpm and dnf, and the pacman package under pacman: each in a throw-away root with an
//! empty database.

use std::path::Path;

use tests::program::assert_in_order;
use tests::scratch::corpus;

use super::{in_throwaway, is_root, packaged, shipped, stand_in_here, target};

/// Runs the corpus's script `with` and then `script` in a throw-away root, and returns the output
/// of `script`.
fn after(dir: &Path, with: &str, script: &str) -> String {
    let with = corpus().join(with);
    in_throwaway(
        dir,
        &format!(". {} >&2\ncd {}\n{script}", with.display(), dir.display()),
    )
}

const RPM: &str = r#"
mkdir -p /srv/config; echo 'id: box' >/srv/config/minion
rm -f /usr/bin/salt-call
rpm() { command rpm --force-debian "$@"; }
# The C library here is Debian's, of which rpm knows nothing.
rpm -U --nodeps old/*.rpm
rpm -q pinch
pinch install-links /usr/bin
salt-call -c /srv/config --local --out=txt test.ping
echo 'STATES="web"' >/etc/default/pinch-apply
rpm -U --nodeps new/*.rpm
rpm -q pinch
rpm -V --nodeps pinch || true
cat /etc/default/pinch-apply
systemctl enable pinch-apply.timer 2>&1
readlink /usr/bin/salt-call
man -w pinch-salt-call >/dev/null || ls /usr/share/man/man1/pinch-salt-call.1.gz
rpm -e pinch 2>&1
ls /usr/bin/pinch /usr/bin/salt-call 2>&1 || true
ls /etc/systemd/system/timers.target.wants 2>&1 | grep pinch || echo not enabled
"#;

#[test]
fn an_rpm_is_installed_upgraded_and_removed() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    shipped("rpm", &["--version", "0.0.9"], &dir.path().join("old"));
    shipped("rpm", &[], &dir.path().join("new"));
    let text = after(dir.path(), "rpm.sh", RPM);
    let version = env!("CARGO_PKG_VERSION");
    let expected = [
        "pinch-0.0.9-1.x86_64\nlocal: True\n",
        &format!("pinch-{version}-1.x86_64\n"),
        "c /etc/default/pinch-apply\nSTATES=\"web\"\n",
        "/usr/bin/pinch\n",
        "cannot access '/usr/bin/pinch'",
        "cannot access '/usr/bin/salt-call'",
        "not enabled\n",
    ];
    assert_in_order(&text, &expected);
}

#[test]
fn dnf_takes_the_rpm_with_nothing_else() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let binary = stand_in_here(dir.path());
    for version in ["0.0.9", "0.1.0~rc1", "0.1.0"] {
        packaged(
            &binary,
            &target(),
            "rpm",
            &["--version", version],
            dir.path(),
        );
    }
    let script = "
rpm -q base
dnf -qy install ./pinch-0.0.9-1.*.rpm
rpm -qa | sort
dnf -qy install ./pinch-0.1.0~rc1-1.*.rpm
dnf -qy install ./pinch-0.1.0-1.*.rpm
rpm -qa | sort
rpm -qi pinch
dnf -qy remove pinch
rpm -qa
ls -d /usr/bin/pinch /usr/share/licenses/pinch 2>&1 || true
";
    let text = after(dir.path(), "rpm.sh", script);
    let (old, new) = (
        "base-1-1.noarch\npinch-0.0.9-1.x86_64\n",
        "base-1-1.noarch\npinch-0.1.0-1.x86_64\n",
    );
    let gone = [
        "cannot access '/usr/bin/pinch'",
        "cannot access '/usr/share/licenses/pinch'",
    ];
    assert_in_order(
        &text,
        &[
            old,
            new,
            "License     : Apache-2.0",
            "base-1-1.noarch\n",
            gone[0],
            gone[1],
        ],
    );
}

#[test]
fn pacman_installs_upgrades_and_removes_it() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    shipped("arch", &["--version", "0.0.9"], &dir.path().join("old"));
    shipped("arch", &[], &dir.path().join("new"));
    let script = r#"
mkdir -p /srv/config; echo 'id: box' >/srv/config/minion
rm -f /usr/bin/salt-call
pacman -U --noconfirm old/*.zst
pacman -Q pinch
pinch install-links /usr/bin
salt-call -c /srv/config --local --out=txt test.ping
echo 'STATES="web"' >/etc/default/pinch-apply
pacman -U --noconfirm new/*.zst
pacman -Q pinch
cat /etc/default/pinch-apply
readlink /usr/bin/salt-call
pacman -Qkk pinch
pacman -Rn --noconfirm pinch
ls /usr/bin/pinch /usr/bin/salt-call /etc/default/pinch-apply 2>&1 || true
"#;
    let text = after(dir.path(), "pacman.sh", script);
    let version = env!("CARGO_PKG_VERSION");
    let expected = [
        "pinch 0.0.9-1\nlocal: True\n",
        &format!("pinch {version}-1\nSTATES=\"web\"\n/usr/bin/pinch\n"),
        "cannot access '/usr/bin/pinch'",
        "cannot access '/usr/bin/salt-call'",
        "cannot access '/etc/default/pinch-apply'",
    ];
    assert_in_order(&text, &expected);
}
