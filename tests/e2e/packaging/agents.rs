//! The packages of the agents of all targets, which `salt-ssh` copies to hosts.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Output;

use tests::program::assert_in_order;

use super::formats::{TARGETS, checked};
use super::release::{add_binary, empty_docs};
use super::{file, sh, stand_in, tool, workspace};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Writes a program for each target to DIR/cross. Each has other contents.
fn build_all(dir: &Path) {
    for (target, [class, order], machine, _) in TARGETS {
        let program = stand_in(dir, *class, *order, *machine);
        let bytes = [fs::read(&program).unwrap(), target.as_bytes().to_vec()].concat();
        fs::write(&program, bytes).unwrap();
        add_binary(&dir.join("cross"), target, "pinch", &program, VERSION);
    }
}

/// Runs `packaging/agents` with the programs of DIR/cross and returns its output.
fn agents(dir: &Path, words: &[&str]) -> Output {
    let (binaries, docs) = (dir.join("cross"), empty_docs(dir));
    let mut words = words.to_vec();
    words.extend(["--binaries", binaries.to_str().unwrap()]);
    words.extend(["--docs", docs.to_str().unwrap()]);
    tool("agents", &words)
}

/// Writes packages of all programs of DIR/cross to DIR/out.
fn packaged(dir: &Path, formats: &[&str]) {
    build_all(dir);
    let out = dir.join("out");
    let output = agents(dir, &[formats, &["-o", out.to_str().unwrap()]].concat());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
}

/// Returns the triple and the name of each target of `cross/sizes.toml`.
fn targets() -> Vec<(String, String)> {
    let text = fs::read_to_string(workspace().join("cross/sizes.toml")).unwrap();
    let mut found = Vec::new();
    let mut triple = "";
    for line in text.lines() {
        if let Some(header) = line.strip_prefix('[') {
            triple = header.trim_end_matches(']');
        } else if let Some(name) = line.strip_prefix("name = ") {
            found.push((triple.to_owned(), name.trim_matches('"').to_owned()));
        }
    }
    assert_eq!(found.len(), TARGETS.len());
    found
}

#[test]
fn a_deb_and_a_tarball_have_the_program_of_each_target() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    packaged(dir, &["deb", "tar"]);
    let text = sh(&format!(
        r#"
cd {}
dpkg-deb -f out/*.deb Package Architecture Depends
dpkg-deb -x out/*.deb deb
dpkg-deb -e out/*.deb control
ls control
mkdir tar
tar -xzf out/*.tar.gz -C tar --strip-components=1
"#,
        dir.display()
    ));
    // No script, and no dependency on a library.
    assert_eq!(
        text,
        "Package: pinch-agents\nArchitecture: all\ncontrol\nmd5sums\n"
    );
    for (triple, name) in targets() {
        let built = fs::read(dir.join("cross").join(&triple).join("pinch")).unwrap();
        for root in ["deb/usr", "tar"] {
            let share = dir.join(root).join("share");
            let program = share.join(format!("pinch/agents/{name}/pinch"));
            assert_eq!(fs::read(&program).unwrap(), built, "{root} {name}");
            let mode = fs::metadata(&program).unwrap().permissions().mode();
            assert_eq!(mode & 0o7777, 0o755, "{root} {name}");
            let licences = share.join(format!("licenses/pinch-agents/{name}/THIRD-PARTY.gz"));
            assert!(licences.is_file(), "{root} {name}");
        }
    }
}

#[test]
fn every_format_is_for_every_architecture_and_the_same_bytes_again() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    packaged(dir, &["deb", "rpm", "apk", "ipk", "arch", "tar"]);
    let text = sh(&format!(
        r#"
umask 077; cd /; export TZ=Asia/Tokyo LC_ALL=C
{packaging}/agents deb rpm apk ipk arch tar --binaries {dir}/cross --docs {dir}/docs -o {dir}/again >&2
diff -r {dir}/out {dir}/again && echo the same
cd {dir}/out
ls
rpm -qp --qf '%{{ARCH}}\n[%{{FILEMODES:perms}} %{{FILENAMES}}\n]' *.rpm
bsdtar -xOf *.zst .PKGINFO | grep '^arch'
bsdtar -tf *.zst | grep mipsel/pinch
"#,
        packaging = workspace()
            .join("packaging")
            .canonicalize()
            .unwrap()
            .display(),
        dir = dir.display()
    ));
    let names = [
        format!("pinch-agents-{VERSION}-1-any.pkg.tar.zst"),
        format!("pinch-agents-{VERSION}-1.noarch.rpm"),
        format!("pinch-agents-{VERSION}-all.tar.gz"),
        format!("pinch-agents-{VERSION}-r0.noarch.apk"),
        format!("pinch-agents_{VERSION}-1_all.ipk"),
        format!("pinch-agents_{VERSION}_all.deb"),
    ];
    let expected = [
        "the same\n",
        &names.join("\n"),
        "noarch\n",
        "drwxr-xr-x /usr/share/licenses/pinch-agents\n",
        "drwxr-xr-x /usr/share/pinch\ndrwxr-xr-x /usr/share/pinch/agents\n",
        "-rwxr-xr-x /usr/share/pinch/agents/aarch64/pinch\n",
        "arch = any\nusr/share/pinch/agents/mipsel/pinch\n",
    ];
    assert_in_order(&text, &expected);
    for (kind, architecture) in [("apk", "noarch"), ("ipk", "all")] {
        let package = file(&dir.join("out"), &format!(".{kind}"));
        let text = checked(kind, &package, "");
        let program = "755 usr/share/pinch/agents/x86_64/pinch ";
        assert_in_order(&text, &[&format!("\n{architecture}\n"), program]);
    }
}

#[test]
fn lintian_finds_nothing_in_the_deb() {
    let dir = tempfile::tempdir().unwrap();
    packaged(dir.path(), &["deb"]);
    let deb = file(&dir.path().join("out"), ".deb");
    let found = sh(&format!(
        "lintian --allow-root --fail-on none {}",
        deb.display()
    ));
    assert_eq!(found, "");
}

#[test]
fn a_missing_or_unsuitable_build_is_named_and_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    build_all(dir);
    let riscv = "riscv64gc-unknown-linux-musl";
    fs::remove_file(dir.join("cross").join(riscv).join("pinch")).unwrap();
    let out = dir.join("out");
    let refused = |more: &[&str]| {
        let words = [&["deb", "-o", out.to_str().unwrap()][..], more].concat();
        let output = agents(dir, &words);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{words:?}: {stderr}");
        assert!(!out.exists());
        stderr
    };
    let missing = [
        "these files are missing; `cross/build riscv64` writes them:\n",
        "/riscv64gc-unknown-linux-musl/pinch\n",
    ];
    assert_in_order(&refused(&[]), &missing);
    assert_in_order(&refused(&["--targets", "vax"]), &["unknown target vax"]);
    let other = ["--targets", "mips", "--version", "9.9"];
    assert_in_order(&refused(&other), &["not 9.9 for mips-unknown-linux-musl"]);
    // A program that needs the libraries of the build machine.
    let own = std::env::current_exe().unwrap();
    let here = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    add_binary(&dir.join("cross"), &here, "pinch", &own, VERSION);
    let dynamic = ["--targets", std::env::consts::ARCH];
    assert_in_order(&refused(&dynamic), &["is not statically linked"]);
}
