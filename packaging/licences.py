"""licences.py PACKAGE TARGET: print the licences of the crates that are linked into the program of this package, with their texts.

Most licences require that their text is shipped with the program. A crate without a text must have a licence whose text another crate has.
"""

import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "cross"))
import build

NAMES = re.compile(r"(?i)(un)?licen[cs]e|copying|copyright|notice")


def main():
    package, target = sys.argv[1:]
    if package not in build.FEATURES:
        sys.exit(f"packaging/licences: cross/build has no build {package}; it has {', '.join(build.FEATURES)}")
    about = build.table("sizes").get(target.replace("-gnu", "-musl"), {})
    crates = linked(build.features(about, package), target)
    texts = {}
    for crate in crates:
        for text in sorted(own_texts(crate)):
            texts.setdefault(text, []).append(named(crate))
    without = [(named(crate), ", ".join(crate["authors"]) or "its authors") for crate in crates if not own_texts(crate)]
    # The standard library, and the C library of a static program.
    without.append(("Rust's standard library", "the Rust Project's developers, MIT OR Apache-2.0"))
    if "musl" in target:
        without.append(("musl", "copyright 2005-2020 Rich Felker and others, MIT"))
    print("pinch contains code of these crates, under these licences:\n")
    for crate in crates:
        print(f"  {named(crate)}: {crate['license'] or 'see its licence file'}")
    print("\nThese crates contain no licence text; the texts of their licences are below:\n")
    print("\n".join(f"  {name}: {whose}" for name, whose in without))
    for text, holders in texts.items():
        print(f"\n{'-' * 100}\n{', '.join(holders)}\n{'-' * 100}\n\n{text}")


def linked(features, target):
    """Returns the third-party crates in a program, without build dependencies, according to cargo."""
    words = ["cargo", "tree", "--locked", "--prefix=none", "--edges=normal,no-proc-macro", "--package=pinch", *features, f"--target={target}", "--format={p}"]
    tree = run(words)
    found = {tuple(line.split()[:2]) for line in tree.splitlines() if line and "(/" not in line}
    every = json.loads(run(["cargo", "metadata", "--format-version=1", "--locked", "--manifest-path=agent/Cargo.toml", *features, f"--filter-platform={target}"]))["packages"]
    crates = [crate for crate in every if (crate["name"], "v" + crate["version"]) in found]
    if len(crates) != len(found) or not crates:
        sys.exit(f"packaging/licences: cargo tree lists {len(found)} crates, but cargo metadata has {len(crates)} of them")
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
