"""Writes the artifacts of a release to a folder. Started by `release`, which installs the necessary tools.

The same binaries and the same SOURCE_DATE_EPOCH give the same bytes. The folder appears when it is complete, or not at all.
"""

import argparse
import dataclasses
import pathlib
import shutil
import tempfile

import agents
import builds
import formats
import package
import texts
from archives import Failed

EPILOG = """the folder contains:
  NAME-VERSION-TARGET.tar.gz        the program of each build and target, with man pages, completions, licences and services
  NAME-VERSION-TARGET.cdx.json      the SBOM of this program
  *.deb *.rpm *.apk *.ipk *.pkg.tar.zst *.oci.tar   its packages
  pinch-agents…                     packages of the agents of all targets, if there are several
  install.sh                        installs from this folder, or from a URL where its files are
  bytes.toml                        the size of each program
  SHA256SUMS                        the checksum of every other file
  CHANGELOG.md, LICENSE"""
FORMATS = ["tar", "deb", "rpm", "apk", "ipk", "arch", "oci"]
# The build whose install.sh is at the top of the folder. There it only fetches the tarball of a build, and runs the install.sh in that.
FIRST = "pinch"


def main():
    options = arguments()
    folder = pathlib.Path(options.folder).absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise Failed(f"{folder} exists and is not an empty folder; remove it, or name another folder")
    programs = builds.selected(options.targets, options.builds, options.binaries)
    version = options.version or package.version()
    for program in programs:
        builds.check(program, version)
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
    parser.add_argument("--builds", metavar="NAME,…", help=f"builds of cross/build (default: {','.join(builds.cross.FEATURES)}, where a target has them)")
    parser.add_argument("--formats", metavar="NAME,…", help=f"formats of packaging/build (default: {','.join(FORMATS)}); tar is always written")
    parser.add_argument("--binaries", default=str(builds.ROOT / "target/cross"), metavar="DIR", help="the folder of cross/build (default target/cross)")
    parser.add_argument("--version", metavar="VERSION", help="the version (default that of Cargo.toml)")
    parser.add_argument("--docs", metavar="DIR", help="the folder of man pages, completions and licences (default: written with cargo)")
    parser.add_argument("--apk-key", metavar="FILE", help="sign each .apk with this RSA key; machines need FILE.pub")
    parser.add_argument("--dynamic", action="store_true", help="allow dynamically linked binaries")
    return parser.parse_args()


def fill(folder, programs, version, options):
    """Writes the files of the release to an empty folder."""
    chosen = builds.words(options.formats, FORMATS, "format") if options.formats else FORMATS
    carried = {}
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
            write_packages(job, f"{program.build} for {program.name}", chosen)
            if program.build == agents.BUILD and job.static:
                carried[program.name] = agents.files(job, program.name)
            sbom = job.tarball().name.removesuffix(".tar.gz") + ".cdx.json"
            formats.written(folder / sbom, program.sbom().read_bytes())
    if len(carried) > 1:
        write_packages(agents.job_of(carried, folder, options), f"{agents.NAME} for {', '.join(carried)}", chosen)
    script = job_for_script(job).text("install.sh")
    formats.written(folder / "install.sh", script.encode()).chmod(0o755)
    for name in ("CHANGELOG.md", "LICENSE"):
        formats.written(folder / name, (builds.ROOT / name).read_bytes())
    formats.written(folder / "bytes.toml", sizes_text(programs).encode())
    names = sorted(path.name for path in folder.iterdir())
    formats.written(folder / "SHA256SUMS", "".join(f"{builds.sha256(folder / name)}  {name}\n" for name in names).encode())
    for path in folder.iterdir():
        path.chmod(0o755 if path.name == "install.sh" else 0o644)
    formats.dated(folder, job.epoch)


def write_packages(job, what, chosen):
    """Writes the tarball of a job, and its packages in the chosen formats. Fails if a package has the name of another one."""
    names = [name for name in FORMATS if name == "tar" or (name in chosen and name in job.names)]
    print(f"{what}: {', '.join(names)}", flush=True)
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


if __name__ == "__main__":
    package.run("packaging/release", main)
