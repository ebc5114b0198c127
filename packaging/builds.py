"""The programs that cross/build has written, and which of them are packaged."""

import dataclasses
import hashlib
import json
import pathlib
import sys

from archives import Failed

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "cross"))
import build as cross


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


def words(text, known, what):
    """Returns the words of a list that is separated by commas or spaces."""
    found = text.replace(",", " ").split()
    unknown = [word for word in found if word not in known]
    if unknown or not found:
        raise Failed(f"unknown {what} {', '.join(unknown) or repr(text)}; known are {', '.join(known)}")
    return found


def selected(targets, builds, binaries):
    """Returns the programs of these targets and builds (None: all) in the folder. Fails if one of them has not been built."""
    sizes = cross.table("sizes")
    triples = {about["name"]: target for target, about in sizes.items()} | {target: target for target in sizes}
    targets = [triples[word] for word in words(targets, triples, "target")] if targets else list(sizes)
    builds = words(builds, cross.FEATURES, "build") if builds else list(cross.FEATURES)
    programs = [Program(target, sizes[target]["name"], build, pathlib.Path(binaries, target, build))
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


def sha256(path):
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
