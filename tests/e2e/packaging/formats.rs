//! Formats whose package managers are not in Debian, read back; reproducible builds; every target;
//! refusals.

use std::fs;
use std::path::Path;

use tests::program::assert_in_order;
use tests::scratch::corpus;

use super::{
    build, file, in_throwaway, is_root, packaged, sh, shipped, stand_in, stand_in_here, target,
    workspace,
};

/// Returns the value of `key` that the checker, which parses the format, reads from a package.
pub(super) fn checked(kind: &str, package: &Path, key: &str) -> String {
    let checker = corpus().join("packages.py");
    sh(&format!(
        "{} {kind} {} {key}",
        checker.display(),
        package.display()
    ))
}

/// Returns the line of the checker for a file with the same contents as this one.
fn line(mode: &str, path: &str, as_this: &Path) -> String {
    let sum = sh(&format!("sha256sum {}", as_this.display()));
    format!("{mode} {path} {}\n", sum.split(' ').next().unwrap())
}

#[test]
fn an_apk_is_what_alpine_describes() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let binary = stand_in_here(dir);
    let key = dir.join("packager-1.rsa");
    let key = key.to_str().unwrap();
    sh(&format!(
        "openssl genrsa -out {key} 2048 2>/dev/null; openssl rsa -in {key} -pubout -out {key}.pub 2>/dev/null"
    ));
    packaged(
        &binary,
        &target(),
        "apk",
        &["--apk-key", key],
        &dir.join("signed"),
    );
    packaged(&binary, &target(), "apk", &[], &dir.join("plain"));
    let text = checked(
        "apk",
        &file(&dir.join("signed"), ".apk"),
        &format!("{key}.pub"),
    );
    let version = env!("CARGO_PKG_VERSION");
    assert_in_order(
        &text,
        &[
            "pinch\n",
            &format!("{version}-r0\n"),
            std::env::consts::ARCH,
            "755 etc/init.d/pinch-apply",
            "755 etc/init.d/pinch-continue",
            "755 etc/init.d/pinch-minion",
            "644 usr/share/man/man1/pinch-salt-call.1.gz",
            "644 usr/share/man/man5/pinch-minion.5.gz",
            "644 usr/share/man/man7/pinch-sls.7.gz",
            "644 usr/share/pinch/plan.schema.json",
        ],
    );
    assert_in_order(&text, &[&line("755", "usr/bin/pinch", &binary)]);
    assert_eq!(text, checked("apk", &file(&dir.join("plain"), ".apk"), ""));
}

#[test]
fn an_ipk_is_what_openwrt_writes() {
    let dir = tempfile::tempdir().unwrap();
    let binary = stand_in(dir.path(), 1, 1, 40);
    packaged(
        &binary,
        "armv7-unknown-linux-musleabihf",
        "ipk",
        &["--ipk-arch", "arm_cortex-a9"],
        dir.path(),
    );
    let text = checked("ipk", &file(dir.path(), ".ipk"), "");
    let version = env!("CARGO_PKG_VERSION");
    let first = format!("pinch\n{version}-1\narm_cortex-a9\n755 etc/init.d/pinch-continue ");
    let second = "755 etc/init.d/pinch-minion ";
    let program = line("755", "usr/bin/pinch", &binary);
    let last = "644 usr/share/licenses/pinch/THIRD-PARTY.gz ";
    assert_in_order(&text, &[&first, second, &program, last]);
    assert_eq!(text.lines().count(), 7, "{text}");
}

#[test]
fn the_tarball_installs_and_removes_itself_with_busybox_alone() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    shipped("tar", &[], &dir.path().join("new"));
    shipped("tar", &["--version", "0.0.9"], &dir.path().join("old"));
    let dir = dir.path();
    let script = format!(
        r#"
mkdir -p /srv/bb
busybox --install -s /srv/bb
for age in old new; do mkdir /srv/$age; busybox tar -xzf {dir}/$age/*.tar.gz -C /srv/$age; done
PATH=/srv/bb
install() {{ age=$1; shift; sh /srv/$age/pinch-*/install.sh "$@"; }}
find /usr/local | sort >/srv/before
echo "/usr/local/bin/salt-call of before" >/usr/local/bin/salt-call
install new | grep replaced
cat /usr/local/bin/salt-call
rm /usr/local/bin/salt-call
install old --no-links | grep -c links || true
test ! -e /usr/local/bin/salt-call
install new >/dev/null
install new >/dev/null
readlink /usr/local/bin/salt-call
mkdir -p /srv/config; echo 'id: box' >/srv/config/minion
/usr/local/bin/salt-call -c /srv/config --local --out=txt test.ping
install new --nonsense || echo exit $?
install new --root=/srv/image --prefix=/usr --no-links --no-record
(cd /srv/image && find usr ! -type d | sort)
install new --root /srv/linked --prefix /usr | grep links
readlink /srv/linked/usr/bin/salt-call
install new --root /srv/linked --prefix /usr --uninstall
find /srv/linked ! -type d
install new --uninstall
find /usr/local ! -type d | diff - /srv/before | grep '^<' || echo nothing is left
"#,
        dir = dir.display()
    );
    let text = in_throwaway(dir, &script);
    let expected = [
        "not replaced: /usr/local/bin/salt-call, which belongs to another program; use `pinch salt-call` instead\n",
        "/usr/local/bin/salt-call of before\n0\n/usr/local/bin/pinch\nlocal: True\nexit 64\n",
        "usr/bin/pinch\nusr/share/bash-completion/completions/pinch\nusr/share/fish/vendor_completions.d/pinch.fish\nusr/share/licenses/pinch/LICENSE\nusr/share/licenses/pinch/THIRD-PARTY.gz\n",
        "usr/share/man/man1/pinch-salt-call.1\nusr/share/man/man1/pinch-salt-minion.1\nusr/share/man/man1/pinch-salt-ssh.1\nusr/share/man/man1/pinch.1\nusr/share/man/man5/pinch-minion.5\nusr/share/man/man7/pinch-sls.7\nusr/share/pinch/doctor.schema.json\n",
        "usr/share/pinch/undo.schema.json\nusr/share/zsh/site-functions/_pinch\n",
        "links to it in /srv/linked/usr/bin: salt-call salt-minion salt-ssh\n/usr/bin/pinch\nremoved what install.sh had installed below /srv/linked/usr\nremoved ",
        "nothing is left\n",
    ];
    assert_in_order(&text, &expected);
}

#[test]
fn the_image_is_read_back_by_skopeo_and_umoci() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let binary = stand_in(dir, 2, 1, 183);
    packaged(
        &binary,
        "aarch64-unknown-linux-musl",
        "oci",
        &["--version", "1.2.3"],
        dir,
    );
    let image = file(dir, ".oci.tar");
    let (image, dir) = (image.display(), dir.display());
    let script = format!(
        r#"
skopeo inspect --raw oci-archive:{image}:1.2.3
echo
skopeo inspect --raw --config oci-archive:{image}:1.2.3
skopeo --insecure-policy copy -q oci-archive:{image}:1.2.3 oci:{dir}/layout:tag
umoci unpack --rootless --image {dir}/layout:tag {dir}/bundle
cd {dir}/bundle/rootfs
find . -printf '%M %p %l\n' | sort -k 2
cmp usr/bin/pinch {binary} && echo the same
"#,
        binary = binary.display()
    );
    let text = sh(&script);
    let expected = [
        "application/vnd.oci.image.manifest.v1+json",
        r#""architecture": "arm64""#,
        r#""Entrypoint": ["/usr/bin/pinch"]"#,
        r#""variant": "v8""#,
        "drwxr-xr-x ./etc/salt",
        "drwxrwxrwt ./tmp",
        "-rwxr-xr-x ./usr/bin/pinch \nlrwxrwxrwx ./usr/bin/salt-call pinch\n",
        "the same",
    ];
    assert_in_order(&text, &expected);
}

#[test]
fn recipes_package_the_tarball() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let binary = stand_in_here(dir);
    packaged(&binary, &target(), "recipes", &[], dir);
    // Do the same as abuild and OpenWrt's build: set the variables of the recipes and call their
    // functions.
    let script = format!(
        r#"
cd {dir}
srcdir=$PWD/src pkgdir=$PWD/alpine; mkdir src alpine
. recipes/alpine/pinch/APKBUILD
echo "$sha512sums" | grep . | sha512sum -c
tar -xzf $source -C src
(cd $builddir && package)
(cd alpine && find . ! -type d | sort)
sh -n recipes/alpine/pinch/$install
mkdir -p wrt/dl wrt/build; cp *.tar.gz wrt/dl; cd wrt
cat >rules.mk <<'END'
BUILD_DIR:=$(TOPDIR)/build
INSTALL_DIR:=install -d -m0755
INSTALL_BIN:=install -m0755
INSTALL_DATA:=install -m0644
END
cat >package.mk <<'END'
define BuildPackage
all:
	echo '$(PKG_HASH)  dl/$(PKG_SOURCE)' | sha256sum -c
	tar -xzf dl/$(PKG_SOURCE) -C $(BUILD_DIR)
	$$(call Package/$(1)/install,$(TOPDIR)/root)
	printf '%s\n' "$$$$PRERM" >prerm
export PRERM
PRERM=$$(Package/$(1)/prerm)
endef
END
make -s -f ../recipes/openwrt/pinch/Makefile TOPDIR=$PWD INCLUDE_DIR=$PWD
cmp root/usr/bin/pinch {binary}
(cd root && find etc usr/share ! -type d | sort)
ln -s /usr/bin/pinch root/usr/bin/salt-call
PKG_UPGRADE=1 IPKG_INSTROOT=$PWD/root sh prerm; readlink root/usr/bin/salt-call
IPKG_INSTROOT=$PWD/root sh prerm; ls root/usr/bin
"#,
        dir = dir.display(),
        binary = binary.display()
    );
    let expected = [
        ".tar.gz: OK",
        "./etc/conf.d/pinch-apply\n./etc/init.d/pinch-apply\n./etc/init.d/pinch-continue\n./etc/init.d/pinch-minion\n./usr/bin/pinch\n",
        ".tar.gz: OK",
        "etc/init.d/pinch-continue\netc/init.d/pinch-minion\nusr/share/licenses/pinch/THIRD-PARTY.gz\n",
        "/usr/bin/pinch\npinch\n",
    ];
    assert_in_order(&sh(&script), &expected);
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let binary = stand_in_here(dir);
    let formats = "deb rpm apk ipk arch tar oci recipes";
    packaged(&binary, &target(), formats, &[], &dir.join("one"));
    let script = format!(
        r#"
umask 077; cd /; export TZ=Asia/Tokyo LC_ALL=C
{}/packaging/build {formats} --binary {} --target {} -o {dir}/two >&2
diff -r {dir}/one {dir}/two && ls {dir}/one | wc -l
"#,
        workspace().canonicalize().unwrap().display(),
        binary.display(),
        target(),
        dir = dir.display()
    );
    // The recipes are a folder, and include the tarball.
    assert_eq!(sh(&script).trim(), "8");
}

/// Each target of the table with the ELF header of its programs, and its names in dpkg, rpm and
/// file names.
pub(super) const TARGETS: &[(&str, [u8; 2], u16, &str)] = &[
    (
        "x86_64-unknown-linux-musl",
        [2, 1],
        62,
        "amd64 x86_64 x86_64 x86_64",
    ),
    (
        "aarch64-unknown-linux-musl",
        [2, 1],
        183,
        "arm64 aarch64 aarch64 aarch64_generic",
    ),
    (
        "armv7-unknown-linux-musleabihf",
        [1, 1],
        40,
        "armhf armv7hl armv7 arm_cortex-a7_neon-vfpv4",
    ),
    (
        "arm-unknown-linux-musleabihf",
        [1, 1],
        40,
        "armhf armv6hl armhf arm_arm1176jzf-s_vfp",
    ),
    (
        "armv5te-unknown-linux-musleabi",
        [1, 1],
        40,
        "armel armv5tel armel arm_arm926ej-s",
    ),
    (
        "riscv64gc-unknown-linux-musl",
        [2, 1],
        243,
        "riscv64 riscv64 riscv64 riscv64_generic",
    ),
    (
        "i686-unknown-linux-musl",
        [1, 1],
        3,
        "i386 i686 x86 i386_pentium4",
    ),
    (
        "mipsel-unknown-linux-musl",
        [1, 1],
        8,
        "mipsel mipsel mipsel mipsel_24kc",
    ),
    (
        "mips-unknown-linux-musl",
        [1, 2],
        8,
        "mips mips mips mips_24kc",
    ),
];

#[test]
fn every_target_has_its_names() {
    let table = fs::read_to_string(workspace().join("packaging/architectures.toml")).unwrap();
    let known = table.lines().filter(|line| line.starts_with('[')).count();
    assert_eq!(known, TARGETS.len());
    for (target, [class, order], machine, names) in TARGETS {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let binary = stand_in(dir, *class, *order, *machine);
        packaged(&binary, target, "deb rpm apk ipk oci", &[], dir);
        let script = format!(
            "cd {}; echo $(dpkg-deb -f *.deb Architecture) $(rpm -qp --qf '%{{ARCH}}' *.rpm) $(basename *.apk .apk | cut -d. -f4) $(basename *.ipk .ipk | cut -d_ -f3-)",
            dir.display()
        );
        assert_eq!(sh(&script).trim(), *names, "{target}");
    }
}

#[test]
fn another_package_is_one_more_entry() {
    let dir = tempfile::tempdir().unwrap();
    let binary = stand_in(dir.path(), 2, 1, 62);
    let script = format!(
        r#"
cd {dir}
cp -r {workspace}/packaging {workspace}/LICENSE {workspace}/CHANGELOG.md {workspace}/README.md {workspace}/Cargo.toml .
cat >>packaging/packages.toml <<'END'
[other]
summary = "another one"
description = ["It has two applets and no service."]
applets = ["one", "two"]
roles = ["other"]
END
mkdir -p docs/other
for page in pinch.1 pinch-one.1 pinch-two.1 pinch-other.5 pinch-sls.7; do printf '.TH X %s
.SH NAME
%s \- x
' ${{page##*.}} ${{page%.*}} >docs/other/$page; done
touch docs/other/pinch.bash docs/other/pinch.fish docs/other/_pinch docs/other.licences
SOURCE_DATE_EPOCH=1700000000 packaging/build deb rpm apk ipk arch tar oci recipes --package other --binary {binary} --target x86_64-unknown-linux-musl -o out --docs docs >&2
ls out
dpkg-deb -e out/*.deb control; ls control; grep -c alternatives control/postinst; sh -n control/postinst
lintian --allow-root --fail-on none out/*.deb | grep -v 'embedded-library\|uses-dpkg-database' || true
rpm -qpl out/*.rpm
"#,
        dir = dir.path().display(),
        workspace = workspace().display(),
        binary = binary.display()
    );
    let text = sh(&script);
    let expected = [
        "other-0.1.0-1-x86_64.pkg.tar.zst\nother-0.1.0-1.x86_64.rpm\nother-0.1.0-r0.x86_64.apk\n",
        "control\nmd5sums\npostinst\npostrm\nprerm\ntriggers\n",
        "/usr/bin/pinch\n",
        "/usr/share/man/man1/pinch-two.1.gz\n",
    ];
    assert_in_order(&text, &expected);
    assert!(!text.contains("/etc/"), "{text}");
}

#[test]
fn what_cannot_be_packaged_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let arm = stand_in(dir, 1, 1, 40);
    let text = dir.join("text");
    fs::write(&text, "no program").unwrap();
    let own = std::env::current_exe().unwrap();
    let (arm, text, own, here) = (
        arm.to_str().unwrap(),
        text.to_str().unwrap(),
        own.to_str().unwrap(),
        target(),
    );
    let cases: &[(&[&str], &str)] = &[
        (
            &["deb", "--binary", own, "--target", &here],
            "is not statically linked, it needs the C library",
        ),
        (
            &["deb", "--binary", text, "--target", &here],
            "the binary is not an ELF file",
        ),
        (
            &[
                "deb",
                "--binary",
                arm,
                "--target",
                "aarch64-unknown-linux-musl",
            ],
            "is [1, 1, 40], but aarch64-unknown-linux-musl needs [2, 1, 183]",
        ),
        (
            &["deb", "--binary", arm, "--target", "vax-dec-ultrix"],
            "unknown target vax-dec-ultrix; architectures.toml has x86_64-unknown-linux-musl, ",
        ),
        (
            &[
                "deb",
                "--binary",
                arm,
                "--target",
                &here,
                "--package",
                "salt",
            ],
            "unknown package salt; packages.toml has pinch",
        ),
        (
            &["zip", "--binary", arm, "--target", &here],
            "invalid choice: 'zip'",
        ),
        (&["deb", "--target", &here], "--binary"),
    ];
    let out = dir.join("out");
    for (words, error) in cases {
        let words = [
            words,
            &["-o", out.to_str().unwrap(), "--docs", "/nonexistent"][..],
        ]
        .concat();
        let answer = build(&words);
        let stderr = String::from_utf8_lossy(&answer.stderr);
        assert!(
            !answer.status.success() && stderr.contains(error),
            "{words:?}: {stderr}"
        );
    }
    assert!(!out.exists());
}
