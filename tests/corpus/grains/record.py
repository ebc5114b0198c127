#!/usr/bin/env python3
"""record.py CASE…: write Salt's answers into the cases of os-release/. Run it with the Python in which Salt is installed.

A case is a text file with a line `== path` before the contents of each file of the machine, and `== grains` before the answer.
"""
import json
import os
import platform
import sys
import tempfile

import distro
import salt.grains.core as core

sys.modules["lsb_release"] = None  # Salt's own package does not contain it


def read(path):
    """Returns the files of a case."""
    files, name = {}, None
    with open(path, encoding="utf-8") as case:
        for line in case:
            if line.startswith("== "):
                name = line[3:].strip()
                files[name] = ""
            else:
                files[name] += line
    files.pop("grains", None)
    return files


def lay_out(root, files):
    """Writes the files below a folder."""
    for name, text in files.items():
        path = os.path.join(root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)


def below(root, path):
    """Returns the path below the folder for a path of the machine in /etc; any other path is unchanged."""
    return os.path.join(root, path.lstrip("/")) if isinstance(path, str) and path.startswith("/etc") else path


def answer(root):
    """Returns the grains that Salt computes from the files below the folder."""
    info = distro.LinuxDistribution(include_lsb=False, include_uname=False, include_oslevel=False, root_dir=root)
    fopen, isfile = core.salt.utils.files.fopen, os.path.isfile
    platform._os_release_candidates = (f"{root}/etc/os-release", f"{root}/usr/lib/os-release")
    platform._os_release_cache = None
    core._linux_distribution = lambda: (info.name(), info.version(best=True), info.codename())
    core.salt.utils.files.fopen = lambda path, *args, **kwargs: fopen(below(root, path), *args, **kwargs)
    os.path.isfile = lambda path: isfile(below(root, path))
    try:
        grains = core._linux_distribution_data()
    finally:
        core.salt.utils.files.fopen, os.path.isfile = fopen, isfile
    if grains.get("osrelease", ""):
        grains.update(core._osrelease_data(grains["os"], grains["osfullname"], grains["osrelease"]))
    return grains


def main(paths):
    for path in paths:
        files = read(path)
        with tempfile.TemporaryDirectory() as root:
            lay_out(root, files)
            grains = answer(root)
        with open(path, "w", encoding="utf-8") as case:
            for name, text in files.items():
                case.write(f"== {name}\n{text}" + ("" if text.endswith("\n") or not text else "\n"))
            case.write("== grains\n" + json.dumps(grains, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


main(sys.argv[1:])
