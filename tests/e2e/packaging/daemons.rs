//! The services of both daemons under their init systems: each starts them as a user would, the
//! minion connects to the master, and a job outlives a stop of its minion.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use tests::program::{assert_in_order, boot, pinch_program};
use tests::scratch::Scratch;

use super::{file, in_throwaway, is_root, packaged, stand_in_here, target};

/// A script that sets up a machine with its own network, the program where packages install it,
/// and the services unpacked in $minion and $master.
const MACHINE: &str = r#"
rm -rf /etc/salt /var/cache/salt /var/log/salt /run/salt
mkdir -p /etc/salt /srv
printf 'id: box\nmaster: 127.0.0.1\nrecon_default: 50\nrecon_max: 200\nenable_fqdns_grains: False\n' >/etc/salt/minion
printf 'interface: 127.0.0.1\n' >/etc/salt/master
tar -xzf "$dir/pinch-master.tar.gz" -C /srv
services=$(echo /srv/pinch-master-*/services)
minion=$services/pinch-minion master=$services/pinch-master
python3 -c 'import fcntl, socket, struct; fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh", b"lo", 0x49))'
"#;

/// A script that runs the daemons' life cycle. Every test defines its commands: begin, stop_minion,
/// start_minion, reload_minion, stop_master.
const LIFE: &str = r#"
soon() {
	for _ in $(seq 600); do ! "$@" >/dev/null 2>&1 || return 0; sleep 0.1; done
	echo "not so: $*" >&2
	"$@" >&2 || true
	cat /var/log/salt/* >&2
	exit 1
}
is_asked() { pinch salt-key -l un | grep -x box; }
answers() { pinch salt -t 60 --out=txt box test.ping | grep -x 'box: True'; }
has_returned() { pinch salt-run --out=json jobs.lookup_jid "$jid" | grep '"box": "it went on"'; }

begin
soon is_asked
pinch salt-key -y -a box >/dev/null
soon answers
jid=$(pinch salt --async box cmd.run 'touch /srv/began; until [ -e /srv/go ]; do sleep 0.1; done; echo it went on' | grep -o '[0-9]\{20\}')
soon test -e /srv/began
stop_minion
touch /srv/go
start_minion
soon has_returned
soon answers
reload_minion
soon answers
echo "the job's return came"
stop_minion
stop_master
"#;

/// The package with a master, whose services are those of both daemons; built once for all tests.
static TARBALL: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    let stand_in = stand_in_here(dir.path());
    let out = dir.path().join("out");
    packaged(
        &stand_in,
        &target(),
        "tar",
        &["--package", "pinch-master"],
        &out,
    );
    fs::read(file(&out, ".tar.gz")).unwrap()
});

/// Runs a script on a machine started by this init system, and returns the output. `None` if the
/// machine cannot run here.
pub(super) fn under(init: Option<&str>, script: &str) -> Option<String> {
    if !is_root() {
        return None;
    }
    let scratch = Scratch::new();
    let dir = scratch.path();
    fs::write(dir.join("pinch-master.tar.gz"), &*TARBALL).unwrap();
    if let Some(init) = init
        && !boot(dir, init).unwrap()
    {
        return None;
    }
    Some(on_machine(dir, script))
}

fn on_machine(dir: &Path, script: &str) -> String {
    let pinch = pinch_program();
    let (dir_text, pinch) = (dir.display(), pinch.display());
    // The program is copied, because a unit with a private /tmp does not see a program there.
    let script = format!("dir={dir_text}\ncp {pinch} /usr/bin/pinch\n{MACHINE}\n{script}");
    in_throwaway(dir, &script)
}

#[test]
fn systemd_keeps_both_and_shuts_the_master_in() {
    let script = r#"
cp $minion/systemd.service /etc/systemd/system/pinch-minion.service
cp $master/systemd.service /etc/systemd/system/pinch-master.service
units="/etc/systemd/system/pinch-minion.service /etc/systemd/system/pinch-master.service"
systemd-analyze verify --man=no $units 2>&1 | grep pinch || echo "nothing is wrong"
systemd-analyze security --offline=true --threshold=20 /etc/systemd/system/pinch-master.service >/srv/security 2>&1 || cat /srv/security
# Where the tests run no device can be made, and it has that switch for its own few.
mkdir /etc/systemd/system/pinch-master.service.d
printf '[Service]\nPrivateDevices=no\n' >/etc/systemd/system/pinch-master.service.d/here.conf
systemctl daemon-reload
systemctl is-enabled pinch-minion pinch-master || true
begin() { systemctl start pinch-master; systemctl start pinch-minion; systemctl is-active pinch-master pinch-minion; }
stop_minion() { systemctl stop pinch-minion; systemctl show -p ActiveState -p Result pinch-minion; }
start_minion() { systemctl start pinch-minion; }
is_reloaded() { [ "$(systemctl is-active pinch-minion)" = active ]; }
reload_minion() { systemctl reload pinch-minion; soon is_reloaded; systemctl is-active pinch-minion; }
stop_master() { systemctl stop pinch-master; systemctl show -p ActiveState -p Result pinch-master; }
"#;
    let Some(text) = under(Some("systemd"), &[script, LIFE].concat()) else {
        return;
    };
    let expected = [
        "nothing is wrong\ndisabled\ndisabled\nactive\nactive\n",
        "Result=success\nActiveState=inactive\nactive\nthe job's return came\n",
        "Result=success\nActiveState=inactive\n",
        "Result=success\nActiveState=inactive\n",
    ];
    assert_in_order(&text, &expected);
}

#[test]
fn openrc_supervises_both() {
    let script = r#"
for name in minion master; do
	eval "install -m755 \$$name/openrc /etc/init.d/pinch-$name"
	sed -i 's/need localmount/use localmount/' /etc/init.d/pinch-$name
	rc-update add pinch-$name default 2>&1
done
is() { rc-service "$1" status 2>&1 | grep -o "$2"; }
begin() { rc-service pinch-master start >/dev/null 2>&1; rc-service pinch-minion start >/dev/null 2>&1; is pinch-master started; is pinch-minion started; }
stop_minion() { rc-service pinch-minion stop >/dev/null 2>&1; is pinch-minion stopped; }
start_minion() { rc-service pinch-minion start >/dev/null 2>&1; }
reload_minion() { rc-service pinch-minion reload >/dev/null 2>&1; is pinch-minion started; }
stop_master() { rc-service pinch-master stop >/dev/null 2>&1; is pinch-master stopped; }
"#;
    let Some(text) = under(Some("openrc"), &[script, LIFE].concat()) else {
        return;
    };
    let expected = [
        "added to runlevel default",
        "added to runlevel default",
        "started\nstarted\nstopped\nstarted\nthe job's return came\nstopped\nstopped\n",
    ];
    assert_in_order(&text, &expected);
}

#[test]
fn sysvinit_finds_both_by_their_files() {
    let script = r#"
for name in minion master; do
	eval "install -m755 \$$name/sysvinit /etc/init.d/pinch-$name"
	update-rc.d pinch-$name defaults
done
ls /etc/rc2.d | grep -o 'pinch-.*'
is() { service "$1" status >/dev/null 2>&1 && kill -0 "$(cat "/run/$1.pid")" && echo "$1 runs" || ls "/run/$1.pid" 2>/dev/null || echo "$1 is stopped"; }
begin() { service pinch-master start >/dev/null; service pinch-minion start >/dev/null; service pinch-minion start >/dev/null; is pinch-master; is pinch-minion; }
stop_minion() { service pinch-minion stop >/dev/null; is pinch-minion; }
start_minion() { service pinch-minion restart >/dev/null; }
reload_minion() { service pinch-minion reload >/dev/null; is pinch-minion; }
stop_master() { service pinch-master stop >/dev/null; is pinch-master; service pinch-master nonsense 2>&1 || echo "exit $?"; }
"#;
    let Some(text) = under(Some("sysvinit"), &[script, LIFE].concat()) else {
        return;
    };
    let expected = [
        "pinch-master\npinch-minion\npinch-master runs\npinch-minion runs\npinch-minion is stopped\npinch-minion runs\n",
        "the job's return came\npinch-minion is stopped\npinch-master is stopped\nUsage: /etc/init.d/pinch-master",
        "exit 2",
    ];
    assert_in_order(&text, &expected);
}

#[test]
fn runit_runs_both() {
    let script = r#"
for name in minion master; do
	mkdir /etc/sv/pinch-$name
	eval "install -m755 \$$name/runit /etc/sv/pinch-$name/run"
done
is() { sv status "$1" 2>&1 | grep -o "^$2: $1"; }
begin() { ln -s /etc/sv/pinch-master /etc/sv/pinch-minion /etc/service/; soon is pinch-master run; soon is pinch-minion run; is pinch-minion run; }
stop_minion() { sv -w 60 stop pinch-minion >/dev/null; is pinch-minion down; }
start_minion() { sv -w 60 start pinch-minion >/dev/null; }
reload_minion() { sv hup pinch-minion >/dev/null; is pinch-minion run; }
stop_master() { sv -w 60 stop pinch-master >/dev/null; is pinch-master down; }
"#;
    let Some(text) = under(Some("runit"), &[script, LIFE].concat()) else {
        return;
    };
    let expected = "run: pinch-minion\ndown: pinch-minion\nrun: pinch-minion\nthe job's return came\ndown: pinch-minion\ndown: pinch-master\n";
    assert_eq!(text, expected);
}

/// No Debian has procd. A stand-in for OpenWrt's rc.common records its arguments, and calls the
/// program that it would start with `--version`.
#[test]
fn procd_is_told_what_to_run() {
    let script = r#"
cat >/etc/rc.common <<'END'
told() { echo "$@"; }
procd_open_instance() { told open; }
procd_set_param() {
	told "$@"
	[ "$1" != command ] || { shift; "$@" --version; }
}
procd_close_instance() { told close; }
procd_send_signal() { told signal "$@"; }
. "$1"
case $2 in
start) start_service ;;
reload) command -v reload_service >/dev/null && reload_service || told "start again" ;;
esac
END
for name in minion master; do
	eval "install -m755 \$$name/procd /etc/init.d/pinch-$name"
	/etc/init.d/pinch-$name start
	/etc/init.d/pinch-$name reload
done
"#;
    let Some(text) = under(None, script) else {
        return;
    };
    let version = env!("CARGO_PKG_VERSION");
    let expected = [
        "open\ncommand /usr/bin/pinch salt-minion\n",
        &format!("pinch {version} "),
        "respawn 3600 5 0\n",
        "close\nsignal pinch-minion * HUP\n",
        "open\ncommand /usr/bin/pinch salt-master\n",
        &format!("pinch {version} "),
        "respawn 3600 5 0\n",
        "file /etc/salt/master\nclose\nstart again\n",
    ];
    assert_in_order(&text, &expected);
}
