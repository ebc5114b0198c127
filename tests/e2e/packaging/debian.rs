//! Tests of the .deb on a fresh Debian: it is installed, used, upgraded, removed and purged. When
//! Salt is installed too, the package does not touch Salt's names.

use std::fs;
use std::path::Path;
use std::process::Command;

use tests::program::assert_in_order;

use super::{done, file, is_root, sh, shipped, workspace};

/// A package with the same file names as Salt's own package, where /usr/bin/salt-call is a link too.
const SALT: &str = r#"
mkdir -p "$dir/salt/DEBIAN" "$dir/salt/opt/saltstack/salt" "$dir/salt/usr/bin" "$dir/salt/usr/share/man/man1"
printf 'Package: salt-minion\nVersion: 3008.5\nArchitecture: all\nMaintainer: x <x@x>\nDescription: x\n' >"$dir/salt/DEBIAN/control"
printf '#!/bin/sh\necho "the real Salt"\n' >"$dir/salt/opt/saltstack/salt/salt-call"
chmod 755 "$dir/salt/opt/saltstack/salt/salt-call"
ln -s /opt/saltstack/salt/salt-call "$dir/salt/usr/bin/salt-call"
echo Salt | gzip >"$dir/salt/usr/share/man/man1/salt-call.1.gz"
dpkg-deb --root-owner-group --build "$dir/salt" "$dir/salt.deb" >/dev/null
"#;

/// A script with the events of a machine's life. /new.deb and /old.deb are two versions of the
/// package, /master.deb is the one with a master, /salt.deb is the stand-in for Salt.
const LIFE: &str = r#"
files() { find / -xdev ! -path '/etc/salt*' ! -path '/root/*' ! -path '/var/log/dpkg.log' ! -path '/var/log/alternatives.log' ! -path '/var/lib/dpkg/*' ! -path '/var/cache/ldconfig*' ! -path /life ! -path '/proc/*' ! -name '*.deb' | sort; }
mkdir -p /etc/salt
printf 'id: edge1\nfile_client: local\n' >/etc/salt/minion
echo force-unsafe-io >/etc/dpkg/dpkg.cfg.d/tests
files >/root/before
mkdir -p /srv/salt
printf 'note:\n  file.managed:\n    - name: /root/note\n    - contents: written\n' >/srv/salt/note.sls
find /etc/salt -printf '%p %s %T@\n' >/root/salt

echo "= installed"
dpkg -i /old.deb 2>&1
dpkg-query -W pinch
salt-call --version
salt-call --local test.ping
salt-call --local state.apply note
ls -l /etc/default/pinch-apply
zcat /usr/share/man/man1/salt-call.1.gz | grep 'is an applet of'
test ! -e /etc/systemd/system/timers.target.wants/pinch-apply.timer

echo "= upgraded"
sed -i 's/STATES=""/STATES="note"/' /etc/default/pinch-apply
dpkg -i /new.deb 2>&1
dpkg-query -W pinch
readlink /usr/bin/salt-call /etc/alternatives/salt-call
grep '^STATES' /etc/default/pinch-apply
(. /etc/default/pinch-apply && salt-call --local state.apply $STATES)
(cd /root/clone && salt-call -c tests/example/etc --local state.orchestrate orch.webserver --state-output=terse)

echo "= removed"
dpkg -r pinch 2>&1
ls /usr/bin/salt-call /usr/bin/pinch /usr/share/man/man1/salt-call.1.gz /etc/default/pinch-apply 2>&1 || true
dpkg -P pinch 2>&1
rm -r /srv/salt
files | diff /root/before - && echo "nothing is left"
find /etc/salt -printf '%p %s %T@\n' | diff /root/salt - && echo "nothing is changed"

echo "= beside Salt"
dpkg -i /salt.deb >/dev/null 2>&1
dpkg -i /new.deb 2>&1
salt-call; zcat /usr/share/man/man1/salt-call.1.gz
pinch salt-call --local test.ping
dpkg -P pinch >/dev/null 2>&1
salt-call; zcat /usr/share/man/man1/salt-call.1.gz
dpkg -P salt-minion >/dev/null 2>&1

echo "= before Salt"
dpkg -i /new.deb >/dev/null 2>&1
salt-call --local test.ping
dpkg -i /salt.deb 2>&1
salt-call; zcat /usr/share/man/man1/salt-call.1.gz
update-alternatives --query salt-call 2>&1 || true
dpkg -r salt-minion 2>&1
salt-call --local test.ping
dpkg -i /salt.deb >/dev/null 2>&1
dpkg -P pinch 2>&1
salt-call; zcat /usr/share/man/man1/salt-call.1.gz
dpkg -P salt-minion >/dev/null 2>&1

echo "= a program of somebody's"
printf '#!/bin/sh\necho mine\n' >/usr/bin/salt-call; chmod 755 /usr/bin/salt-call
dpkg -i /new.deb 2>&1
salt-call
dpkg -P pinch >/dev/null 2>&1
salt-call
rm /usr/bin/salt-call

echo "= links of our own"
dpkg -i /new.deb >/dev/null 2>&1
update-alternatives --remove salt-call /usr/bin/pinch
update-alternatives --remove salt-minion /usr/bin/pinch
update-alternatives --remove salt-ssh /usr/bin/pinch
pinch install-links /usr/bin
dpkg -i /new.deb >/dev/null 2>&1
readlink /usr/bin/salt-call
dpkg -P pinch >/dev/null 2>&1
ls /usr/bin/salt-call 2>&1 || true

echo "= with a master"
dpkg -i /new.deb >/dev/null 2>&1
dpkg -i /master.deb 2>&1
dpkg-query -W -f '${Package} ${db:Status-Abbrev}\n' pinch pinch-master
readlink -f /usr/bin/salt-call /usr/bin/salt-master
salt-call --local test.ping
salt-key --version
dpkg -P pinch 2>&1
salt-call --local test.ping
dpkg -P pinch-master 2>&1
ls /usr/bin/pinch 2>&1 || true
mkdir -p /opt # which went with the stand-in
files | diff /root/before - &&  echo "and nothing is left"
"#;

/// Returns the lines between this heading and the next.
fn part<'a>(text: &'a str, heading: &str) -> &'a str {
    let start = text
        .split_once(&format!("= {heading}\n"))
        .unwrap_or_else(|| panic!("no {heading}:\n{text}"));
    start.1.split("\n= ").next().unwrap()
}

/// Creates a fresh Debian of this machine's release in DIR/root, with the packages and the example,
/// and runs LIFE in it.
fn life(dir: &Path) -> String {
    let (dir, example) = (dir.display(), workspace().join("tests/example"));
    let example = example.display();
    let script = format!(
        r#"
dir={dir}
{SALT}
. /etc/os-release
mmdebstrap --quiet --variant=essential --dpkgopt=force-unsafe-io "$VERSION_CODENAME" "$dir/root" 2>"$dir/log" || {{ cat "$dir/log" >&2; exit 1; }}
cp "$dir"/old/*.deb "$dir/root/old.deb"; cp "$dir"/new/*.deb "$dir/root/new.deb"; cp "$dir"/master/*.deb "$dir/root/master.deb"; cp "$dir/salt.deb" "$dir/life" "$dir/root"
mkdir -p "$dir/root/root/clone/tests"; cp -r {example} "$dir/root/root/clone/tests"
exec unshare --mount --net sh -euc '
python3 -c "import fcntl, socket, struct; fcntl.ioctl(socket.socket(), 0x8914, struct.pack(\"16sh\", b\"lo\", 0x49))"
for folder in proc dev; do mount --rbind "/$folder" "$0/$folder"; done
PATH=/usr/sbin:/usr/bin:/sbin:/bin exec chroot "$0" sh -eu /life' "$dir/root"
"#
    );
    done(Command::new("sh").args(["-euc", &script]))
}

/// The strings that each part of the script must print, in order.
const SAID: &[(&str, &[&str])] = &[
    (
        "installed",
        &[
            "pinch\t0.0.9\n",
            "pinch 0.",
            "True",
            "Succeeded: 1 (changed=1)",
            "-rw-r--r-- 1 root root",
            "is an applet of",
        ],
    ),
    (
        "upgraded",
        &[
            concat!("pinch\t", env!("CARGO_PKG_VERSION"), "\n"),
            "/etc/alternatives/salt-call\n/usr/bin/pinch\n",
            "STATES=\"note\"\n",
            "Succeeded: 1\n",
            "Succeeded: 10 (changed=10)",
        ],
    ),
    (
        "removed",
        &[
            "cannot access '/usr/bin/salt-call'",
            "cannot access '/usr/bin/pinch'",
            "cannot access '/usr/share/man/man1/salt-call.1.gz'",
            "\n/etc/default/pinch-apply\n",
            "nothing is left\n",
            "nothing is changed",
        ],
    ),
    (
        "beside Salt",
        &[
            "pinch: not replacing /usr/bin/salt-call, which belongs to another program",
            "the real Salt\nSalt\nlocal:\n    True\nthe real Salt\nSalt",
        ],
    ),
    (
        "before Salt",
        &[
            "True",
            "which belongs to another program",
            "the real Salt\nSalt\n",
            "no alternatives for salt-call",
            "Removing salt-minion",
            "True",
            "the real Salt\nSalt",
        ],
    ),
    (
        "a program of somebody's",
        &["another program", "mine\nmine"],
    ),
    (
        "links of our own",
        &["/etc/alternatives/salt-call\n", "cannot access"],
    ),
    (
        "with a master",
        &[
            "removing pinch in favour of pinch-master",
            "pinch-master ii",
            "/usr/bin/pinch\n/usr/bin/pinch\n",
            "True",
            "behaves as salt",
            "True",
            "cannot access '/usr/bin/pinch'",
            "and nothing is left",
        ],
    ),
];

#[test]
fn a_debian_installs_upgrades_removes_and_purges_it_and_leaves_salt_alone() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    shipped("deb", &["--version", "0.0.9"], &dir.join("old"));
    shipped("deb", &[], &dir.join("new"));
    shipped("deb", &["--package", "pinch-master"], &dir.join("master"));
    fs::write(dir.join("life"), LIFE).unwrap();
    let text = life(dir);
    for (heading, expected) in SAID {
        assert_in_order(part(&text, heading), expected);
    }
}

#[test]
fn lintian_finds_nothing_in_the_debs() {
    let dir = tempfile::tempdir().unwrap();
    for package in ["pinch", "pinch-master"] {
        let out = dir.path().join(package);
        shipped("deb", &["--package", package], &out);
        let found = sh(&format!(
            "lintian --allow-root --fail-on none {}",
            file(&out, ".deb").display()
        ));
        assert_eq!(found, "");
    }
}
