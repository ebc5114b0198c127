//! Release folders, and their `install.sh` in fresh roots: Debian, a root with only busybox, one with
//! rpm, and one under each init system.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tests::program::{assert_in_order, boot, copy_program, shipped_program};
use tests::scratch::{Scratch, corpus};

use super::{done, in_throwaway, is_root, sh, stand_in, stand_in_here, target, tool};

/// The target of the builds for this machine.
fn own_target() -> String {
    target().replace("-gnu", "-musl")
}

/// Adds a program to a folder like that of `cross/build`, with its checksum and SBOM.
pub(super) fn add_binary(
    binaries: &Path,
    target: &str,
    build: &str,
    program: &Path,
    version: &str,
) {
    let folder = binaries.join(target);
    fs::create_dir_all(&folder).unwrap();
    copy_program(program, &folder.join(build));
    let sbom = format!(
        r#"{{"metadata": {{"component": {{"name": "pinch", "version": "{version}"}}, "properties": [{{"name": "target", "value": "{target}"}}]}}}}"#
    );
    fs::write(folder.join(format!("{build}.cdx.json")), sbom).unwrap();
    sh(&format!(
        "cd {}; sha256sum {build} >{build}.sha256",
        folder.display()
    ));
}

/// Runs `packaging/release` and returns its errors; the exit status must be that of `success`.
fn release(success: bool, words: &[&str]) -> String {
    let output = tool("release", words);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.success(), success, "{words:?}: {stderr}");
    stderr
}

/// Writes a release with the shipped program for this machine to DIR/release, in these formats.
pub(super) fn own_release(dir: &Path, formats: &str) -> PathBuf {
    let (binaries, out) = (dir.join("cross"), dir.join("release"));
    let version = env!("CARGO_PKG_VERSION");
    add_binary(
        &binaries,
        &own_target(),
        "pinch",
        &shipped_program(),
        version,
    );
    release(
        true,
        &[
            "--dynamic",
            "--targets",
            &own_target(),
            "--builds",
            "pinch",
            "--formats",
            formats,
            "--binaries",
            binaries.to_str().unwrap(),
            out.to_str().unwrap(),
        ],
    );
    out
}

/// A folder of man pages, completions and licences without contents.
pub(super) fn empty_docs(dir: &Path) -> PathBuf {
    let docs = dir.join("docs");
    sh(&format!(
        "mkdir -p {docs}/pinch; cd {docs}; touch pinch.licences pinch-core.licences; cd pinch; touch pinch.1 pinch-salt-call.1 pinch-salt-minion.1 pinch-salt-ssh.1 pinch-minion.5 pinch-sls.7 pinch.bash pinch.fish _pinch",
        docs = docs.display()
    ));
    docs
}

#[test]
fn a_release_is_whole_and_the_same_bytes_again() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (binaries, docs, version) = (dir.join("cross"), empty_docs(dir), "1.2.3");
    let (armv7, armv6, mips) = (
        "armv7-unknown-linux-musleabihf",
        "arm-unknown-linux-musleabihf",
        "mips-unknown-linux-musl",
    );
    let arm = stand_in(dir, 1, 1, 40);
    add_binary(&binaries, armv7, "pinch", &arm, version);
    add_binary(&binaries, armv7, "pinch-core", &arm, version);
    add_binary(&binaries, armv6, "pinch", &arm, version);
    add_binary(&binaries, mips, "pinch", &stand_in(dir, 1, 2, 8), version);
    let write = |name: &str| {
        let out = dir.join(name);
        let words = [
            "--targets",
            "armv7hf,armv6hf,mips",
            "--builds",
            "pinch,pinch-core",
            "--version",
            version,
            "--binaries",
            binaries.to_str().unwrap(),
            "--docs",
            docs.to_str().unwrap(),
            out.to_str().unwrap(),
        ];
        release(true, &words);
    };
    write("one");
    write("two");
    let text = sh(&format!(
        r#"
cd {}
diff -r one two && echo the same
cd one
sha256sum --quiet -c SHA256SUMS && echo verified
echo $(($(ls | wc -l) - $(grep -c . SHA256SUMS))) file has no checksum
ls *.deb *.cdx.json
tar -tzf pinch-agents-1.2.3-all.tar.gz | grep '/pinch$'
tail -n 2 bytes.toml
stat -c %a install.sh SHA256SUMS
ls -d ../*.new 2>/dev/null || echo nothing is left
"#,
        dir.display()
    ));
    let expected = [
        "the same\nverified\n1 file has no checksum\n",
        "pinch-1.2.3-arm-unknown-linux-musleabihf.cdx.json\n",
        "pinch-agents_1.2.3_all.deb\n",
        "pinch-core-1.2.3-armv7-unknown-linux-musleabihf.cdx.json\n",
        "pinch-core_1.2.3_armhf.deb\n",
        "pinch_1.2.3_armhf-armv6.deb\npinch_1.2.3_armhf.deb\npinch_1.2.3_mips.deb\n",
        "agents/armv6hf/pinch\n",
        "agents/armv7hf/pinch\n",
        "agents/mips/pinch\n",
        "[mips-unknown-linux-musl]\npinch = 5064\n",
        "755\n644\nnothing is left\n",
    ];
    assert_in_order(&text, &expected);
}

#[test]
fn what_cannot_be_released_is_named_and_no_folder_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let (binaries, docs) = (dir.join("cross"), empty_docs(dir));
    let version = env!("CARGO_PKG_VERSION");
    let own = own_target();
    let program = stand_in_here(dir);
    let folder = binaries.join(&own);
    let out = dir.join("out");
    let attempt = |more: &[&str]| {
        let mut words = vec!["--targets", &own, "--builds", "pinch", "--formats", "deb"];
        words.extend(["--binaries", binaries.to_str().unwrap()]);
        words.extend(more);
        words.push(out.to_str().unwrap());
        release(false, &words)
    };
    let docs = ["--docs", docs.to_str().unwrap()];
    let name = std::env::consts::ARCH;
    assert_in_order(
        &attempt(&docs),
        &[
            &format!("these files are missing; `cross/build {name}` writes them:\n"),
            "/pinch\n",
        ],
    );
    add_binary(&binaries, &own, "pinch", &program, version);
    fs::remove_file(folder.join("pinch.cdx.json")).unwrap();
    assert_in_order(&attempt(&docs), &["/pinch.cdx.json\n"]);
    add_binary(&binaries, &own, "pinch", &program, "0.0.9");
    assert_in_order(
        &attempt(&docs),
        &[
            "describes version 0.0.9 for ",
            "build it again with `cross/build ",
        ],
    );
    add_binary(&binaries, &own, "pinch", &program, version);
    fs::write(folder.join("pinch.sha256"), "0  pinch\n").unwrap();
    assert_in_order(
        &attempt(&docs),
        &["does not have the checksum in pinch.sha256"],
    );
    add_binary(&binaries, &own, "pinch", &program, version);
    let missing = dir.join("missing");
    let error = attempt(&["--docs", missing.to_str().unwrap()]);
    assert_in_order(&error, &["lacks pinch.licences, pinch.1, "]);
    assert!(!error.contains("Traceback"), "{error}");
    let unknown = [docs[0], docs[1], "--formats", "zip"];
    assert_in_order(
        &attempt(&unknown),
        &["unknown format zip; known are tar, deb, "],
    );
    assert!(!out.exists());
    assert_eq!(sh(&format!("ls -d {}.* || true", out.display())), "");
    fs::create_dir(&out).unwrap();
    fs::write(out.join("theirs"), "kept").unwrap();
    assert_in_order(
        &attempt(&docs),
        &["exists and is not an empty folder; remove it"],
    );
    assert_eq!(fs::read_to_string(out.join("theirs")).unwrap(), "kept");
}

/// Functions of the scripts. `files` lists the files in $folders, or everywhere, without those that
/// Salt's programs write; `same` compares the list with the one before.
const FILES: &str = r#"
files() {
	find ${folders-/} -xdev \( -path /proc -o -path /dev -o -path /run -o -path /tmp -o -path /root -o -path /var/cache/salt -o -path /var/log/salt \) -prune -o -print | sort
}
same() { files | diff /root/before - && echo "nothing is left"; }
mkdir -p /root /tmp
"#;

/// Runs a script with these functions in a throw-away root. Other programs may change this machine
/// meanwhile, so only the folders to which `install.sh` writes are compared.
fn in_own_root(dir: &Path, before: &str, script: &str) -> String {
    let dir_text = dir.display();
    let script = format!(
        "{before}\nfolders='/etc /opt /usr/bin /usr/local'\ncd {dir_text}\n{FILES}{script}"
    );
    in_throwaway(dir, &script)
}

const DEBIAN: &str = r#"
mkdir -p /etc/salt
printf 'id: edge1\nfile_client: local\n' >/etc/salt/minion
files >/root/before
for shell in dash 'bash --posix'; do
	echo "= $shell"
	$shell /release/install.sh
	pinch --version
	salt-call --local test.ping
	$shell /release/install.sh >/dev/null
	readlink /usr/local/bin/salt-call
	sh /usr/local/share/pinch/install.sh --uninstall
	ls /usr/local/bin/pinch /usr/local/bin/salt-call 2>&1 || true
	same
done
"#;

#[test]
fn a_fresh_debian_installs_and_removes_it() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    own_release(dir, "tar");
    fs::write(dir.join("script"), [FILES, DEBIAN].concat()).unwrap();
    let script = format!(
        r#"
dir={dir}
. /etc/os-release
mmdebstrap --quiet --variant=essential --dpkgopt=force-unsafe-io "$VERSION_CODENAME" "$dir/root" 2>"$dir/log" || {{ cat "$dir/log" >&2; exit 1; }}
cp -r "$dir/release" "$dir/script" "$dir/root"
exec unshare --mount --net sh -euc '
for folder in proc dev; do mount --rbind "/$folder" "$0/$folder"; done
PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin exec chroot "$0" sh -eu /script' "$dir/root"
"#,
        dir = dir.display()
    );
    let text = done(Command::new("sh").args(["-euc", &script]));
    let version = format!("pinch {} ", env!("CARGO_PKG_VERSION"));
    for shell in ["= dash\n", "= bash --posix\n"] {
        let expected = [
            shell,
            "links to it in /usr/local/bin: salt-call salt-minion salt-ssh\n",
            "next:\n  pinch init    #",
            &version,
            "local:\n    True\n/usr/local/bin/pinch\n",
            "removed what install.sh had installed below /usr/local\nnot removed: /etc/salt",
            "cannot access '/usr/local/bin/pinch'",
            "cannot access '/usr/local/bin/salt-call'",
            "nothing is left\n",
        ];
        assert_in_order(&text, &expected);
    }
}

/// A script for a root with busybox alone, like a router or Alpine without packages. A server with
/// the release is at 127.0.0.1:8000.
const BUSYBOX: &str = r#"
/bin/busybox --install -s /bin
export PATH=/bin
mkdir -p /etc/salt
echo 'id: box' >/etc/salt/minion
ifconfig lo up
httpd -p 127.0.0.1:8000 -h /release
files >/root/before
echo "= from a folder"
ash /release/install.sh
/usr/local/bin/pinch --version
/usr/local/bin/salt-call --local test.ping
sh /usr/local/share/pinch/install.sh --uninstall
same
echo "= from a URL"
export PINCH_RELEASE=http://127.0.0.1:8000
wget -q -O - $PINCH_RELEASE/install.sh | ash -s -- --prefix=/opt/pinch --init openrc
ls -l /etc/init.d/pinch-minion | cut -c1-10
grep command= /etc/init.d/pinch-minion
/opt/pinch/bin/pinch --version
sh /opt/pinch/share/pinch/install.sh --uninstall --prefix /opt/pinch
same
PINCH_RELEASE=http://127.0.0.1:8000/no ash /release/install.sh 2>&1 || echo "exit $?"
unset PINCH_RELEASE
echo "= as a user"
su user -c 'sh /release/install.sh; echo "exit $?"; PATH=$PATH:$HOME/.local/bin; sh /release/install.sh --prefix ~/.local && ~/.local/bin/salt-call --version && sh ~/.local/share/pinch/install.sh --uninstall --prefix ~/.local' 2>&1
same
"#;

#[test]
fn a_root_with_busybox_alone_installs_and_removes_it() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    own_release(dir, "tar");
    fs::write(dir.join("script"), [FILES, BUSYBOX].concat()).unwrap();
    // A program that is not static also needs its libraries.
    let script = format!(
        r#"
dir={dir} root={dir}/root
mkdir -p "$root/bin" "$root/etc" "$root/proc" "$root/dev" "$root/tmp" "$root/root" "$root/home/user" "$root/var/cache" "$root/var/log"
dpkg-deb --fsys-tarfile /var/cache/pinch-tests/busybox-static.deb | tar -x -C "$root" ./bin/busybox
for library in $(ldd {program} 2>/dev/null | grep -o '/[^ ]*' || true); do install -D "$library" "$root$library"; done
printf 'root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n' >"$root/etc/passwd"
printf 'root:x:0:\nuser:x:1000:\n' >"$root/etc/group"
chown 1000:1000 "$root/home/user"
chmod 1777 "$root/tmp"
chmod 755 "$root"
cp -r "$dir/release" "$dir/script" "$root"
exec unshare --mount --net --pid --fork --kill-child sh -euc '
mount --rbind /dev "$0/dev"
mount -t proc proc "$0/proc"
exec chroot "$0" /bin/busybox sh -eu /script' "$root"
"#,
        dir = dir.display(),
        program = shipped_program().display()
    );
    let text = done(Command::new("sh").args(["-euc", &script]));
    let version = format!("pinch {} ", env!("CARGO_PKG_VERSION"));
    let expected = [
        "= from a folder\nfetching pinch-",
        " from /release\ninstalled pinch ",
        "no services, because no known init system runs here; --init NAME",
        &version,
        "local:\n    True\n",
        "nothing is left\n= from a URL\n",
        " from http://127.0.0.1:8000\ninstalled pinch ",
        "services for openrc, which you can enable: pinch-apply pinch-continue pinch-minion\n",
        "/opt/pinch/bin is not in PATH: run `export PATH=/opt/pinch/bin:$PATH`",
        "-rwxr-xr-x\ncommand=/opt/pinch/bin/pinch\n",
        &version,
        "nothing is left\n",
        "install.sh: cannot download http://127.0.0.1:8000/no/SHA256SUMS: ",
        "install.sh: nothing was changed\nexit 69\n",
        "= as a user\ninstall.sh: cannot write to /",
        "run this as root, or use --prefix \"$HOME/.local\"",
        "exit 77\n",
        "no services, because they need root\n",
        "  pinch init ~/salt    # ",
        &version,
        "removed what install.sh had installed below /home/user/.local\n",
        "nothing is left\n",
    ];
    assert_in_order(&text, &expected);
}

/// A script for a machine on which rpm knows of no package but one, and dpkg of none.
const RPM: &str = r#"
rm -rf /var/lib/dpkg /etc/os-release /etc/salt
printf 'ID=fedora\nNAME="Fedora Linux"\nVERSION_ID=39\n' >/etc/os-release
mkdir -p /etc/salt
echo 'id: box' >/etc/salt/minion
rpm() { command rpm --force-debian "$@"; }
files >/root/before
sh release/install.sh
pinch --version
salt-call --local test.ping
salt-call --local --out=txt grains.get os_family
sh release/install.sh --uninstall
same
rpm -U --nodeps release/pinch-[0-9]*.rpm
sh release/install.sh --prefix /usr 2>&1 || echo "exit $?"
rpm -V --nodeps pinch && echo "the package is whole"
rpm -e pinch
"#;

#[test]
fn a_root_with_rpm_installs_and_removes_it() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    own_release(dir, "rpm");
    let rpm = format!(". {} >&2", corpus().join("rpm.sh").display());
    let text = in_own_root(dir, &rpm, RPM);
    let version = format!("pinch {} ", env!("CARGO_PKG_VERSION"));
    let expected = [
        "installed pinch ",
        &version,
        "local:\n    True\nlocal: RedHat\n",
        "nothing is left\n",
        "install.sh: /usr/bin/pinch exists, and install.sh has not installed it. If it belongs to a package, use the package manager",
        "install.sh: nothing was changed\nexit 73\n",
        "the package is whole\n",
    ];
    assert_in_order(&text, &expected);
}

/// The processors as the kernel describes them, with the target of the build that runs on each, or
/// the reason why there is none.
const PROCESSORS: &[(&str, &str, &str)] = &[
    ("aarch64", "", "aarch64-unknown-linux-musl"),
    ("riscv64", "", "riscv64gc-unknown-linux-musl"),
    (
        "i686",
        "flags\t: fpu sse sse2 ss",
        "i686-unknown-linux-musl",
    ),
    ("i586", "flags\t: fpu sse", "this processor has no SSE2"),
    (
        "armv7l",
        "Features\t: half thumb vfp neon vfpv3",
        "armv7-unknown-linux-musleabihf",
    ),
    (
        "armv7l",
        "Features\t: half thumb vfpv3d16",
        "armv7-unknown-linux-musleabihf",
    ),
    (
        "armv7l",
        "Features\t: half thumb",
        "armv5te-unknown-linux-musleabi",
    ),
    (
        "armv8l",
        "Features\t: fp asimd evtstrm",
        "armv7-unknown-linux-musleabihf",
    ),
    (
        "armv6l",
        "Features\t: half thumb vfp edsp",
        "arm-unknown-linux-musleabihf",
    ),
    (
        "armv6l",
        "Features\t: half thumb edsp",
        "armv5te-unknown-linux-musleabi",
    ),
    (
        "armv5tejl",
        "Features\t: swp half",
        "armv5te-unknown-linux-musleabi",
    ),
    ("mips", "", "mipsel-unknown-linux-musl"),
    (
        "ppc64le",
        "",
        "unknown processor ppc64le: there is no build for it. --target selects one",
    ),
];

#[test]
fn each_processor_gets_its_build() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let release = stand_in_release(dir);
    let mut script = format!("install='sh {}/install.sh'\n", release.display());
    script.push_str(
        r#"
mkdir /srv/programs
PATH=/srv/programs:$PATH
program() { printf '#!/bin/sh\n%s\n' "$2" >/srv/programs/$1; chmod 755 /srv/programs/$1; }
processor() {
	program uname "case \$1 in -m) echo $1 ;; *) echo Linux ;; esac"
	printf "$2\n" >/srv/cpuinfo
	mount --bind /srv/cpuinfo /proc/cpuinfo
	$install 2>&1 | head -n 1
	umount /proc/cpuinfo
}
"#,
    );
    for (machine, cpuinfo, _) in PROCESSORS {
        script.push_str(&format!("processor {machine} '{cpuinfo}'\n"));
    }
    // The ELF header of a program of the other byte order.
    script.push_str("program dd \"printf '\\\\002'\"\nprocessor mips ''\n");
    let text = in_throwaway(dir, &script);
    let mut expected: Vec<String> = PROCESSORS
        .iter()
        .map(|(_, _, answer)| (*answer).to_owned())
        .collect();
    expected.push("mips-unknown-linux-musl".to_owned());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), expected.len(), "{text}");
    for (line, answer) in lines.iter().zip(&expected) {
        let is_target = answer.ends_with("musl") || answer.contains("musleabi");
        let whole = if is_target {
            format!(" has no pinch for {answer}; it has: x86_64-unknown-linux-musl")
        } else {
            answer.clone()
        };
        assert!(line.contains(&whole), "{line} is not {whole}");
    }
}

/// Writes a release with a program for x86_64 that does not run.
fn stand_in_release(dir: &Path) -> PathBuf {
    let (binaries, docs, out) = (dir.join("cross"), empty_docs(dir), dir.join("release"));
    let (target, version) = ("x86_64-unknown-linux-musl", env!("CARGO_PKG_VERSION"));
    let program = stand_in(dir, 2, 1, 62);
    add_binary(&binaries, target, "pinch", &program, version);
    release(
        true,
        &[
            "--targets",
            target,
            "--builds",
            "pinch",
            "--formats",
            "tar",
            "--binaries",
            binaries.to_str().unwrap(),
            "--docs",
            docs.to_str().unwrap(),
            out.to_str().unwrap(),
        ],
    );
    out
}

/// A script in which every installation fails, each for another reason.
const FAILURES: &str = r#"
files >/root/before
try() { echo "= $1"; shift; "$@" 2>&1 || echo "exit $?"; }
try "does not run" sh release/install.sh --target x86_64-unknown-linux-musl
cp -r release /srv/damaged
for file in /srv/damaged/*.tar.gz; do echo x >>"$file"; done
try "damaged" env PINCH_RELEASE=/srv/damaged sh release/install.sh
rm /srv/damaged/*.tar.gz
try "incomplete" env PINCH_RELEASE=/srv/damaged sh release/install.sh
try "no release" env PINCH_RELEASE=/srv/none sh release/install.sh
try "another build" sh release/install.sh --master
try "unknown option" sh release/install.sh --nonsense
try "a path with a blank" sh release/install.sh --prefix '/srv/x y'
mkdir /srv/few /srv/small
for program in cat cp dirname grep gzip head id mkdir mv rm rmdir sh sort tar uname; do ln -s "$(command -v $program)" /srv/few; done
try "no program for downloads" env PATH=/srv/few PINCH_RELEASE=http://127.0.0.1 sh release/install.sh
try "no program for checksums" env PATH=/srv/few sh release/install.sh
mount -t tmpfs -o size=16k tmpfs /srv/small
try "full temporary folder" env TMPDIR=/srv/small sh release/install.sh
head -c 16384 /dev/zero >/srv/small/zero 2>/dev/null || true
try "full disk" sh release/install.sh --prefix /srv/small/here
ls -A /srv/small
umount /srv/small
echo theirs >/usr/local/bin/pinch
try "a file of another" sh release/install.sh
cat /usr/local/bin/pinch
rm /usr/local/bin/pinch
try "not installed" sh release/install.sh --uninstall
ls -d /tmp/pinch-install.* 2>/dev/null || echo "no temporary folder is left"
rm -r /srv/damaged /srv/few /srv/small
same || true
"#;

#[test]
fn a_failed_installation_says_why_and_leaves_nothing() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    stand_in_release(dir);
    let text = in_own_root(dir, "", FAILURES);
    let unchanged = "install.sh: nothing was changed\nexit";
    let expected = [
        "= does not run\n",
        "the program for x86_64-unknown-linux-musl does not run on this machine (",
        "--target selects another build",
        &format!("{unchanged} 69\n= damaged\n"),
        "is damaged: its SHA-256 is ",
        &format!("{unchanged} 65\n= incomplete\n"),
        "it is not the folder of a release, or not complete",
        &format!("{unchanged} 69\n= no release\n"),
        "there is no SHA256SUMS in /srv/none",
        &format!("{unchanged} 69\n= another build\n"),
        "has no pinch-master for ",
        &format!("{unchanged} 69\n= unknown option\n"),
        "unknown option --nonsense; see --help\nexit 64\n= a path with a blank\n",
        "exit 64\n= no program for downloads\n",
        "neither curl nor wget is installed; install one of them",
        &format!("{unchanged} 69\n= no program for checksums\n"),
        "install sha256sum, shasum or openssl",
        &format!("{unchanged} 69\n= full temporary folder\n"),
        "if the disk is full, set TMPDIR to another folder",
        &format!("{unchanged} 73\n= full disk\n"),
        "if the disk is full, free 20 MB or choose another --prefix",
        &format!("{unchanged} 73\nzero\n= a file of another\n"),
        "/usr/local/bin/pinch exists, and install.sh has not installed it",
        &format!("{unchanged} 73\ntheirs\n= not installed\n"),
        "nothing was installed by install.sh below /usr/local",
        &format!("{unchanged} 69\nno temporary folder is left\n"),
        "nothing is left\n",
    ];
    assert_in_order(&text, &expected);
}

/// A script that installs the services, uses them, and changes their settings. Every test defines
/// `start_minion` and `is_running`.
const SERVICES: &str = r#"
soon() {
	for _ in $(seq 300); do ! "$@" >/dev/null 2>&1 || return 0; sleep 0.1; done
	echo "not so: $*" >&2
	exit 1
}
rm -rf /etc/salt
mkdir -p /etc/salt /etc/default /etc/init.d
printf 'id: box\nmaster: 127.0.0.1\nenable_fqdns_grains: False\n' >/etc/salt/minion
files >/root/before
sh release/install.sh | grep services
start_minion
soon is_running
sh release/install.sh >/dev/null
settings=/etc/default/pinch-apply
[ -e $settings ] || settings=/etc/conf.d/pinch-apply
echo 'STATES="web"' >$settings
sh release/install.sh | grep "not replaced"
sh /usr/local/share/pinch/install.sh --uninstall | grep -v ': /etc/salt\|: /var'
! is_running >/dev/null 2>&1 || echo "the minion still runs"
cat $settings
rm $settings
files | diff /root/before - | grep -v '/etc/salt/pki' | grep 'pinch\|salt' || echo "nothing is left"
"#;

/// Installs the release under an init system, and checks the output.
fn under(init: &str, functions: &str) {
    if !is_root() {
        return;
    }
    let scratch = Scratch::new();
    let dir = scratch.path();
    own_release(dir, "tar");
    if !boot(dir, init).unwrap() {
        return;
    }
    let text = in_own_root(dir, functions, SERVICES);
    let settings = match init {
        "openrc" => "/etc/conf.d/pinch-apply",
        _ => "/etc/default/pinch-apply",
    };
    let services = format!(
        "services for {init}, which you can enable: pinch-apply pinch-continue pinch-minion\n"
    );
    let replaced = format!("not replaced: {settings}, which has been changed\n");
    let removed = format!("not removed: {settings}, which has been changed\n");
    let end =
        "removed what install.sh had installed below /usr/local\nSTATES=\"web\"\nnothing is left\n";
    assert_in_order(&text, &[&services, &replaced, &removed, end]);
}

#[test]
fn systemd_gets_its_units_and_stops_them() {
    under(
        "systemd",
        r#"
start_minion() { systemctl enable --now pinch-minion 2>/dev/null; systemctl show -p Wants multi-user.target | grep -q pinch-continue.service; }
is_running() { systemctl is-active pinch-minion; }
"#,
    );
}

#[test]
fn openrc_gets_its_scripts_and_stops_them() {
    under(
        "openrc",
        r#"
start_minion() {
	sed -i 's/need localmount/use localmount/' /etc/init.d/pinch-minion
	rc-update add pinch-minion default >/dev/null 2>&1
	rc-service pinch-minion start >/dev/null 2>&1
}
is_running() { pgrep -f '[p]inch salt-minion'; }
"#,
    );
}

#[test]
fn runit_gets_its_folders_and_stops_them() {
    under(
        "runit",
        r#"
start_minion() { ln -s /etc/sv/pinch-minion /etc/service/; }
is_running() { pgrep -f '[p]inch salt-minion'; }
"#,
    );
}

#[test]
fn sysvinit_gets_its_scripts_and_stops_them() {
    under(
        "sysvinit",
        r#"
start_minion() { update-rc.d pinch-minion defaults; service pinch-minion start >/dev/null; }
is_running() { pgrep -f '[p]inch salt-minion'; }
"#,
    );
}
