//! Tests with the real dnf, zypper, pacman and apt, each in a throw-away root with its own
//! repositories. They cover the state of the machine afterwards, and behaviour that the recorded
//! cases cannot compare with Salt because Salt does less or nothing there.

use std::process::Command;

use tests::program::{assert_in_order, in_recorded_environment, program};
use tests::scratch::{Scratch, corpus};

const FEDORA: &str = "grains: {os_family: RedHat, os: Fedora, osrelease: '39', osmajorrelease: 39, osarch: x86_64}\n";
const SUSE: &str = "grains: {os_family: Suse, os: SUSE, osrelease: '15.5', osarch: x86_64}\n";
const ARCH: &str = "grains: {os_family: Arch, os: Arch, osarch: x86_64}\n";

/// Runs the corpus's script `with` and then `script` on a machine with these grains, and returns
/// the output. `pinch` in the script calls the program. `None` without root.
fn on(grains: &str, with: &str, script: &str) -> Option<String> {
    if !tests::skip::is_root() {
        return None;
    }
    let scratch = Scratch::new();
    scratch.write("etc/minion.d/case.conf", grains);
    let (with, program) = (corpus().join(with), program().join(" "));
    let (with, etc) = (with.display(), scratch.path().join("etc"));
    let etc = etc.display();
    let all = format!(
        ". {with}\npinch() {{ {program} -c {etc} --local \"$@\" 2>&1 || echo exit $?; }}\n{script}"
    );
    let mut command = Command::new(corpus().join("throwaway.sh"));
    command.arg(scratch.path()).args(["sh", "-euc", &all]);
    let output = in_recorded_environment(&mut command).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}{stderr}");
    Some(text)
}

#[test]
fn dnf_takes_packages_from_a_repository_that_was_just_added() {
    let script = r#"
mkdir /srv/more
mv /srv/repo/tool-0.9-1.noarch.rpm /srv/repo/extra-1.0-1.noarch.rpm /srv/more
for folder in /srv/repo /srv/more; do createrepo_c --quiet --no-database $folder; done
pinch state.single pkgrepo.managed more humanname=More baseurl=file:///srv/more gpgcheck=0
pinch state.single pkg.installed tool fromrepo=more
rpm -q tool extra
pinch pkg.mod_repo more priority=10
grep priority /etc/yum.repos.d/more.repo
echo altered >/etc/tool.conf; rm /usr/share/tool/version
pinch state.single pkg.installed tool pkg_verify='[{ignore_types: [config]}]' refresh=False
cat /usr/share/tool/version
pinch pkg.info_installed tool attr=version,source_rpm --out=json --out-indent=-1
pinch pkg.del_repo more
ls /etc/yum.repos.d
pinch pkg.show tool
"#;
    let Some(text) = on(FEDORA, "rpm.sh", script) else {
        return;
    };
    assert_in_order(
        &text,
        &[
            "Configured package repo 'more'",
            "The following packages were installed/updated: tool",
            "tool-0.9-1.noarch\nextra-1.0-1.noarch\n",
            "priority=10\n",
            "Package tool was reinstalled. The following files were remediated:",
            "/usr/share/tool/version",
            "\n0.9\n",
            r#""version": "0.9", "source": "tool-0.9-1.src.rpm""#,
            "File /etc/yum.repos.d/more.repo containing repo more has been removed",
            "local.repo\n",
            "'pkg.show' is not available.",
        ],
    );
}

#[test]
fn dnf_leaves_what_is_held_and_changes_the_rest() {
    let script = r#"
package python3-dnf-plugin-versionlock 1-1
index
dnf -qy install python3-dnf-plugin-versionlock demo-1.0-1 >/dev/null
pinch pkg.hold demo
pinch state.single pkg.latest held pkgs='[demo, extra]'
rpm -q demo extra
pinch state.single pkg.installed demo version=1.1-1 update_holds=True refresh=False
rpm -q demo
dnf -q versionlock list
pinch state.single pkg.purged extra
"#;
    let Some(text) = on(FEDORA, "rpm.sh", script) else {
        return;
    };
    assert_in_order(
        &text,
        &[
            "Package demo is now being held.",
            "demo-1.0-1.noarch\nextra-1.0-1.noarch\n",
            "The following packages were installed/updated: demo=1.1-1",
            "demo-1.1-1.noarch\n",
            "demo-0:1.1-1.*\n",
            "All targeted packages were purged.",
        ],
    );
}

#[test]
fn zypper_frees_what_is_held_where_it_may_and_installs_again() {
    let script = r#"
zypper -n install demo=1.0-1 extra >/dev/null
pinch pkg.hold demo
pinch state.single pkg.installed demo version=1.1-1 refresh=False
rpm -q demo
pinch state.single pkg.installed demo version=1.1-1 update_holds=True refresh=False
rpm -q demo
grep solvable_name /etc/zypp/locks
pinch state.single pkg.installed extra reinstall=True refresh=False
pinch state.single pkg.installed two pkgs='[{tool: ">=0.5, <1"}]' refresh=False
pinch pkg.list_repo_pkgs nosuch
pinch state.single pkgrepo.managed local priority=120
grep priority /etc/zypp/repos.d/local.repo
pinch state.single pkgrepo.managed local priority=120 baseurl=file:///srv/repo
pinch pkg.autoremove
"#;
    let Some(text) = on(SUSE, "rpm.sh", script) else {
        return;
    };
    assert_in_order(
        &text,
        &[
            "Package demo is now being held.",
            "An error was encountered while installing package(s): Zypper command failure: ",
            "but it is locked. Use 'zypper removelock demo' to unlock it.",
            "demo-1.0-1.noarch\n",
            "The following packages were installed/updated: demo=1.1-1",
            "demo-1.1-1.noarch\n",
            "solvable_name: demo\n",
            "Package extra was reinstalled.",
            "The following packages were installed/updated: tool>=0.5, <1",
            "Configured package repo 'local'",
            "priority=120\n",
            "Package repo 'local' already configured",
            "'pkg.autoremove' is not available.",
        ],
    );
}

#[test]
fn the_locks_of_zypper_and_pacman_are_waited_for() {
    let script = r#"
package slow 1.0-1 %pre 'touch /tmp/locked' 'sleep 4'
index
zypper -n refresh >/dev/null
zypper -n install slow >/dev/null 2>&1 &
while [ ! -e /tmp/locked ]; do sleep 0.1; done
pinch state.single pkg.installed demo refresh=False
wait
pinch state.single pkg.installed demo refresh=False
"#;
    let grains = format!("{SUSE}pkg_lock_timeout: 0.5\n");
    let Some(text) = on(&grains, "rpm.sh", script) else {
        return;
    };
    let locked = [
        "System management is locked by the application with pid ",
        "Waited 0 seconds for the lock that process ",
        " holds: zypper -n install slow",
        "The following packages were installed/updated: demo",
    ];
    assert_in_order(&text, &locked);
    let script = "
touch /var/lib/pacman/db.lck
pinch state.single pkg.installed demo refresh=False
";
    let grains = format!("{ARCH}pkg_lock_timeout: 0.5\n");
    let text = on(&grains, "pacman.sh", script).unwrap();
    let locked = [
        "unable to lock database",
        "Waited 0 seconds for the lock of another package manager",
    ];
    assert_in_order(&text, &locked);
}

#[test]
fn downloads_are_told() {
    // Only packages from a network are kept as files.
    let served = r#"
set_up='import fcntl, socket, struct; fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh", b"lo", 0x49))'
python3 -c "$set_up"
(cd "$repo" && exec python3 -m http.server --bind 127.0.0.1 8000 >/dev/null 2>&1) &
server=$!
sed -i 's#file:///srv/repo#http://127.0.0.1:8000#' /etc/yum.repos.d/local.repo /etc/zypp/repos.d/local.repo
python3 -c 'import socket, time
while socket.socket().connect_ex(("127.0.0.1", 8000)): time.sleep(0.05)'
pinch pkg.refresh_db
pinch state.single pkg.downloaded demo
pinch state.single pkg.downloaded demo
rpm -q demo || true
kill $server
"#;
    for (grains, folder) in [(FEDORA, "/var/cache/dnf/"), (SUSE, "/var/cache/zypp/")] {
        let Some(text) = on(grains, "rpm.sh", served) else {
            return;
        };
        let expected = [
            "Packages downloaded: demo",
            "2:2.0-1:",
            folder,
            "All specified packages are already downloaded",
            "package demo is not installed",
        ];
        assert_in_order(&text, &expected);
    }
}

#[test]
fn pacman_tells_what_it_did_and_why_it_did_not() {
    let script = r#"
printf 'post_install() {\n  echo this one fails\n  return 3\n}\n' >/tmp/install
install=/tmp/install
package main spoiled 1.0-1
unset install
package older demo 1.1-1
rm -r "$lists/older/demo-1.1-1"
index
pinch pkg.refresh_db --out=json --out-indent=-1
pacman -S --noconfirm demo=1.0-1 tool >/dev/null
pinch pkg.latest_version demo tool nosuch --out=json --out-indent=-1
pinch state.single pkg.installed newer sources='[{demo: /srv/repo/older/demo-1.1-1-any.pkg.tar}]'
pacman -Q demo
pinch state.single pkg.installed missing sources='[{demo: /srv/nothing.pkg.tar}]'
pinch state.single pkg.installed tool reinstall=True refresh=False
pinch state.single pkg.removed extra
pinch state.single pkg.purged extra
pacman -Q
pinch pkg.file_list nosuch
pinch state.single pkg.installed spoiled refresh=False
pinch state.single pkg.held demo
pinch state.single pkgrepo.managed more baseurl=file:///srv/more
"#;
    let Some(text) = on(ARCH, "pacman.sh", script) else {
        return;
    };
    assert_in_order(
        &text,
        &[
            r#"{"local": {"main": true, "older": true}}"#,
            r#"{"local": {"demo": "2:2.0-1", "tool": "", "nosuch": ""}}"#,
            "The following packages were installed/updated: demo",
            "demo 1.1-1\n",
            "/srv/nothing.pkg.tar does not exist on minion",
            "Package tool was reinstalled.",
            "error: failed to prepare transaction (could not satisfy dependencies)",
            ":: removing extra breaks dependency 'extra' required by tool",
            "All targeted packages were purged.",
            "base 1-1\ndemo 1.1-1\n",
            "error: package 'nosuch' was not found",
            "The following packages were installed/updated: spoiled",
            "No any function to get the list of held packages available.",
        ],
    );
}

#[test]
fn apt_installs_holds_pins_and_purges_where_other_managers_are_installed() {
    let script = r#"
printf 'Package: demo\nPin: version 1.1\nPin-Priority: 1001\n' >/etc/apt/preferences.d/demo
pinch state.single pkg.installed tool
dpkg-query -W tool extra
pinch state.single pkg.latest demo
dpkg-query -W demo
pinch state.single pkg.installed older sources='[{demo: /srv/repo/demo_1.0_all.deb}]' hold=True
dpkg-query -W demo
pinch state.single pkg.uptodate name=all
dpkg-query -W demo
pinch state.single pkg.unheld demo
rm /etc/apt/preferences.d/demo
pinch state.single pkg.latest demo
dpkg-query -W demo
pinch state.single pkg.removed demo
ls /etc/demo.conf
pinch state.single pkg.purged demo
ls /etc/demo.conf 2>&1 || true
pinch pkg.list_pkgs
"#;
    let Some(text) = on("", "apt.sh", script) else {
        return;
    };
    assert_in_order(
        &text,
        &[
            "The following packages were installed/updated: tool",
            "extra\t1.0\ntool\t0.9\n",
            "demo\t1.1\n",
            "Package demo is now being held.",
            "demo\t1.0\n",
            "demo\t1.0\n",
            "Package demo is no longer being held.",
            "demo\t2:2.0-1\n",
            "All targeted packages were removed.",
            "/etc/demo.conf\n",
            "All targeted packages were purged.",
            "No such file or directory",
            "extra:",
        ],
    );
}
