//! Salt's minion as a service of systemd, under a real Salt master, replaced by Pinch's and back.

use tests::program::assert_in_order;

use super::daemons::under;
use crate::fleet::salt::venv;

/// Starts the service of Salt's minion, whose program is $program.
const SERVICE: &str = r#"
cp $minion/systemd.service /etc/systemd/system/pinch-minion.service
cat >/etc/systemd/system/salt-minion.service <<UNIT
[Unit]
Description=The Salt Minion
[Service]
KillMode=process
Type=$type
NotifyAccess=all
ExecStart=$program
[Install]
WantedBy=multi-user.target
UNIT
systemctl daemon-reload
systemctl enable --now salt-minion 2>/dev/null
services() { for name in salt-minion pinch-minion; do echo "$name is $(systemctl is-enabled $name), $(systemctl is-active $name)"; done; }
"#;

/// Starts a Salt master.
const MASTER: &str = r#"
printf 'interface: 127.0.0.1\nauto_accept: True\nuser: root\n' >/etc/salt/master
setsid $salt/salt-master >/srv/master 2>&1 &
answers() {
	for _ in $(seq 60); do
		! $salt/salt -t 5 --out=txt box test.ping 2>/dev/null | grep -x 'box: True' || return 0
	done
	cat /var/log/salt/* /srv/master >&2
	exit 1
}
"#;

#[test]
fn a_service_of_salt_is_replaced_and_comes_back() {
    let Some(venv) = venv() else {
        return;
    };
    let script = r#"
services; answers
pinch migrate minion --apply >/srv/applied 2>&1 || cat /srv/applied
services; answers
pinch migrate minion --undo --yes >/srv/undone 2>&1 || cat /srv/undone
services; answers
"#;
    let salt = venv.join("bin").display().to_string();
    let set_up = format!("salt={salt} program={salt}/salt-minion type=notify\n{MASTER}{SERVICE}");
    let Some(text) = under(Some("systemd"), &(set_up + script)) else {
        return;
    };
    let salts = "salt-minion is enabled, active\npinch-minion is disabled, inactive\nbox: True\n";
    let ours = "salt-minion is disabled, inactive\npinch-minion is enabled, active\nbox: True\n";
    // A busy Salt may end with an error when systemd stops it. Its service is stopped all the same.
    let text = text.replace(
        "salt-minion is disabled, failed",
        "salt-minion is disabled, inactive",
    );
    assert_in_order(&text, &[salts, ours, salts]);
}

/// Kills the program at each of its calls of `systemctl` for a change, as a power failure would end it. The
/// service of Salt's minion runs `sleep`, because Salt needs seconds to stop.
#[test]
fn a_migration_that_is_cut_short_leaves_an_enabled_minion_and_continues() {
    let script = r#"
mkdir -p /srv/bin; cat >/srv/bin/systemctl <<'CUT'
#!/bin/sh
case "$*" in
*is-*) ;;
*enable*|*disable*|*start*|*stop*)
	echo "$*" >>/srv/calls
	[ $(wc -l </srv/calls) != "$(cat /srv/cut)" ] || kill -9 $PPID
esac
exec /usr/bin/systemctl "$@"
CUT
chmod 755 /srv/bin/systemctl
cut=0 went=
until [ "$went" = through ]; do
	cut=$((cut + 1)); echo $cut >/srv/cut; : >/srv/calls
	PATH=/srv/bin:$PATH pinch migrate minion --apply >/srv/applied 2>&1 && went=through
	systemctl is-enabled salt-minion pinch-minion 2>/dev/null | grep -qx enabled || echo "no minion is enabled after call $cut"
	pinch migrate minion --apply >/srv/applied 2>&1 || cat /srv/applied
	services >/srv/now; grep -q 'salt-minion is disabled, inactive' /srv/now && grep -q 'pinch-minion is enabled, active' /srv/now || cat /srv/now
	pinch migrate minion --undo --yes >/srv/undone 2>&1 || cat /srv/undone
	services >/srv/now; grep -q 'salt-minion is enabled, active' /srv/now && grep -q 'pinch-minion is disabled, inactive' /srv/now || cat /srv/now
done
echo "cut at $((cut - 1)) calls"
"#;
    let set_up = format!("program='/bin/sleep infinity' type=simple\n{SERVICE}");
    if let Some(text) = under(Some("systemd"), &(set_up + script)) {
        assert_eq!(text, "cut at 4 calls\n");
    }
}
