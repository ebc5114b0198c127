"""Writes the artifacts of a release to a folder. Started by `release`, which installs the necessary tools.

The same binaries and the same SOURCE_DATE_EPOCH give the same bytes. The folder appears when it is complete, or not at all.
"""

import argparse
import dataclasses
import hashlib
import json
import os
import pathlib
import shutil
import sys
import tempfile

import formats
import package
import texts
from archives import Failed

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(ROOT / "cross"))
import build as cross

EPILOG = """the folder contains:
  NAME-VERSION-TARGET.tar.gz        the program of each build and target, with man pages, completions, licences and services
  NAME-VERSION-TARGET.cdx.json      the SBOM of this program
  *.deb *.rpm *.apk *.ipk *.pkg.tar.zst *.oci.tar   its packages
  install.sh                        installs from this folder, or from a URL where its files are
  bytes.toml                        the size of each program
  SHA256SUMS                        the checksum of every other file
  CHANGELOG.md, LICENSE"""
FORMATS = ["tar", "deb", "rpm", "apk", "ipk", "arch", "oci"]
# The build whose install.sh is at the top of the folder. There it only fetches the tarball of a build, and runs the install.sh in that.
FIRST = "pinch"


@dataclasses.dataclass
class Program:
    """A build of the program for a target, with the files that cross/build writes next to it."""
    target: str
    name: str
    build: str
    path: pathlib.Path

    def checksum(self):
        return self.path.with_name(f"{self.build}.sha256")

    def sbom(self):
        return self.path.with_name(f"{self.build}.cdx.json")

    def missing(self):
        """Returns the missing binary, or the missing files next to it."""
        if not self.path.is_file():
            return [self.path]
        return [path for path in (self.checksum(), self.sbom()) if not path.is_file()]


def main():
    options = arguments()
    folder = pathlib.Path(options.folder).absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Failed(f"{folder} exists and is not an empty folder; remove it, or name another folder")
    programs = selected(options)
    version = options.version or package.version()
    for program in programs:
        check(program, version)
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = pathlib.Path(tempfile.mkdtemp(prefix=f"{folder.name}.", suffix=".new", dir=folder.parent))
    try:
        fill(unfinished, programs, version, options)
        unfinished.chmod(0o755)
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    print(f"{folder}: {len(list(folder.iterdir()))} files of pinch {version} for {len({program.target for program in programs})} targets")


def arguments():
    parser = argparse.ArgumentParser(
        prog="packaging/release", description="Write every artifact of a release to a new folder.",
        epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="DIR", help="the output folder; it must not exist, or be empty")
    parser.add_argument("--targets", metavar="NAME,…", help="names or triples of cross/sizes.toml (default: all)")
    parser.add_argument("--builds", metavar="NAME,…", help=f"builds of cross/build (default: {','.join(cross.FEATURES)}, where a target has them)")
    parser.add_argument("--formats", metavar="NAME,…", help=f"formats of packaging/build (default: {','.join(FORMATS)}); tar is always written")
    parser.add_argument("--binaries", default=str(ROOT / "target/cross"), metavar="DIR", help="the folder of cross/build (default target/cross)")
    parser.add_argument("--version", metavar="VERSION", help="the version (default that of Cargo.toml)")
    parser.add_argument("--docs", metavar="DIR", help="the folder of man pages, completions and licences (default: written with cargo)")
    parser.add_argument("--apk-key", metavar="FILE", help="sign each .apk with this RSA key; machines need FILE.pub")
    parser.add_argument("--dynamic", action="store_true", help="allow dynamically linked binaries")
    return parser.parse_args()


def words(text, known, what):
    """Returns the words of a list that is separated by commas or spaces."""
    found = text.replace(",", " ").split()
    unknown = [word for word in found if word not in known]
    if unknown or not found:
        raise Failed(f"unknown {what} {', '.join(unknown) or repr(text)}; known are {', '.join(known)}")
    return found


def selected(options):
    """Returns the programs of the release. Fails if one of them has not been built."""
    sizes = cross.table("sizes")
    triples = {about["name"]: target for target, about in sizes.items()} | {target: target for target in sizes}
    targets = [triples[word] for word in words(options.targets, triples, "target")] if options.targets else list(sizes)
    builds = words(options.builds, cross.FEATURES, "build") if options.builds else list(cross.FEATURES)
    binaries = pathlib.Path(options.binaries)
    programs = [Program(target, sizes[target]["name"], build, binaries / target / build)
                for target in dict.fromkeys(targets) for build in builds if build in sizes[target]]
    if not programs:
        raise Failed(f"none of the targets {', '.join(targets)} has a build {', '.join(builds)}; see cross/sizes.toml")
    missing = [path for program in programs for path in program.missing()]
    if missing:
        names = dict.fromkeys(program.name for program in programs if program.missing())
        lines = "".join(f"\n  {path}" for path in missing)
        raise Failed(f"these files are missing; `cross/build {' '.join(names)}` writes them:{lines}")
    return programs


def check(program, version):
    """Fails if the checksum or the SBOM is not that of this program."""
    again = f"build it again with `cross/build {program.name}`"
    if program.checksum().read_text().split()[:1] != [sha256(program.path)]:
        raise Failed(f"{program.path} does not have the checksum in {program.checksum().name}; {again}")
    try:
        metadata = json.loads(program.sbom().read_text())["metadata"]
        target = [one["value"] for one in metadata["properties"] if one["name"] == "target"]
        found = metadata["component"]["version"]
    except (ValueError, KeyError, TypeError) as error:
        raise Failed(f"{program.sbom()} is not an SBOM of cross/build ({error!r}); {again}") from error
    if found != version or target != [program.target]:
        raise Failed(f"{program.sbom()} describes version {found} for {', '.join(target)}, not {version} for {program.target}; {again}")


def fill(folder, programs, version, options):
    """Writes the files of the release to an empty folder."""
    chosen = words(options.formats, FORMATS, "format") if options.formats else FORMATS
    with tempfile.TemporaryDirectory(prefix="release-") as scratch:
        docs = pathlib.Path(options.docs or scratch)
        if not options.docs:
            texts.write_docs(docs)
        for program in programs:
            if not options.docs:
                texts.write_licences(docs, program.build, program.target)
            job = package.job_of(program.build, program.target, program.path, options)
            job.docs, job.out = docs, folder
            package.check_docs(job)
            formats_here = [name for name in FORMATS if name == "tar" or (name in chosen and name in job.names)]
            print(f"{program.build} for {program.name}: {', '.join(formats_here)}", flush=True)
            write_packages(job, formats_here)
            sbom = job.tarball().name.removesuffix(".tar.gz") + ".cdx.json"
            formats.written(folder / sbom, program.sbom().read_bytes())
    script = job_for_script(job).text("install.sh")
    formats.written(folder / "install.sh", script.encode()).chmod(0o755)
    for name in ("CHANGELOG.md", "LICENSE"):
        formats.written(folder / name, (ROOT / name).read_bytes())
    formats.written(folder / "bytes.toml", sizes_text(programs).encode())
    names = sorted(path.name for path in folder.iterdir())
    formats.written(folder / "SHA256SUMS", "".join(f"{sha256(folder / name)}  {name}\n" for name in names).encode())
    for path in folder.iterdir():
        path.chmod(0o755 if path.name == "install.sh" else 0o644)
    formats.dated(folder, job.epoch)


def write_packages(job, names):
    """Writes the packages of a job. Fails if a package has the name of another one."""
    with tempfile.TemporaryDirectory(prefix="packages-") as scratch:
        out, job.out = job.out, pathlib.Path(scratch)
        for path in package.write(job, names):
            if (out / path.name).exists():
                raise Failed(f"two packages have the name {path.name}; give one target a `deb_file` in architectures.toml")
            shutil.copyfile(path, out / path.name)
        job.out = out


def job_for_script(job):
    return dataclasses.replace(job, name=FIRST, target="", about=package.read_table("packages")[FIRST])


def sizes_text(programs):
    lines = ["# The size of each program in bytes, without its man pages and licences."]
    for target in dict.fromkeys(program.target for program in programs):
        lines += ["", f"[{target}]"]
        lines += [f"{program.build} = {program.path.stat().st_size}" for program in programs if program.target == target]
    return "\n".join(lines) + "\n"


def sha256(path):
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    package.run("packaging/release", main)
