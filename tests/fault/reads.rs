//! Files that cannot be read: a function that writes them afterwards fails, names the file, and leaves it as it was.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tests::program::{copy_program, program};
use tests::scratch::Scratch;

/// A file that is read and then written: its path, its contents, and the call that changes it.
struct Written {
    file: &'static str,
    holds: &'static str,
    words: &'static [&'static str],
}

const HOSTS: Written = Written {
    file: "root/hosts",
    holds: "127.0.0.1\tlocalhost\n192.0.2.1\tone\n",
    words: &["hosts.add_host", "192.0.2.2", "two"],
};

const WRITTEN: &[Written] = &[
    HOSTS,
    Written {
        words: &["hosts.set_host", "192.0.2.2", "two"],
        ..HOSTS
    },
    Written {
        words: &["hosts.rm_host", "192.0.2.1", "one"],
        ..HOSTS
    },
    Written {
        words: &["state.single", "host.present", "two", "ip=192.0.2.2"],
        ..HOSTS
    },
    Written {
        file: "root/aliases",
        holds: "root: admin\n",
        words: &["aliases.set_target", "postmaster", "root"],
    },
    Written {
        file: "root/aliases",
        holds: "root: admin\n",
        words: &["state.single", "alias.present", "postmaster", "target=root"],
    },
    Written {
        file: "etc/grains",
        holds: "role: web\n",
        words: &["grains.setval", "other", "1"],
    },
    Written {
        file: "root/text",
        holds: "text\n",
        words: &["file.prepend", "@FILE@", "first"],
    },
    Written {
        file: "root/text",
        holds: "text\n",
        words: &["file.append", "@FILE@", "last"],
    },
    Written {
        file: "root/text",
        holds: "a=1\n",
        words: &["ini.set_option", "@FILE@", "{s: {b: 2}}"],
    },
    Written {
        file: "root/text",
        holds: "a = 1\n",
        words: &["sysctl.persist", "kernel.hostname", "x", "config=@FILE@"],
    },
    Written {
        file: "root/fstab",
        holds: "/dev/none /mnt ext4 defaults 0 0\n",
        words: &["mount.rm_fstab", "/mnt", "/dev/none", "config=@FILE@"],
    },
];

impl Written {
    fn machine(&self) -> Scratch {
        let scratch = Scratch::new();
        let minion = fs::read_to_string(scratch.path().join("etc/minion")).unwrap();
        let root = scratch.path().join("root").display().to_string();
        let options = format!("hosts.file: {root}/hosts\naliases.file: {root}/aliases\n");
        fs::write(scratch.path().join("etc/minion"), minion + &options).unwrap();
        scratch.write(self.file, self.holds);
        scratch
    }

    fn call(&self, scratch: &Scratch, before: &[&str], program: &Path) -> Output {
        let file = scratch.path().join(self.file).display().to_string();
        let (first, rest) = before.split_first().unwrap();
        let mut command = Command::new(first);
        command.args(rest).arg(program);
        command.args(&self::program()[1..]);
        command.arg("-c").arg(scratch.path().join("etc"));
        command.args(["--local", "--retcode-passthrough"]);
        command.args(self.words.iter().map(|word| word.replace("@FILE@", &file)));
        command.stdin(Stdio::null()).output().unwrap()
    }

    /// Checks the answer and the file.
    fn check(&self, scratch: &Scratch, answer: &Output, reason: &str) {
        let file = scratch.path().join(self.file);
        let told = [&answer.stdout[..], &answer.stderr].concat();
        let told = String::from_utf8_lossy(&told);
        let call = self.words.join(" ");
        assert_ne!(answer.status.code(), Some(0), "{call}: {told}");
        // Salt's own sentence has no reason.
        let is_told = told.contains(reason) || told.contains("Could not read from file");
        assert!(is_told, "{call}: {told}");
        let name = file.file_name().unwrap().to_str().unwrap();
        assert!(told.contains(name), "{call} names {name}: {told}");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), self.holds, "{call}");
    }
}

#[test]
fn a_file_whose_disk_fails_is_not_written_back_as_empty() {
    for written in WRITTEN {
        let scratch = written.machine();
        let file = scratch.path().join(written.file).display().to_string();
        let trace = scratch.path().join("trace").display().to_string();
        let strace = [
            "strace",
            "-f",
            "-qq",
            "-o",
            &trace,
            "-P",
            &file,
            "-e",
            "trace=read",
            "-e",
            "inject=read:error=EIO",
        ];
        let answer = written.call(&scratch, &strace, Path::new(&program()[0]));
        written.check(&scratch, &answer, "nput/output error");
    }
}

#[test]
fn a_hosts_file_that_the_user_may_not_read_keeps_its_entries() {
    if !tests::skip::is_root() {
        return;
    }
    let scratch = HOSTS.machine();
    // Only root may enter the program's folder, so the unprivileged user runs a copy.
    let copy = scratch.path().join("pinch");
    copy_program(Path::new(&program()[0]), &copy);
    let mode = |path: &str, mode| {
        let path = scratch.path().join(path);
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("", 0o755);
    // The user may replace the file in its folder, and not read it.
    mode("root", 0o777);
    mode("root/hosts", 0o600);
    let nobody = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
    ];
    let answer = HOSTS.call(&scratch, &nobody, &copy);
    HOSTS.check(&scratch, &answer, "Permission denied");
}
