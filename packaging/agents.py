"""Writes packages of the agents of all targets, which `salt-ssh` copies to hosts. Started by `agents`, which installs the necessary tools.

The packages are for every architecture, because other machines run the programs in them.
"""

import argparse
import dataclasses
import pathlib
import tempfile

import builds
import formats
import package
import texts
from archives import Entry, gz

NAME = "pinch-agents"
# The build that is the agent.
BUILD = "pinch"
ABOUT = {
    "summary": "Programs that salt-ssh copies to hosts of other processors",
    "description": [
        "Contains the static program of the package pinch for each processor for which",
        "it is built. salt-ssh copies the one of a host's processor there, so that hosts",
        "of any of these processors need only sshd and a shell.",
    ],
    "applets": [],
    "roles": [],
}
# The name of "every architecture" in each format.
NAMES = {"deb": "all", "rpm": "noarch", "apk": "noarch", "ipk": "all", "arch": "any"}
FOLDER = f"share/{formats.PROGRAM}/agents"
EPILOG = f"""the packages contain /usr/{FOLDER}/NAME/{formats.PROGRAM} for each NAME of cross/sizes.toml.
formats:
  deb  rpm  apk (Alpine)  ipk (OpenWrt)  arch (pacman)
  tar      a tarball: tar -xzf FILE -C /usr --strip-components=1"""


@dataclasses.dataclass
class AgentsJob(formats.Job):
    """The package of the agents."""
    # The programs and licences, with paths below /usr.
    agents: list[Entry]
    place = f"usr/{FOLDER}/*"

    def programs(self, prefix="usr/"):
        """Returns the programs, and the licences of the crates in them."""
        return [dataclasses.replace(entry, path=prefix + entry.path) for entry in self.agents]

    def documents(self, **_):
        """Returns no man pages and completions, because users do not start the programs."""
        return []

    def unpacked(self):
        """Returns the licence. A tarball of the agents needs no install.sh."""
        return [Entry(f"share/licenses/{self.name}/LICENSE", self.license())]

    def recipes(self):
        """Returns the recipe that packages the tarball, for makepkg."""
        return {"PKGBUILD.agents": f"arch/{self.name}/PKGBUILD"}


def main():
    options = arguments()
    programs = builds.selected(options.targets, BUILD, options.binaries)
    version = options.version or package.version()
    for program in programs:
        builds.check(program, version)
    out = pathlib.Path(options.output).absolute()
    job = job_of(read(programs, options), out, options)
    out.mkdir(parents=True, exist_ok=True)
    for path in package.write(job, options.format):
        print(f"{path.stat().st_size:>10}  {path}")


def read(programs, options):
    """Returns the files of each agent by its name."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="packaging-") as folder:
        for program in programs:
            job = package.job_of(program.build, program.target, program.path, options)
            job.docs = pathlib.Path(options.docs or folder)
            if not options.docs:
                texts.write_licences(job.docs, program.build, program.target)
            found[program.name] = files(job, program.name)
    return found


def files(job, name):
    """Returns the program of a job as the agent of this name, and the licences of the crates in it."""
    return [Entry(f"{FOLDER}/{name}/{formats.PROGRAM}", job.binary, mode=0o755),
            Entry(f"share/licenses/{NAME}/{name}/THIRD-PARTY.gz", gz(job.licences().read_bytes()))]


def job_of(found, out, options):
    """Returns the job that packages the files of the agents."""
    return AgentsJob(
        name=NAME, about=ABOUT, version=options.version or package.version(), target="all", names=NAMES, static=True, out=out,
        epoch=package.epoch(), apk_key=options.apk_key, here=package.HERE, agents=[entry for entries in found.values() for entry in entries],
    )


def arguments():
    parser = argparse.ArgumentParser(
        prog="packaging/agents", description="Write packages of the agents of all targets, which salt-ssh copies to hosts.",
        epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("format", nargs="+", choices=[*NAMES, "tar"], metavar="FORMAT")
    parser.add_argument("-o", "--output", required=True, metavar="DIR", help="the output folder")
    parser.add_argument("--binaries", default=str(builds.ROOT / "target/cross"), metavar="DIR", help="the folder of cross/build (default target/cross)")
    parser.add_argument("--targets", metavar="NAME,…", help="names or triples of cross/sizes.toml (default: all)")
    parser.add_argument("--version", metavar="VERSION", help="the version (default that of Cargo.toml)")
    parser.add_argument("--docs", metavar="DIR", help=f"the folder of {BUILD}.licences, for all targets (default: the licences of each target, written with cargo)")
    parser.add_argument("--apk-key", metavar="FILE", help="sign the .apk with this RSA key; machines need FILE.pub")
    return parser.parse_args()


if __name__ == "__main__":
    package.run("packaging/agents", main)
