"""The files of packages that cargo makes: man pages, completions, and the licences of the crates in a program."""

import os
import pathlib
import subprocess
import sys

from archives import Failed

HERE = pathlib.Path(__file__).parent
ROOT = HERE.parent


def write_docs(folder):
    """Writes the man pages and completions of all packages to the folder."""
    # The whole workspace, because its libraries are built already where its tests run.
    output(["cargo", "build", "--quiet", "--locked", "--workspace", "--example", "docs"])
    target = pathlib.Path(ROOT, os.environ.get("CARGO_TARGET_DIR", "target"))
    output([str(target / "debug/examples/docs"), str(folder)])


def write_licences(folder, package, target):
    """Writes the licences of the crates in a package's program to the folder."""
    words = [sys.executable, "-B", str(HERE / "licences.py"), package, target]
    (folder / f"{package}.licences").write_text(output(words))


def output(words):
    done = subprocess.run(words, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"cannot write man pages, completions and licences (--docs names a folder with them): {words[0]} failed:\n{done.stderr}")
    return done.stdout
