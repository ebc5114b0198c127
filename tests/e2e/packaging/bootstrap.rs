//! Tests of automatic enrolment of a fresh machine (`packaging/bootstrap`). Each method runs as its
//! own system runs it, or as close to that as a test can. A real master on loopback creates the
//! token, and in the end the machine has its highstate applied.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use serde_json::Value;
use tests::program::{assert_in_order, boot, copy_program, pinch_program};
use tests::scratch::Scratch;

use super::{done, file, in_throwaway, is_root, packaged, sh, stand_in_here, target, workspace};

/// Builds an uncompressed package with a real program, for installation only.
static PACKAGE: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path();
    packaged(&stand_in_here(at), &target(), "deb", &[], &at.join("out"));
    let deb = file(&at.join("out"), ".deb");
    sh(&format!(
        "cd {}\ndpkg-deb -R {} tree\nstrip -o tree/usr/bin/pinch {}\ndpkg-deb -Znone --build tree new.deb >/dev/null",
        at.display(),
        deb.display(),
        pinch_program().display()
    ));
    fs::read(at.join("new.deb")).unwrap()
});

/// A master that has created a token, and a server with the package, the program and the token.
/// `filled FILE` prints the file with the values of a user; `enrolled` waits until the highstate of
/// the master is applied. To be quick, dpkg's database is empty.
const MACHINE: &str = r#"
rm -rf /etc/salt /var/cache/salt /var/log/salt /run/salt /var/lib/dpkg
mkdir -p /etc/salt /srv/salt /srv/http /var/lib/dpkg/info /var/lib/dpkg/updates /etc/dpkg/dpkg.cfg.d
: >/var/lib/dpkg/status
echo force-unsafe-io >/etc/dpkg/dpkg.cfg.d/tests
ip link set lo up
printf 'interface: 127.0.0.1\n' >/etc/salt/master
printf 'enable_fqdns_grains: False\nrecon_default: 50\nrecon_max: 200\n' >/etc/salt/minion
printf "base:\n  '*': [site]\n" >/srv/salt/top.sls
cat >/srv/salt/site.sls <<'END'
/usr/bin/stat -c '%a %n' /etc/salt/token /etc/salt/minion.d/enrol.conf >/srv/modes:
  cmd.run:
    - onlyif: test -e /etc/salt/token
/etc/salt/token:
  file.absent
/srv/enrolled:
  file.managed:
    - contents: {{ grains.id }} has enrolled
END
soon() {
	for _ in $(seq 600); do ! "$@" >/dev/null 2>&1 || return 0; sleep 0.1; done
	echo "not so: $*" >&2
	"$@" >&2 || true
	cat /srv/output /var/log/salt/* >&2
	exit 1
}
enrolled() {
	soon test -e /srv/enrolled
	soon test ! -e /etc/salt/token
	cat /srv/modes /srv/enrolled
}
"$dir/pinch" salt-master >/srv/output 2>&1 &
soon "$dir/pinch" salt-run --out=json token.list
token=$("$dir/pinch" salt-run --out=json token.create id='*' | sed -n 's/.*"token": "\(.*\)".*/\1/p')
finger=$("$dir/pinch" salt-key -F master | sed -n 's/^master.pub: *//p')
dpkg-deb --fsys-tarfile "$dir/pinch.deb" | tar --extract --directory=/srv/http ./usr/bin/pinch
cp "$dir/pinch.deb" /srv/http
(umask 077; echo "$token" >/srv/http/token)
python3 -m http.server --directory /srv/http --bind 127.0.0.1 8000 >/srv/requests 2>&1 &
soon curl -fs -o /dev/null http://127.0.0.1:8000/token
filled() {
	sed -e "s|PACKAGE_URL|http://127.0.0.1:8000/pinch.deb|; s|PACKAGE_SHA256|$(sha256sum </srv/http/pinch.deb | cut -d' ' -f1)|" \
		-e "s|PROGRAM_URL|http://127.0.0.1:8000/usr/bin/pinch|; s|PROGRAM_SHA512|$(sha512sum </srv/http/usr/bin/pinch | cut -d' ' -f1)|" \
		-e "s|TOKEN_URL|http://127.0.0.1:8000/token|; s|MASTER_FINGER|$finger|; s|MASTER|127.0.0.1|; s|TOKEN|$token|" "$dir/bootstrap/$1"
}
"#;

/// A check for traces of the token: it may only be in its own two files and in the places that the
/// test names.
const NOWHERE: &str = r#"
[ -n "$token" ]
for words in /proc/[0-9]*/cmdline; do ! grep -qF "$token" "$words" 2>/dev/null || { echo "in $words"; exit 1; }; done
! grep -rlF "$token" /etc/salt /var/log /var/cache/salt || exit 1
"#;

/// Runs a script on such a machine, started by this init system if one is given, and returns the
/// output. `None` if the machine cannot run here.
fn on_machine(init: Option<&str>, script: &str) -> Option<String> {
    if !is_root() {
        return None;
    }
    let scratch = Scratch::new();
    let dir = scratch.path();
    fs::write(dir.join("pinch.deb"), &*PACKAGE).unwrap();
    let from = workspace().join("packaging/bootstrap");
    done(Command::new("cp").arg("-r").args([&from, dir]));
    // A unit with a private /tmp does not see a program there, and a link would point into the
    // test's own folder.
    copy_program(&pinch_program(), &dir.join("pinch"));
    if let Some(init) = init
        && !boot(dir, init).unwrap()
    {
        return None;
    }
    let script = format!("dir={}\n{MACHINE}\n{script}\n{NOWHERE}", dir.display());
    Some(in_throwaway(dir, &script))
}

#[test]
fn cloud_init_takes_the_user_data_and_its_instance_enrols() {
    let text = fs::read_to_string(workspace().join("packaging/bootstrap/cloud-init.yaml")).unwrap();
    assert!(text.lines().count() <= 10, "{text}");
    let script = r#"
for package in /var/cache/pinch-tests/cloud-init/*.deb; do
	dpkg-deb --fsys-tarfile "$package" | tar --extract --keep-directory-symlink --directory=/
done
rm -f /etc/cloud/cloud.cfg.d/*
cat >/etc/cloud/cloud.cfg <<END
datasource_list: [NoCloud]
network: {config: disabled}
cloud_init_modules: [write-files]
cloud_config_modules: [runcmd]
cloud_final_modules: [scripts-user]
system_info: {distro: debian}
END
seed=/var/lib/cloud/seed/nocloud
mkdir -p $seed
filled cloud-init.yaml >$seed/user-data
echo 'instance-id: i-0abc' >$seed/meta-data
for step in 'init --local' init 'modules --mode=config' 'modules --mode=final'; do
	cloud-init $step >>/srv/cloud 2>&1 || { cat /srv/cloud >&2; exit 1; }
done
cloud-init schema --system 2>&1
cloud-init status
systemctl is-enabled pinch-minion
systemctl is-active pinch-minion
enrolled
"#;
    let Some(text) = on_machine(Some("systemd"), script) else {
        return;
    };
    let expected = [
        "Valid cloud-config: system userdata\nstatus: done\nenabled\nactive\n",
        "600 /etc/salt/token\n",
        "web-asg-i-0abc has enrolled\n",
    ];
    assert_in_order(&text, &expected);
}

/// In place of the installer, the test uses busybox, with chroot as its `in-target`.
#[test]
fn the_installers_late_command_leaves_a_machine_that_enrols() {
    let script = r#"
mkdir -p /target /srv/tools
mount --rbind / /target
printf '#!/bin/sh\nPATH=/usr/sbin:/usr/bin:/sbin:/bin exec chroot /target "$@"\n' >/srv/tools/in-target
chmod 755 /srv/tools/in-target
for tool in sh wget sha256sum mkdir rm; do ln -s "$(command -v busybox)" /srv/tools/$tool; done
# debconf joins lines that end in a backslash, and what follows the type is the value.
command=$(filled preseed.cfg | sed -e :a -e '/\\$/N; s/\\\n//; ta' | sed -n 's|^d-i preseed/late_command string ||p')
PATH=/srv/tools /srv/tools/sh -c "$command" >/srv/installer 2>&1 || { cat /srv/installer >&2; exit 1; }
case $command in *"$token"*) echo "the token is in the command"; exit 1 ;; esac
ls /etc/systemd/system/multi-user.target.wants/pinch-minion.service /target/root/pinch.deb 2>&1 || true
/usr/bin/pinch salt-minion >>/srv/output 2>&1 &
enrolled
"#;
    let Some(text) = on_machine(None, script) else {
        return;
    };
    let expected = [
        "multi-user.target.wants/pinch-minion.service\n",
        "600 /etc/salt/token\n600 /etc/salt/minion.d/enrol.conf\n",
        " has enrolled\n",
    ];
    assert_in_order(&text, &expected);
}

/// As in an image of OpenWrt: busybox, the procd script of the package, and a stand-in for the
/// programs that read it.
#[test]
fn a_router_enrols_at_its_first_boot() {
    let script = r#"
dpkg-deb --fsys-tarfile "$dir/pinch.deb" | tar --extract --directory=/ ./usr/bin/pinch
ip link add br-lan address 02:00:00:00:00:07 type veth peer name lan
mount -t sysfs sysfs /sys
cat >/etc/rc.common <<'END'
procd_open_instance() { :; }
procd_set_param() { [ "$1" != command ] || { shift; "$@" >>/srv/output 2>&1 & }; }
procd_close_instance() { :; }
. "$1"
case $2 in
enable) echo enabled ;;
start) start_service ;;
esac
END
sed 's|@PROGRAM@|pinch|' "$dir/procd" >/etc/init.d/pinch-minion
chmod 755 /etc/init.d/pinch-minion
mkdir -p /etc/uci-defaults /srv/tools
filled openwrt-uci-defaults >/etc/uci-defaults/99-pinch-enrol
for tool in sh mkdir cat tr; do ln -s "$(command -v busybox)" /srv/tools/$tool; done
# As OpenWrt's own script does: in a shell of its own, and away with it when it has worked.
(cd /etc/uci-defaults && PATH=/srv/tools /srv/tools/sh -c '. ./99-pinch-enrol') && rm /etc/uci-defaults/99-pinch-enrol
enrolled
"#;
    let procd = workspace().join("packaging/services/pinch-minion/procd");
    let script = script.replace("$dir/procd", &procd.display().to_string());
    let Some(text) = on_machine(None, &script) else {
        return;
    };
    let expected = [
        "enabled\n600 /etc/salt/token\n600 /etc/salt/minion.d/enrol.conf\n",
        "router-020000000007 has enrolled\n",
    ];
    assert_in_order(&text, &expected);
}

#[test]
fn a_device_enrols_with_the_token_on_its_boot_partition() {
    let script = r#"
dpkg -i "$dir/pinch.deb" >/srv/installed 2>&1
mkdir -p /usr/libexec /boot
cp "$dir/bootstrap/yocto/pinch-enrol.service" /etc/systemd/system
filled yocto/pinch-enrol >/usr/libexec/pinch-enrol
chmod 755 /usr/libexec/pinch-enrol
systemd-analyze verify --man=no /etc/systemd/system/pinch-enrol.service 2>&1 | grep pinch || echo "nothing is wrong"
echo 0123456789abcdef0123456789abcdef >/srv/machine-id
mount --bind /srv/machine-id /etc/machine-id
systemctl daemon-reload
systemctl start pinch-enrol
systemctl show -p ConditionResult pinch-enrol
echo "$token" >/boot/pinch-token
systemctl start pinch-enrol
enrolled
systemctl is-enabled pinch-minion
ls /boot/pinch-token 2>&1 || true
"#;
    let Some(text) = on_machine(Some("systemd"), script) else {
        return;
    };
    let expected = [
        "nothing is wrong\nConditionResult=no\n",
        "600 /etc/salt/token\n600 /etc/salt/minion.d/enrol.conf\n",
        "device-0123456789abcdef0123456789abcdef has enrolled\nenabled\n",
        "cannot access '/boot/pinch-token'",
    ];
    assert_in_order(&text, &expected);
}

/// The names in Ignition's specification that the example uses, each with the names below it.
const IGNITION: [(&str, &[&str]); 7] = [
    ("", &["ignition", "storage", "systemd"]),
    ("ignition", &["version"]),
    ("storage", &["files"]),
    ("files", &["path", "mode", "contents"]),
    ("contents", &["source", "verification"]),
    ("verification", &["hash"]),
    ("systemd", &["units"]),
];

/// Asserts that no value has a name that Ignition would refuse.
fn is_known(name: &str, value: &Value) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| is_known(name, value)),
        Value::Object(map) => {
            let known = IGNITION.iter().find(|(known, _)| *known == name);
            let (_, known) = known.unwrap_or(&("units", &["name", "enabled", "contents"]));
            for (key, value) in map {
                assert!(known.contains(&key.as_str()), "{name}: {key}");
                is_known(key, value);
            }
        }
        _ => {}
    }
}

/// A stand-in for Ignition, which the test does not have: it handles the files and units according
/// to Ignition's specification.
const IGNITE: &str = r#"
import hashlib, json, os, sys, urllib.parse, urllib.request
config = json.load(sys.stdin)
for file in config["storage"]["files"]:
    source = file["contents"]["source"]
    is_data = source.startswith("data:,")
    data = urllib.parse.unquote_to_bytes(source[6:]) if is_data else urllib.request.urlopen(source).read()
    wanted = file["contents"].get("verification", {}).get("hash")
    assert wanted in (None, "sha512-" + hashlib.sha512(data).hexdigest()), source
    os.makedirs(os.path.dirname(file["path"]), exist_ok=True)
    with open(os.open(file["path"], os.O_WRONLY | os.O_CREAT, file["mode"]), "wb") as out:
        out.write(data)
for unit in config["systemd"]["units"]:
    path = "/etc/systemd/system/" + unit["name"]
    open(path, "w").write(unit["contents"])
    if unit["enabled"]:
        os.makedirs("/etc/systemd/system/multi-user.target.wants", exist_ok=True)
        os.symlink(path, "/etc/systemd/system/multi-user.target.wants/" + unit["name"])
"#;

#[test]
fn ignitions_configuration_is_known_to_it_and_makes_a_machine_that_enrols() {
    let path = workspace().join("packaging/bootstrap/ignition.json");
    let text = fs::read_to_string(path).unwrap();
    let config: Value = serde_json::from_str(&text).unwrap();
    is_known("", &config);
    own_unit(config["systemd"]["units"][0]["contents"].as_str().unwrap());
    let script = format!(
        "cat >/srv/ignite.py <<'END'\n{IGNITE}END\nfilled ignition.json | python3 /srv/ignite.py\n{}",
        r#"systemctl daemon-reload
systemctl start pinch-minion
systemctl is-enabled pinch-minion
enrolled
"#
    );
    let Some(text) = on_machine(Some("systemd"), &script) else {
        return;
    };
    let expected = [
        "enabled\n600 /etc/salt/token\n600 /etc/salt/minion.d/enrol.conf\n",
        " has enrolled\n",
    ];
    assert_in_order(&text, &expected);
}

/// The unit in it equals that of the package, except for the path of the program, the comments and
/// the manual.
fn own_unit(unit: &str) {
    let ours = Path::new("packaging/services/pinch-minion/systemd.service");
    let ours = fs::read_to_string(workspace().join(ours)).unwrap();
    let ours = ours.replace("/usr/bin/@PROGRAM@", "/usr/local/bin/pinch");
    let is_kept = |line: &&str| !line.starts_with('#') && !line.starts_with("Documentation=");
    let ours: Vec<&str> = ours.lines().filter(is_kept).collect();
    assert_eq!(unit.lines().collect::<Vec<_>>(), ours);
}
