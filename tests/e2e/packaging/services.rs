//! The services that apply a machine's states, under their init systems: each starts them as a user
//! would.

use std::path::Path;

use tests::program::{assert_in_order, boot, program};
use tests::scratch::Scratch;

use super::{in_throwaway, is_root, packaged, stand_in_here, target};

/// A machine with states to apply, the program at the path of the packages, and the services unpacked
/// in $services.
const MACHINE: &str = r#"
mkdir -p /etc/salt /srv/salt
printf 'id: box\nfile_client: local\n' >/etc/salt/minion
printf 'base:\n  "*": [applied]\n' >/srv/salt/top.sls
printf 'note:\n  file.managed:\n    - name: /srv/applied\n    - contents: highstate\n' >/srv/salt/applied.sls
printf 'left:\n  cmd.run:\n    - name: exec sleep 4321\n    - bg: True\n' >/srv/salt/background.sls
printf 'broken:\n  test.fail_without_changes: []\n' >/srv/salt/broken.sls
rm -rf /etc/salt/minion.d /srv/applied
ln -sf "$pinch" /usr/bin/pinch
services=$(echo "$dir"/pinch-*/services/pinch-apply)
"#;

/// Runs a script on a machine started by this init system, and returns the output. `None` if the
/// machine cannot run here.
fn under(init: Option<&str>, script: &str) -> Option<String> {
    if !is_root() {
        return None;
    }
    let scratch = Scratch::new();
    let dir = scratch.path();
    packaged(&stand_in_here(dir), &target(), "tar", &[], dir);
    if let Some(init) = init
        && !boot(dir, init).unwrap()
    {
        return None;
    }
    Some(on_machine(dir, script))
}

fn on_machine(dir: &Path, script: &str) -> String {
    let (pinch, dir_text) = (&program()[0], dir.display());
    in_throwaway(
        dir,
        &format!(
            "dir={dir_text} pinch={pinch}\ntar -xzf $dir/*.tar.gz -C $dir\n{MACHINE}\n{script}"
        ),
    )
}

#[test]
fn systemd_applies_states_by_a_unit_and_a_timer() {
    let script = r#"
cp $services/systemd.service /etc/systemd/system/pinch-apply.service
cp $services/systemd.timer /etc/systemd/system/pinch-apply.timer
cp $services/default /etc/default/pinch-apply
systemd-analyze verify --man=no /etc/systemd/system/pinch-apply.service /etc/systemd/system/pinch-apply.timer 2>&1 | grep pinch || echo "nothing is wrong"
systemctl daemon-reload
systemctl is-enabled pinch-apply.timer || true
systemctl start pinch-apply.service; cat /srv/applied
echo 'STATES="background"' >/etc/default/pinch-apply
systemctl start pinch-apply.service; pgrep -fx 'sleep 4321' >/dev/null && echo "goes on"
echo 'STATES="broken pillar={}"' >/etc/default/pinch-apply
systemctl start pinch-apply.service 2>/dev/null || systemctl show -p Result -p ExecMainStatus pinch-apply.service
rm /srv/applied; echo 'STATES=' >/etc/default/pinch-apply
mkdir /etc/systemd/system/pinch-apply.timer.d
printf '[Timer]\nOnBootSec=\nOnActiveSec=0\nRandomizedDelaySec=0\nAccuracySec=1ms\n' >/etc/systemd/system/pinch-apply.timer.d/soon.conf
systemctl daemon-reload
systemctl enable --now pinch-apply.timer 2>/dev/null
for _ in $(seq 100); do [ ! -e /srv/applied ] || break; sleep 0.1; done
cat /srv/applied; systemctl is-active pinch-apply.timer
"#;
    let Some(text) = under(Some("systemd"), script) else {
        return;
    };
    let expected = [
        "nothing is wrong\ndisabled\nhighstate\ngoes on\n",
        "Result=exit-code\n",
        "ExecMainStatus=2\n",
        "highstate\nactive\n",
    ];
    assert_in_order(&text, &expected);
}

#[test]
fn openrc_applies_states_when_it_starts() {
    let script = r#"
install -m755 $services/openrc /etc/init.d/pinch-apply
mkdir -p /etc/conf.d; cp $services/default /etc/conf.d/pinch-apply
sed -i 's/need localmount/use localmount/' /etc/init.d/pinch-apply
rc-update add pinch-apply default 2>&1
rc-service pinch-apply start 2>&1; cat /srv/applied
rc-service pinch-apply status 2>&1
rc-service pinch-apply stop 2>&1
echo 'STATES="broken"' >/etc/conf.d/pinch-apply
rc-service pinch-apply start >/dev/null 2>&1 || echo "failed"
"#;
    let Some(text) = under(Some("openrc"), script) else {
        return;
    };
    let expected = [
        "added to runlevel default",
        "Applying Salt states",
        "highstate\n",
        "started",
        "failed",
    ];
    assert_in_order(&text, &expected);
}

#[test]
fn systemd_goes_on_after_a_reboot() {
    let script = r#"
services=${services%-apply}-continue
wants=/usr/lib/systemd/system/multi-user.target.d
mkdir -p $wants; cp $services/systemd.wants $wants/pinch-continue.conf
cp $services/systemd.service /usr/lib/systemd/system/pinch-continue.service
systemd-analyze verify --man=no /usr/lib/systemd/system/pinch-continue.service 2>&1 | grep pinch || echo "nothing is wrong"
systemctl daemon-reload
systemctl show -p Wants multi-user.target | grep -o pinch-continue.service
printf 'a:\n  cmd.run:\n    - name: echo down >>/srv/down\n    - reboot: True\nb:\n  cmd.run:\n    - name: cat /srv/down >/srv/new; mv /srv/new /srv/up\n    - require: [a]\n' >/srv/salt/again.sls
setsid pinch salt-call --local state.orchestrate again >/srv/said 2>&1 & run=$!
for _ in $(seq 600); do [ ! -e /srv/down ] || break; sleep 0.1; done
kill -TERM $run; wait $run || echo "taken down"
grep 'Nothing on this machine' /srv/said || true
echo 11111111-1111-4111-8111-111111111111 >/srv/boot_id
mount --bind /srv/boot_id /proc/sys/kernel/random/boot_id
systemctl start pinch-continue.service
for _ in $(seq 600); do [ ! -e /srv/up ] || break; sleep 0.1; done
cat /srv/up
"#;
    let Some(text) = under(Some("systemd"), script) else {
        return;
    };
    assert_in_order(
        &text,
        &[
            "nothing is wrong\npinch-continue.service\n",
            "taken down\ndown\n",
        ],
    );
}

#[test]
fn sysvinit_applies_states_by_a_script() {
    let script = r#"
install -m755 $services/sysvinit /etc/init.d/pinch-apply
cp $services/default /etc/default/pinch-apply
update-rc.d pinch-apply defaults
ls /etc/rc2.d | grep pinch-apply
service pinch-apply start >/dev/null; cat /srv/applied
echo 'STATES="broken"' >/etc/default/pinch-apply
service pinch-apply restart >/dev/null || echo "exit $?"
service pinch-apply nonsense 2>&1 || echo "exit $?"
"#;
    let Some(text) = under(Some("sysvinit"), script) else {
        return;
    };
    assert_in_order(
        &text,
        &[
            "S",
            "pinch-apply\nhighstate\nexit 2\nUsage: /etc/init.d/pinch-apply",
            "exit 2",
        ],
    );
}

#[test]
fn runit_applies_states_again_and_again() {
    let script = r#"
mkdir /etc/sv/pinch-apply
sed 's/:-1800/:-0.2/' $services/runit >/etc/sv/pinch-apply/run
chmod 755 /etc/sv/pinch-apply/run
ln -s /etc/sv/pinch-apply /etc/service/
for _ in 1 2; do
    for _ in $(seq 150); do [ ! -e /srv/applied ] || break; sleep 0.1; done
    cat /srv/applied; rm /srv/applied
done
# Between two runs it is down for a moment.
sv -w 30 start pinch-apply
"#;
    let Some(text) = under(Some("runit"), script) else {
        return;
    };
    assert_in_order(&text, &["highstate\nhighstate\n", "ok: run: pinch-apply"]);
}

#[test]
fn the_line_for_cron_is_one_and_applies_states() {
    let script = r#"
printf '#!/bin/sh\ncat >/srv/log\n' >/usr/bin/logger; chmod 755 /usr/bin/logger
sed -n 's/ root / /p' $services/cron | crontab -u root -
crontab -u root -l | sed -n 's/^\(\S* \)\{5\}//p' | sh
cat /srv/applied; grep -o 'Succeeded: 1 (changed=1)' /srv/log
"#;
    let Some(text) = under(None, script) else {
        return;
    };
    assert_eq!(text, "highstate\nSucceeded: 1 (changed=1)\n");
}
