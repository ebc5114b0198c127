//! Unusual machines: any umask, a chroot without `/dev` and `/proc`, an unreadable disk, a full disk.
//! Others can change no created file, no secret is predictable, no file loses its contents, and each
//! failure is reported.

use std::fs;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tests::program::pinch_program;
use tests::scratch::Scratch;
use tests::skip::is_root;

/// A shell script that makes a root below `$1` from this machine's programs, and then runs the
/// script `$3` for this root. `$2` is the path of `pinch`.
const ROOT: &str = r#"
root=$1/root
mkdir -p "$root/usr" "$root/etc/salt" "$root/tmp" "$root/root/.ssh" "$root/srv/salt" "$root/run"
for link in bin sbin lib lib64; do if [ -L /$link ]; then cp -d /$link "$root/$link"; fi; done
cp /etc/passwd /etc/group "$root/etc"
mount --rbind /usr "$root/usr"
: > "$root/pinch"
mount --bind "$2" "$root/pinch"
eval "$3"
"#;

/// Runs a script in a separate root.
fn in_root(scratch: &Scratch, script: &str) -> Output {
    let output = Command::new("unshare")
        .args(["--mount", "--net", "sh", "-euc", ROOT, "sh"])
        .args([scratch.path(), &pinch_program()])
        .arg(script)
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(!text(&output).contains("panicked"), "{output:?}");
    output
}

fn text(output: &Output) -> String {
    let both = [output.stdout.as_slice(), output.stderr.as_slice()].concat();
    String::from_utf8_lossy(&both).into_owned()
}

/// Returns everything below a folder except the programs.
fn below(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let kind = fs::symlink_metadata(&path).unwrap().file_type();
            if kind.is_dir() && !path.ends_with("usr") {
                folders.push(path.clone());
            }
            if !kind.is_symlink() && !kind.is_socket() {
                all.push(path);
            }
        }
    }
    all
}

/// The script that runs the three programs in the root. Their configuration has no option that
/// makes them more careful.
const PROGRAMS: &str = r#"
cat > "$root/srv/salt/case.sls" <<'END'
/srv/made:
  file.managed: [{source: 'salt://text'}, {template: jinja}, {mode: '0644'}]
/srv/folder/below:
  file.directory: [{makedirs: True}, {dir_mode: '0755'}]
run:
  cmd.run: [{name: echo hello}]
END
echo 'text {{ 1 + 1 }}' > "$root/srv/salt/text"
printf 'id: m1\nfile_client: local\n' > "$root/etc/salt/minion"
chmod -R go-w "$root/etc" "$root/srv" "$root/run" "$root/root" "$root/tmp"
touch "$1/before"
umask "$UMASK"
for function in test.random_hash 'shadow.gen_password x' 'random.get_str 20'; do
    for time in 1 2; do chroot "$root" /pinch salt-call --local --out=txt $function >> "$1/secrets"; done
done
chroot "$root" /pinch salt-call --local state.apply case
chroot "$root" /pinch salt-call --local cmd.run 'id -u' runas=nobody cwd=/ python_shell=False
printf 'interface: 127.0.0.1\nret_port: 24506\npublish_port: 24505\nauto_accept: True\n' > "$root/etc/salt/master"
printf 'id: m1\nmaster: 127.0.0.1\nmaster_port: 24506\n' > "$root/etc/salt/minion"
chmod 644 "$root/etc/salt/master" "$root/etc/salt/minion"
ip link set lo up
chroot "$root" /pinch salt-master & master=$!
chroot "$root" /pinch salt-minion & minion=$!
for time in $(seq 60); do
    if chroot "$root" /pinch salt --out=txt m1 test.ping 2>&1 | grep -q 'm1: True'; then echo answered; break; fi
    sleep 1
done
kill $minion $master
wait
"#;

fn programs_run(umask: &str) {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    let script = format!("UMASK={umask}\n{PROGRAMS}");
    let output = in_root(&scratch, &script);
    let said = text(&output);
    assert!(
        said.contains("Failed:    0") && said.contains("answered"),
        "{said}"
    );
    assert!(said.contains("65534"), "{said}");
    let secrets = fs::read_to_string(scratch.path().join("secrets")).unwrap();
    let secrets: Vec<&str> = secrets.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(secrets.len(), 6, "{secrets:?}");
    for pair in secrets.chunks(2) {
        assert_ne!(pair[0], pair[1], "a secret that comes twice");
    }
    let root = scratch.path().join("root");
    let mut open = Vec::new();
    for path in below(&root) {
        let mode = fs::symlink_metadata(&path).unwrap().permissions().mode() & 0o7777;
        let is_key = path.extension().is_some_and(|end| end == "pem")
            && !path.to_string_lossy().contains("minions");
        if mode & 0o022 != 0 || is_key && mode & 0o077 != 0 {
            open.push(format!("{mode:o} {}", path.display()));
        }
    }
    assert!(open.is_empty(), "others may change or read: {open:#?}");
}

#[test]
fn nothing_that_is_made_without_dev_and_proc_under_umask_000_can_be_changed_by_others() {
    programs_run("000");
}

#[test]
fn the_programs_run_without_dev_and_proc_under_umask_077() {
    programs_run("077");
}

/// A file, its contents, and the call that changes it.
type Edit = (&'static str, &'static str, &'static [&'static str]);

/// Functions that read a file and rewrite it.
const EDITS: &[Edit] = &[
    (
        "/etc/hosts",
        "127.0.0.1 localhost\n",
        &["hosts.add_host", "10.0.0.1", "new"],
    ),
    (
        "/etc/hosts",
        "127.0.0.1 localhost\n",
        &["state.single", "host.present", "new", "ip=10.0.0.1"],
    ),
    (
        "/etc/hosts",
        "127.0.0.1 localhost\n",
        &["state.single", "host.absent", "localhost", "ip=127.0.0.1"],
    ),
    (
        "/etc/aliases",
        "root: me\n",
        &["aliases.set_target", "new", "you"],
    ),
    (
        "/etc/aliases",
        "root: me\n",
        &["state.single", "alias.present", "new", "target=you"],
    ),
    (
        "/etc/aliases",
        "root: me\n",
        &["state.single", "alias.absent", "root"],
    ),
    (
        "/srv/text",
        "kept\n",
        &["state.single", "file.append", "/srv/text", "text=new"],
    ),
    (
        "/srv/text",
        "kept\n",
        &["state.single", "file.prepend", "/srv/text", "text=new"],
    ),
    (
        "/srv/text",
        "kept\n",
        &[
            "state.single",
            "file.replace",
            "/srv/text",
            "pattern=kept",
            "repl=new",
        ],
    ),
    (
        "/srv/text",
        "kept\n",
        &[
            "state.single",
            "file.line",
            "/srv/text",
            "mode=ensure",
            "content=new",
            "after=kept",
        ],
    ),
    (
        "/srv/text",
        "kept\n",
        &[
            "state.single",
            "file.blockreplace",
            "/srv/text",
            "content=new",
            "append_if_not_found=True",
        ],
    ),
    (
        "/srv/text",
        "kept\n",
        &["state.single", "file.comment", "/srv/text", "regex=^kept"],
    ),
    (
        "/srv/text",
        "kept\n",
        &[
            "state.single",
            "file.keyvalue",
            "/srv/text",
            "key=a",
            "value=b",
            "append_if_not_found=True",
        ],
    ),
    (
        "/srv/a.ini",
        "[a]\nb = c\n",
        &[
            "state.single",
            "ini.options_present",
            "/srv/a.ini",
            "sections={a: {d: e}}",
        ],
    ),
    (
        "/srv/a.ini",
        "[a]\nb = c\n",
        &["ini.set_option", "/srv/a.ini", "{a: {d: e}}"],
    ),
    (
        "/srv/a.json",
        "{\"a\": 1}\n",
        &[
            "state.single",
            "file.serialize",
            "/srv/a.json",
            "dataset={b: 2}",
            "serializer=json",
            "merge_if_exists=True",
        ],
    ),
    (
        "/etc/sysctl.d/99-salt.conf",
        "a.b = 1\n",
        &[
            "sysctl.persist",
            "kernel.hostname",
            "x",
            "config=/etc/sysctl.d/99-salt.conf",
        ],
    ),
    (
        "/etc/fstab",
        "/dev/x /x ext4 defaults 0 0\n",
        &["mount.set_fstab", "/y", "/dev/y", "ext4"],
    ),
    (
        "/etc/fstab",
        "/dev/x /x ext4 defaults 0 0\n",
        &["mount.rm_fstab", "/x", "/dev/x"],
    ),
    (
        "/root/.ssh/authorized_keys",
        "ssh-rsa AAAAB3NzaC1yc2EAAAA= kept\n",
        &[
            "state.single",
            "ssh_auth.present",
            "name=AAAAB3NzaC1yc2EAAAB=",
            "user=root",
            "enc=ssh-rsa",
        ],
    ),
    (
        "/etc/salt/grains",
        "kept: 1\n",
        &["grains.setval", "new", "2"],
    ),
];

/// Runs every edit in a root with `/dev` and `/proc`, after the script `before`, and with `with` in
/// front of its command; `$file` is the name of the file in both.
fn edits_lose_nothing(before: &str, with: &str, reason: &str) {
    if !is_root() {
        return;
    }
    let mut wrong = Vec::new();
    for (file, kept, words) in EDITS {
        let scratch = Scratch::new();
        let words: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let script = format!(
            r#"
mkdir -p "$root/dev" "$root/proc"
mount --rbind /dev "$root/dev"
mount --rbind /proc "$root/proc"
printf 'id: m1\nfile_client: local\n' > "$root/etc/salt/minion"
file={file}
mkdir -p "$root/$(dirname $file)"
printf '%s' '{kept}' > "$root$file"
{before}
chroot "$root" {with} /pinch salt-call --local --retcode-passthrough {} && echo 'the answer claims success' || true
cat "$root$file" > "$1/after"
"#,
            words.join(" ")
        );
        let output = in_root(&scratch, &script);
        let said = text(&output);
        let after = fs::read_to_string(scratch.path().join("after")).unwrap_or_default();
        let claims = said.contains("the answer claims success");
        // Salt's sentences name the file alone.
        let named = [
            reason,
            "unable to open",
            "not writable",
            "Could not read from file",
            "Could not write to file",
        ]
        .iter()
        .any(|reason| said.contains(reason));
        let is_kept = after == *kept && !claims && named && said.contains(file);
        // Writing fewer bytes needs no space.
        let is_shorter = claims && after.len() < kept.len() && reason.starts_with("No space");
        if !is_kept && !is_shorter {
            wrong.push(format!("{}: {after:?}\n{said}", words.join(" ")));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {}:\n{}",
        wrong.len(),
        EDITS.len(),
        wrong.join("\n")
    );
}

#[test]
fn a_file_that_cannot_be_read_is_not_written_anew() {
    let strace = "strace -f -qq -o /trace -P $file -e trace=read,pread64,readv -e inject=read,pread64,readv:error=EIO";
    edits_lose_nothing("", strace, "Input/output error");
}

#[test]
fn a_file_on_a_full_disk_keeps_what_it_holds() {
    let full = r#"
folder=$root$(dirname $file)
mkdir -p "$1/kept"
cp -a "$folder/." "$1/kept"
mount -t tmpfs -o size=256k tmpfs "$folder"
cp -a "$1/kept/." "$folder"
dd if=/dev/zero of="$folder/all" bs=1k 2> /dev/null || true
"#;
    edits_lose_nothing(full, "", "No space left on device");
}
