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
import texts

HERE = pathlib.Path(__file__).parent
EPILOG = """formats:
  deb  rpm  apk (Alpine)  ipk (OpenWrt)  arch (pacman)
  tar      a tarball with install.sh, which needs only busybox
  oci      a container image as a tar file of an OCI image layout
  recipes  APKBUILD, PKGBUILD, an OpenWrt feed Makefile and a Yocto recipe that package the tarball"""


def main():
    options = arguments()
    job = job_of(options.package, options.target, pathlib.Path(options.binary), options)
    job.out = pathlib.Path(options.output).absolute()
    for name in options.format:
        if name not in ("tar", "recipes") and name not in job.names:
            raise archives.Failed(f"cannot write {name}: architectures.toml has no {name} name for {options.target}")
    with tempfile.TemporaryDirectory(prefix="packaging-") as folder:
        job.docs = pathlib.Path(options.docs or folder)
        if not options.docs:
            texts.write_docs(job.docs)
            texts.write_licences(job.docs, job.name, job.target)
        check_docs(job)
        job.out.mkdir(parents=True, exist_ok=True)
        for path in write(job, options.format):
            print(f"{path.stat().st_size:>10}  {path}")


def job_of(package, target, path, options):
    """Returns the job that packages a binary, without its folders. Fails if the package, the target or the binary is not suitable."""
    packages, table = read_table("packages"), read_table("architectures")
    if package not in packages:
        raise archives.Failed(f"unknown package {package}; packages.toml has {', '.join(packages)}")
    names = table.get(target.replace("-gnu", "-musl"))
    if names is None:
        raise archives.Failed(f"unknown target {target}; architectures.toml has {', '.join(table)}")
    binary = path.read_bytes()
    static = archives.is_static(binary, names["elf"], target)
    # packaging/agents has no such option.
    dynamic = getattr(options, "dynamic", None)
    if not static and not dynamic:
        hint = "" if dynamic is None else " (use --dynamic to package it anyway)"
        raise archives.Failed(f"{path} is not statically linked, it needs the C library of the build machine{hint}")
    ipk = getattr(options, "ipk_arch", None)
    return formats.ProgramJob(
        name=package, about=packages[package], version=options.version or version(), target=target, names=names | ({"ipk": ipk} if ipk else {}),
        binary=binary, static=static, docs=None, out=None, epoch=epoch(), apk_key=options.apk_key, here=HERE,
    )


def read_table(name):
    return tomllib.loads((HERE / f"{name}.toml").read_text())


def check_docs(job):
    missing = job.missing_docs()
    if missing:
        names = ", ".join(path.name for path in missing)
        raise archives.Failed(f"cannot package {job.name}: {job.docs} lacks {names}. Without --docs, these files are written with cargo")


def write(job, names):
    """Writes these formats of a job, and yields their files."""
    for name in names:
        with tempfile.TemporaryDirectory(prefix="packaging-") as scratch:
            yield from getattr(formats, name)(job, pathlib.Path(scratch))


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
    parser.add_argument("--docs", metavar="DIR", help="the folder of man pages, completions and licences (default: generated with cargo)")
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
        raise archives.Failed("cannot determine the date: SOURCE_DATE_EPOCH is not a number of seconds, or it is not set and there is no git commit")
    os.environ["SOURCE_DATE_EPOCH"] = given
    return int(given)


def run(program, function):
    """Runs the function. A reason why it failed is one line on stderr, and exit status 1."""
    try:
        function()
    except archives.Failed as error:
        sys.exit(f"{program}: {error}")
    except OSError as error:
        sys.exit(f"{program}: cannot use {error.filename}: {error.strerror}" if error.filename else f"{program}: {error}")


if __name__ == "__main__":
    run("packaging/build", main)
