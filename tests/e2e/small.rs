//! Accounts on a machine with the programs of busybox instead of those of shadow.
//!
//! Debian's busybox does not have them, so scripts replace the programs that create and remove
//! accounts, and record their calls.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tests::program::salt_call_in_throwaway;
use tests::scratch::Scratch;

const MISSING: &str = "sbin/useradd sbin/userdel sbin/usermod sbin/groupadd sbin/groupdel sbin/groupmod sbin/adduser sbin/addgroup \
    sbin/deluser sbin/delgroup sbin/chpasswd bin/gpasswd bin/chage bin/passwd";

const STAND_IN: &str = r#"#!/bin/sh
echo "${0##*/} $*" >> /etc/asked
for name; do :; done
case "$0" in
*/addgroup) echo "$name:x:4500:" >> /etc/group;;
*/adduser) echo "$name:x:4100:4500::/home/$name:/bin/ash" >> /etc/passwd; echo "$name:!:18000:0:99999:7:::" >> /etc/shadow;;
*/deluser) sed -i "/^$name:/d" /etc/passwd /etc/shadow;;
*/delgroup) sed -i "/^$name:/d" /etc/group;;
*/passwd) sed -i "s/^$name:[^:]*:/$name::/" /etc/shadow;;
esac
"#;

const SLS: &str = r#"
crew:
  group.present:
    - gid: 4500
    - members: [alice]
carl:
  user.present:
    - uid: 4100
    - gid: crew
    - groups: [wheel]
    - shell: /bin/ash
    - createhome: False
    - fullname: Carl C
    - password: "$6$a$b"
    - mindays: 3
    - expire: 19000
alice:
  user.present:
    - uid: 4400
    - allow_uid_change: True
    - groups: [crew]
    - home: /home/wonder
    - persist_home: True
    - roomnumber: 7
    - empty_password: True
wheel:
  group.present:
    - gid: 4900
    - addusers: [bob]
    - delusers: [carl]
bob:
  user.absent:
    - purge: True
old:
  group.absent: []
"#;

/// Creates the machine with these programs and a few accounts.
fn machine() -> Scratch {
    let scratch = Scratch::new();
    let put = |path: &str, text: &str, mode: u32| {
        let path = scratch.changeable(path);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    };
    for program in MISSING.split_whitespace() {
        let path = scratch.changeable(&format!("/usr/{program}"));
        mknodat(CWD, &path, FileType::CharacterDevice, Mode::empty(), 0).unwrap();
    }
    for program in ["adduser", "addgroup", "deluser", "delgroup", "passwd"] {
        put(&format!("/usr/local/bin/{program}"), STAND_IN, 0o755);
    }
    let busybox = scratch.changeable("/usr/local/bin/busybox");
    symlink("/bin/true", busybox).unwrap();
    put("/etc/nsswitch.conf", "passwd: files\ngroup: files\n", 0o644);
    let passwd = "root:x:0:0:root:/root:/bin/sh\nalice:x:4001:4001:Alice:/home/alice:/bin/sh\nbob:x:4002:4002::/home/bob:/bin/sh\n";
    put("/etc/passwd", passwd, 0o644);
    let group = "root:x:0:\nalice:x:4001:\nbob:x:4002:\nwheel:x:4010:alice\nold:x:4011:\n";
    put("/etc/group", group, 0o644);
    let shadow =
        "root:*:18000:0:99999:7:::\nalice:$6$x$y:18000:0:99999:7:::\nbob:!:18000:0:99999:7:::\n";
    put("/etc/shadow", shadow, 0o640);
    put("/etc/gshadow", "wheel:!::alice\n", 0o640);
    put("/home/alice/hers", "", 0o644);
    scratch.write("srv/salt/case.sls", SLS);
    scratch
}

fn apply(scratch: &Scratch) -> serde_json::Value {
    let words = ["--out=json", "state.apply", "case"].map(str::to_owned);
    let answer = salt_call_in_throwaway(scratch.path(), &words).unwrap();
    let all: serde_json::Value = serde_json::from_str(&answer.out).unwrap();
    for (id, ret) in all["local"].as_object().unwrap() {
        assert_eq!(ret["result"], true, "{id}: {}", ret["comment"]);
    }
    all["local"].clone()
}

/// A machine like a router, whose busybox cannot create accounts either.
#[test]
fn accounts_are_managed_by_the_files_alone() {
    if !tests::skip::is_root() {
        return;
    }
    let scratch = machine();
    for program in ["adduser", "addgroup", "deluser", "delgroup"] {
        fs::remove_file(scratch.changed(&format!("/usr/local/bin/{program}"))).unwrap();
    }
    apply(&scratch);
    let read = |path: &str| fs::read_to_string(scratch.changed(path)).unwrap();
    assert_eq!(read("/etc/asked"), "passwd -d alice\n");
    assert_eq!(
        read("/etc/passwd"),
        "root:x:0:0:root:/root:/bin/sh\nalice:x:4400:4001:Alice,7:/home/wonder:/bin/sh\ncarl:x:4100:4500:Carl C:/home/carl:/bin/ash\n"
    );
    assert_eq!(
        read("/etc/group"),
        "root:x:0:\nalice:x:4001:\nwheel:x:4900:\ncrew:x:4500:alice\n"
    );
    assert_eq!(
        tests::answer::without_days(&read("/etc/shadow")),
        "root:*:18000:0:99999:7:::\nalice::18000:0:99999:7:::\ncarl:$6$a$b:DAY:3:99999:7::19000:\n"
    );
    assert_eq!(read("/etc/gshadow"), "wheel:!::\ncrew:!::alice\n");
}

#[test]
fn accounts_are_managed_without_shadows_programs() {
    if !tests::skip::is_root() {
        return;
    }
    let scratch = machine();
    apply(&scratch);
    let read = |path: &str| fs::read_to_string(scratch.changed(path)).unwrap();
    assert_eq!(
        read("/etc/asked"),
        "addgroup -g 4500 crew\n\
         adduser -D -g  -s /bin/ash -u 4100 -G crew -H carl\n\
         passwd -d alice\n\
         deluser --remove-home bob\n\
         delgroup old\n"
    );
    assert_eq!(
        read("/etc/passwd"),
        "root:x:0:0:root:/root:/bin/sh\nalice:x:4400:4001:Alice,7:/home/wonder:/bin/sh\ncarl:x:4100:4500:Carl C:/home/carl:/bin/ash\n"
    );
    assert_eq!(
        read("/etc/group"),
        "root:x:0:\nalice:x:4001:\nbob:x:4002:\nwheel:x:4900:bob\ncrew:x:4500:alice\n"
    );
    assert_eq!(
        tests::answer::without_days(&read("/etc/shadow")),
        "root:*:18000:0:99999:7:::\nalice::18000:0:99999:7:::\ncarl:$6$a$b:DAY:3:99999:7::19000:\n"
    );
    assert_eq!(read("/etc/gshadow"), "wheel:!::bob\n");
    assert!(scratch.changed("/home/wonder/hers").is_file());
    let shadow = fs::metadata(scratch.changed("/etc/shadow")).unwrap();
    assert_eq!(shadow.permissions().mode() & 0o7777, 0o640);
}
