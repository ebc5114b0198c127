"""licences.py PACKAGE TARGET: the licences of the crates that are linked into a program, with the texts that come with each.

Most of them ask that their text goes with the program. A crate that brings none along must name a licence whose text another one brought.
"""

import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).parent.parent
NAMES = re.compile(r"(?i)(un)?licen[cs]e|copying|copyright|notice")


def main():
    package, target = sys.argv[1:]
    crates = linked(package, target)
    texts = {}
    for crate in crates:
        for text in sorted(own_texts(crate)):
            texts.setdefault(text, []).append(named(crate))
    without = [(named(crate), ", ".join(crate["authors"]) or "its authors") for crate in crates if not own_texts(crate)]
    # What the compiler brings along, and the C library of a static program.
    without.append(("Rust's standard library", "the Rust Project's developers, MIT OR Apache-2.0"))
    if "musl" in target:
        without.append(("musl", "copyright 2005-2020 Rich Felker and others, MIT"))
    print(f"{package} holds code of these crates, under these licences:\n")
    for crate in crates:
        print(f"  {named(crate)}: {crate['license'] or 'as its file says'}")
    print("\nThese bring no text of their own; those of the licences that they name stand below:\n")
    print("\n".join(f"  {name}: {whose}" for name, whose in without))
    for text, holders in texts.items():
        print(f"\n{'-' * 100}\n{', '.join(holders)}\n{'-' * 100}\n\n{text}")


def linked(package, target):
    """The crates of others in a program, without those that only build it: by cargo's word."""
    words = ["cargo", "tree", "--locked", "--prefix=none", "--edges=normal,no-proc-macro", f"--package={package}", f"--target={target}", "--format={p}"]
    tree = run(words)
    found = {tuple(line.split()[:2]) for line in tree.splitlines() if line and "(/" not in line}
    every = json.loads(run(["cargo", "metadata", "--format-version=1", "--locked", f"--filter-platform={target}"]))["packages"]
    crates = [crate for crate in every if (crate["name"], "v" + crate["version"]) in found]
    if len(crates) != len(found) or not crates:
        sys.exit(f"packaging/licences: cargo names {len(found)} crates of {package} and knows {len(crates)}")
    return sorted(crates, key=lambda crate: (crate["name"], crate["version"]))


def own_texts(crate):
    folder = pathlib.Path(crate["manifest_path"]).parent
    places = [*folder.iterdir(), *(folder / "LICENSES").glob("*"), *(folder / "licenses").glob("*")]
    files = [path for path in places if path.is_file() and (NAMES.match(path.name) or path.parent != folder)]
    if crate["license_file"]:
        files.append(folder / crate["license_file"])
    return {path.read_text(errors="replace").strip() for path in files}


def named(crate):
    return f"{crate['name']} {crate['version']}"


def run(words):
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"packaging/licences: {' '.join(words)} failed:\n{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main()
