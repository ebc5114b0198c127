"""Writes packages of a binary. Started by `build`, which installs the necessary tools.

The packages are reproducible: files are sorted, owned by root and dated SOURCE_DATE_EPOCH.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import tomllib

import archives
import formats

HERE = pathlib.Path(__file__).parent
EPILOG = """formats:
  deb  rpm  apk (Alpine)  ipk (OpenWrt)  arch (pacman)
  tar      a tarball with install.sh, which needs only busybox
  oci      a container image as a tar file of an OCI image layout
  recipes  APKBUILD, PKGBUILD, an OpenWrt feed Makefile and a Yocto recipe that package the tarball"""


def main():
    options = arguments()
    table = tomllib.loads((HERE / "architectures.toml").read_text())
    packages = tomllib.loads((HERE / "packages.toml").read_text())
    if options.package not in packages:
        fail(f"unknown package {options.package}; packages.toml has {', '.join(packages)}")
    names = table.get(options.target.replace("-gnu", "-musl"))
    if names is None:
        fail(f"unknown target {options.target}; architectures.toml has {', '.join(table)}")
    binary = pathlib.Path(options.binary).read_bytes()
    static = archives.is_static(binary, names["elf"], options.target, fail)
    if not static and not options.dynamic:
        fail(f"{options.binary} is not statically linked, it needs the C library of the build machine (use --dynamic to package it anyway)")
    job = formats.Job(
        name=options.package, about=packages[options.package], version=options.version or version(), target=options.target,
        names=names | ({"ipk": options.ipk_arch} if options.ipk_arch else {}), binary=binary, static=static,
        docs=pathlib.Path(options.docs), out=pathlib.Path(options.output).absolute(), epoch=epoch(),
        apk_key=options.apk_key, here=HERE,
    )
    for name in options.format:
        if name not in ("tar", "recipes") and name not in names:
            fail(f"cannot write {name}: architectures.toml has no {name} name for {options.target}")
    job.out.mkdir(parents=True, exist_ok=True)
    for name in options.format:
        with tempfile.TemporaryDirectory(prefix="packaging-") as scratch:
            for path in getattr(formats, name)(job, pathlib.Path(scratch)):
                print(f"{path.stat().st_size:>10}  {path}")


def arguments():
    parser = argparse.ArgumentParser(
        prog="packaging/build", description="Write packages of a binary.",
        epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("format", nargs="+", choices="deb rpm apk ipk arch tar oci recipes".split(), metavar="FORMAT")
    parser.add_argument("--binary", required=True, metavar="FILE", help="the binary")
    parser.add_argument("--target", required=True, metavar="TRIPLE", help="the target of the binary: a section of architectures.toml")
    parser.add_argument("-o", "--output", required=True, metavar="DIR", help="the output folder")
    parser.add_argument("--package", default="pinch", metavar="NAME", help="an entry of packages.toml (default pinch)")
    parser.add_argument("--version", metavar="VERSION", help="the version (default that of Cargo.toml)")
    parser.add_argument("--docs", required=True, metavar="DIR", help="the folder of man pages, completions and licences (default: generated with cargo)")
    parser.add_argument("--apk-key", metavar="FILE", help="sign the .apk with this RSA key; machines need FILE.pub")
    parser.add_argument("--ipk-arch", metavar="NAME", help="OpenWrt's name of the processor (default: from architectures.toml)")
    parser.add_argument("--dynamic", action="store_true", help="allow a dynamically linked binary")
    return parser.parse_args()


def version():
    manifest = tomllib.loads((HERE.parent / "Cargo.toml").read_text())
    return manifest["workspace"]["package"]["version"]


def epoch():
    """Returns SOURCE_DATE_EPOCH, or else the date of the last commit."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given is None:
        log = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=HERE, capture_output=True, text=True)
        given = log.stdout.strip()
    if not given.isdecimal():
        fail("cannot determine the date: SOURCE_DATE_EPOCH is not a number of seconds, or it is not set and there is no git commit")
    os.environ["SOURCE_DATE_EPOCH"] = given
    return int(given)


def fail(text):
    sys.exit(f"packaging/build: {text}")


if __name__ == "__main__":
    main()
