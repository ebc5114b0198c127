//! Machines that lack something: a system call, a writable disk, a clock, `/proc`, memory, a known
//! package manager or init system, users in files. The missing part is named on stderr, and
//! everything that does not need it works.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tests::program::{assert_in_order, in_recorded_environment, program};
use tests::scratch::Scratch;

/// A file, and a command.
const SLS: &str = "\
@TMP@/there/a.conf:
  file.managed:
    - source: salt://text
    - template: jinja
    - makedirs: True
who:
  cmd.run:
    - name: echo hello
";

fn machine() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("srv/salt/case.sls", SLS);
    scratch.write("srv/salt/text", "{{ 1 + 1 }} of them\n");
    scratch
}

/// The result of a call.
struct CallResult {
    rc: Option<i32>,
    out: String,
    err: String,
}

impl CallResult {
    fn from_output(output: &Output) -> Self {
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(!err.contains("panicked"), "{err}");
        let rc = output.status.code();
        Self { rc, out, err }
    }

    /// Returns the single document on stdout.
    fn data(&self) -> Value {
        let all: Value = serde_json::from_str(&self.out)
            .unwrap_or_else(|e| panic!("{e}: stdout {:?}, stderr {}", self.out, self.err));
        all["local"].clone()
    }

    /// Returns the return of the state with this id.
    fn state(&self, id: &str) -> Value {
        let data = self.data();
        let mut all = data.as_object().unwrap().iter();
        let found = all.find(|(tag, _)| tag.contains(&format!("_|-{id}_|-")));
        found.unwrap().1.clone()
    }

    /// Asserts that every state succeeded.
    fn good(&self) -> &Self {
        assert_eq!(self.rc, Some(0), "{}{}", self.out, self.err);
        for (tag, ret) in self.data().as_object().unwrap() {
            assert_eq!(ret["result"], true, "{tag}: {}", ret["comment"]);
        }
        self
    }
}

/// Runs `salt-call` with other words in front of it: programs that take something away from it.
fn call(scratch: &Scratch, before: &[&str], words: &[&str]) -> CallResult {
    let all: Vec<&str> = [before, &["env"]].concat();
    let mut command = Command::new(all[0]);
    let command = in_recorded_environment(&mut command)
        .args(&all[1..])
        .args(program())
        .arg("-c")
        .arg(scratch.path().join("etc"))
        .args(["--local", "--out=json"])
        .args(words)
        .stdin(Stdio::null());
    CallResult::from_output(&command.output().unwrap())
}

/// Does the same in a throw-away root that a script changes first.
fn call_in_throwaway(scratch: &Scratch, script: &str, words: &[&str]) -> CallResult {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/throwaway.sh");
    let dir = scratch.path().display().to_string();
    let ready = format!("{script}\nexec \"$@\"");
    let before = [
        &corpus.display().to_string(),
        &dir,
        "sh",
        "-euc",
        &ready,
        "sh",
    ];
    call(scratch, &before, words)
}

/// Checks that everything works on a kernel that lacks a system call. Returns a function that makes
/// further calls on such a kernel.
fn works_without(syscall: &str) -> impl Fn(&[&str]) -> CallResult {
    let scratch = machine();
    let trace = scratch.path().join("trace").display().to_string();
    let inject = format!("inject={syscall}:error=ENOSYS");
    let of = format!("trace={syscall}");
    let strace = [
        "strace", "-f", "-qq", "-o", &trace, "-e", &of, "-e", &inject,
    ];
    let told = call(&scratch, &strace, &["test.ping"]);
    assert_eq!((told.data(), told.err.as_str()), (Value::Bool(true), ""));
    let told = call(&scratch, &strace, &["grains.items"]);
    assert_eq!(told.data()["kernel"], "Linux");
    assert_eq!(told.rc, Some(0));
    call(&scratch, &strace, &["state.apply", "case"]).good();
    let made = scratch.tmp().join("there/a.conf");
    assert_eq!(fs::read_to_string(made).unwrap(), "2 of them\n");
    let strace = strace.map(str::to_owned);
    move |words| {
        let strace: Vec<&str> = strace.iter().map(String::as_str).collect();
        call(&scratch, &strace, words)
    }
}

fn gives_random_text(ask: impl Fn(&[&str]) -> CallResult) {
    let told = ask(&["random.get_str", "20"]);
    assert_eq!(told.data().as_str().unwrap().len(), 20);
}

#[test]
fn a_kernel_without_openat2() {
    gives_random_text(works_without("openat2"));
}

#[test]
fn a_kernel_without_getrandom_gives_no_secret_instead_of_a_predictable_one() {
    let ask = works_without("getrandom");
    for function in [
        &["random.get_str", "20"][..],
        &["test.random_hash"],
        &["shadow.gen_password", "x"],
    ] {
        let told = ask(function);
        assert_ne!(told.rc, Some(0), "{function:?}: {}", told.out);
        let reason =
            "Cannot get random bytes from the kernel (getrandom: Function not implemented)";
        assert_in_order(&told.err, &[reason]);
    }
}

#[test]
fn a_kernel_without_statx() {
    gives_random_text(works_without("statx"));
}

/// A configuration with records and logs at their default paths.
const REAL_PLACES: &str = "id: m1\nfile_client: local\nfile_roots: {base: [@ENV@/srv/salt]}\n";

const READ_ONLY: &str = "mount -o remount,ro /";

#[test]
fn a_read_only_root_keeps_a_run_from_nothing_that_needs_no_disk() {
    if !tests::skip::is_root() {
        return;
    }
    let scratch = machine();
    scratch.write("etc/minion", REAL_PLACES);
    let told = call_in_throwaway(&scratch, READ_ONLY, &["test.ping"]);
    assert_eq!((told.rc, told.data()), (Some(0), Value::Bool(true)));
    assert_in_order(&told.err, &["/var/log/salt/minion: Read-only file system"]);
    let told = call_in_throwaway(&scratch, READ_ONLY, &["grains.get", "kernel"]);
    assert_eq!(told.data(), "Linux");
    let told = call_in_throwaway(&scratch, READ_ONLY, &["state.apply", "case"]);
    let lost = [
        "Read-only file system",
        "; free disk space there or set cachedir to another directory",
    ];
    assert_in_order(&told.good().err, &lost);
    let queued = ["state.apply", "case", "queue=True"];
    call_in_throwaway(&scratch, READ_ONLY, &queued).good();
    let single = ["state.single", "file.managed", "/opt/a.conf", "contents=a"];
    let told = call_in_throwaway(&scratch, READ_ONLY, &single);
    assert_eq!(told.rc, Some(1));
    let comment = told.state("/opt/a.conf")["comment"].to_string();
    assert_in_order(&comment, &["/opt", "Read-only file system"]);
}

#[test]
fn a_full_var_keeps_a_run_from_nothing_that_needs_none() {
    if !tests::skip::is_root() {
        return;
    }
    let scratch = machine();
    scratch.write("etc/minion", REAL_PLACES);
    let full = "mount -t tmpfs -o size=64k tmpfs /var\ndd if=/dev/zero of=/var/all bs=1k 2>/dev/null || true";
    let told = call_in_throwaway(&scratch, full, &["test.ping"]);
    assert_eq!((told.rc, told.data()), (Some(0), Value::Bool(true)));
    let told = call_in_throwaway(&scratch, full, &["state.apply", "case"]);
    assert_in_order(
        &told.good().err,
        &[
            "cannot record this run: ",
            "/var/cache/salt/minion/runs/",
            "No space left on device",
        ],
    );
    let single = ["state.single", "file.managed", "/var/a.conf", "contents=a"];
    let told = call_in_throwaway(&scratch, full, &single);
    assert_eq!(told.rc, Some(1));
    let comment = told.state("/var/a.conf")["comment"].to_string();
    assert_in_order(&comment, &["/var", "No space left on device"]);
    let room = ["state.single", "file.absent", "/var/all"];
    call_in_throwaway(&scratch, full, &room).good();
}

/// The second run is refused although no lock file can be created.
#[test]
fn two_runs_at_once_are_kept_apart_where_no_lock_file_can_be_made() {
    if !tests::skip::is_root() {
        return;
    }
    let scratch = machine();
    scratch.write("etc/minion", REAL_PLACES);
    let long = "long:\n  cmd.run:\n    - name: touch @TMP@/begun; sleep 3; true\n";
    scratch.write("srv/salt/long.sls", long);
    let script = scratch.filled(
        "mount -o remount,ro /
\"$@\" >@TMP@/first 2>&1 &
n=0
while [ ! -e @TMP@/begun ] && [ $n -lt 200 ]; do sleep 0.05; n=$((n + 1)); done",
    );
    let told = call_in_throwaway(&scratch, &script, &["state.apply", "long"]);
    assert_eq!(told.rc, Some(1), "{}", told.out);
    assert_eq!(told.out, "");
    assert_in_order(&told.err, &["another run is under way"]);
}

/// `clock_gettime` as on a machine that has just started and has no clock.
const EPOCH: &str = "\
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *time) {
    long got = syscall(SYS_clock_gettime, clock, time);
    if (clock == CLOCK_REALTIME) time->tv_sec = 3;
    return got;
}
";

#[test]
fn a_machine_without_a_clock_is_told_so_by_a_run_that_works() {
    let scratch = machine();
    scratch.write("epoch.c", EPOCH);
    let library = scratch.path().join("epoch.so");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(scratch.path().join("epoch.c"))
        .status();
    assert!(compiled.unwrap().success());
    let preload = format!("LD_PRELOAD={}", library.display());
    let told = call(&scratch, &["env", &preload], &["test.ping"]);
    assert_eq!((told.data(), told.err.as_str()), (Value::Bool(true), ""));
    let told = call(&scratch, &["env", &preload], &["state.apply", "case"]);
    assert_in_order(
        &told.good().err,
        &[
            "The clock of this machine is wrong (1970, Jan 01 00:00:03.",
            "set it",
        ],
    );
    let again = call(&scratch, &["env", &preload], &["state.apply", "case"]);
    again.good();
    let runs = scratch.path().join("root/var/cache/salt/minion/runs");
    let names = fs::read_dir(runs)
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name());
    assert_eq!(
        names
            .filter(|name| name.to_string_lossy().starts_with("1970"))
            .count(),
        2
    );
}

#[test]
fn a_root_without_proc() {
    if !tests::skip::is_root() {
        return;
    }
    let scratch = machine();
    let without = "umount --recursive --lazy /proc";
    let told = call_in_throwaway(&scratch, without, &["test.ping"]);
    assert_eq!((told.data(), told.err.as_str()), (Value::Bool(true), ""));
    let told = call_in_throwaway(&scratch, without, &["grains.items"]);
    assert_eq!((told.rc, told.err.as_str()), (Some(0), ""));
    assert_eq!(told.data()["kernel"], "Linux");
    call_in_throwaway(&scratch, without, &["state.apply", "case"]).good();
    let told = call_in_throwaway(&scratch, without, &["user.info", "root"]);
    assert_eq!(told.data()["uid"], 0);
    let told = call_in_throwaway(&scratch, without, &["status.uptime"]);
    assert_eq!((told.rc, told.out.as_str()), (Some(1), ""));
    assert_in_order(&told.err, &["File /proc/uptime was not found"]);
}

/// Five hundred files.
fn large_tree() -> Scratch {
    let scratch = machine();
    let mut sls = String::new();
    for number in 0..500 {
        writeln!(sls, "@TMP@/many/{number}:\n  file.managed:\n    - contents: text {number}\n    - makedirs: True").unwrap();
    }
    scratch.write("srv/salt/many.sls", &sls);
    scratch
}

/// The limit covers all memory that the program writes to: heap, stacks and data. It does not count
/// the code, which is ten times as large in a debug build as in a release.
#[test]
fn five_hundred_states_in_32_mib() {
    let scratch = large_tree();
    let told = call(
        &scratch,
        &["prlimit", "--data=33554432"],
        &["state.apply", "many"],
    );
    assert_eq!(told.good().data().as_object().unwrap().len(), 500);
    assert_eq!(told.err, "");
}

/// Five megabytes of arguments.
const WIDE: &str = "{% for n in range(100) %}
s{{ n }}:
  test.succeed_without_changes:
    - comment: {{ 'x' * 50000 }}
{% endfor %}
";

#[test]
fn a_run_that_has_no_more_memory_says_so_and_exits_70() {
    let scratch = machine();
    scratch.write("srv/salt/wide.sls", WIDE);
    let short = ["prlimit", "--data=8388608"];
    let told = call(&scratch, &short, &["test.ping"]);
    assert_eq!((told.rc, told.data()), (Some(0), Value::Bool(true)));
    call(&scratch, &short, &["state.apply", "case"]).good();
    let told = call(&scratch, &short, &["state.apply", "wide"]);
    assert_eq!((told.rc, told.out.as_str()), (Some(70), ""), "{}", told.err);
    assert_in_order(
        &told.err,
        &["error: out of memory", "Hint: raise the limit"],
    );
}

#[test]
fn a_file_that_does_not_fit_in_memory_fails_its_own_state() {
    let scratch = machine();
    let large = "large:\n  file.managed:\n    - name: @TMP@/large\n    - source: salt://large\n    - template: jinja\n";
    scratch.write("srv/salt/large.sls", &format!("{large}{SLS}"));
    let file = fs::File::create(scratch.path().join("srv/salt/large")).unwrap();
    file.set_len(60 << 20).unwrap();
    let short = ["prlimit", "--data=16777216"];
    let told = call(&scratch, &short, &["state.apply", "large"]);
    assert_eq!(told.rc, Some(1), "{}", told.err);
    let comment = told.state("large")["comment"].to_string();
    assert_in_order(&comment, &["srv/salt/large: out of memory"]);
    assert_eq!(told.state("who")["result"], true);
}

const UNKNOWN: &str = "
printf 'ID=strange\nNAME=Strange\nVERSION_ID=1\n' >/etc/os-release
rm -rf /etc/debian_version /etc/lsb-release /etc/init.d /run/systemd
IFS=:
for folder in $PATH; do rm -f $folder/systemctl; done
unset IFS";

#[test]
fn an_unknown_package_manager_and_init_system_are_named_with_what_was_looked_for() {
    if !tests::skip::is_root() {
        return;
    }
    let scratch = machine();
    let sls = "p:\n  pkg.installed:\n    - name: nano\ns:\n  service.running:\n    - name: cron\n";
    scratch.write("srv/salt/unknown.sls", &format!("{sls}{SLS}"));
    let told = call_in_throwaway(&scratch, UNKNOWN, &["test.ping"]);
    assert_eq!((told.data(), told.err.as_str()), (Value::Bool(true), ""));
    let told = call_in_throwaway(&scratch, UNKNOWN, &["state.apply", "unknown"]);
    assert_eq!(told.rc, Some(1));
    assert_eq!(told.state("who")["result"], true);
    let packages = [
        "os_family Strange and os Strange",
        "`providers: {pkg: NAME}`",
        "aptpkg",
        "opkg",
    ];
    let services = [
        "init system is unknown",
        "/run/systemd/system, systemctl",
        "/etc/init.d",
        "runit",
    ];
    assert_in_order(&told.state("p")["comment"].to_string(), &packages);
    assert_in_order(&told.state("s")["comment"].to_string(), &services);
    let told = call_in_throwaway(&scratch, UNKNOWN, &["pkg.install", "nano"]);
    assert_eq!((told.rc, told.out.as_str()), (Some(255), ""));
    assert_in_order(&told.err, &packages);
    let told = call_in_throwaway(&scratch, UNKNOWN, &["service.start", "cron"]);
    assert_eq!((told.rc, told.out.as_str()), (Some(255), ""));
    assert_in_order(&told.err, &services);
}

/// A directory that knows one user and one group.
const GETENT: &str = "#!/bin/sh
case \"$1 $2\" in
'passwd remote' | 'passwd 70001') echo remote:*:70001:70002:Remote:/home/remote:/bin/sh ;;
'group far' | 'group 70002') echo far:*:70002: ;;
*) exit 2 ;;
esac
";

const OWNED: &str = "\
@TMP@/owned:
  file.managed:
    - contents: a
    - user: remote
    - group: far
";

#[test]
fn users_that_only_another_source_knows_are_asked_of_getent() {
    if !tests::skip::is_root() {
        return;
    }
    let scratch = machine();
    scratch.write("srv/salt/owned.sls", OWNED);
    scratch.write("getent", GETENT);
    let switch = |sources: &str| {
        scratch.filled(&format!(
            "printf 'passwd: {sources}\\ngroup: {sources}\\n' >/etc/nsswitch.conf
install @ENV@/getent /usr/local/bin/getent
export PATH=/usr/local/bin:$PATH"
        ))
    };
    for sources in ["files sss", "files [NOTFOUND=continue] ldap"] {
        let told = call_in_throwaway(&scratch, &switch(sources), &["user.info", "remote"]);
        assert_eq!(
            (told.rc, &told.data()["uid"]),
            (Some(0), &70001.into()),
            "{}",
            told.err
        );
        call_in_throwaway(&scratch, &switch(sources), &["state.apply", "owned"]).good();
        let made = fs::metadata(scratch.tmp().join("owned")).unwrap();
        assert_eq!((made.uid(), made.gid()), (70001, 70002));
        fs::remove_file(scratch.tmp().join("owned")).unwrap();
    }
    let told = call_in_throwaway(&scratch, &switch("files"), &["user.info", "remote"]);
    assert_eq!(told.data(), serde_json::json!({}));
    let told = call_in_throwaway(&scratch, &switch("files"), &["state.apply", "owned"]);
    assert_eq!(told.rc, Some(1));
    assert_in_order(&told.out, &["remote is not available"]);
}

#[test]
fn a_getent_that_is_missing_is_named_once() {
    if !tests::skip::is_root() {
        return;
    }
    let scratch = machine();
    scratch.write("srv/salt/owned.sls", OWNED);
    let without = "printf 'passwd: files sss\\ngroup: files sss\\n' >/etc/nsswitch.conf
IFS=:
for folder in $PATH; do rm -f $folder/getent; done
unset IFS";
    let told = call_in_throwaway(&scratch, without, &["state.apply", "owned"]);
    assert_eq!(told.rc, Some(1));
    assert_eq!(
        told.err
            .matches("getent: No such file or directory")
            .count(),
        1,
        "{}",
        told.err
    );
    call_in_throwaway(&scratch, without, &["state.apply", "case"]).good();
}
