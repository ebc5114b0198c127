#!/usr/bin/env python3
"""packages.py apk|ipk FILE [KEY.pub]: check every byte of a package against the description of its format, and list the files that it installs.

Debian has neither apk nor opkg. This code was written from these descriptions, and shares no code with the program that writes packages:
  apk  "apk v2" in apk-tools' doc/apk-v2.5.scd, the fields in doc/apk-package.5.scd; how streams and checksums are made in abuild's
       create_apks and abuild-tar.c, how they are read in apk-tools' src/extract_v2.c (https://gitlab.alpinelinux.org/alpine)
  ipk  OpenWrt's scripts/ipkg-build (https://git.openwrt.org/openwrt/openwrt.git)
"""
import hashlib
import re
import subprocess
import sys
import tempfile
import zlib


def streams(data):
    """Yields each gzip stream of the file, packed and unpacked (RFC 1952)."""
    while data:
        assert data[:4] == b"\x1f\x8b\x08\x00", "a gzip stream without name or comment"
        assert data[4:8] == bytes(4), "and without a time"
        unpack = zlib.decompressobj(31)
        text = unpack.decompress(data)
        assert unpack.eof, "a stream that ends"
        yield data[:len(data) - len(unpack.unused_data)], text
        data = unpack.unused_data


def blocks(tar, ends):
    """Yields name, kind, mode, date, link, extended header and content of each file of a tar archive (POSIX ustar, in octal)."""
    at, extended = 0, {}
    while at < len(tar) and tar[at]:
        header = tar[at:at + 512]
        number = lambda start, end: int(header[start:end].rstrip(b"\0 ") or b"0", 8)
        text = lambda start, end: header[start:end].split(b"\0")[0].decode()
        total = sum(header[:148]) + 8 * 32 + sum(header[156:])
        assert number(148, 156) == total, "the sum over the header"
        assert header[257:262] == b"ustar"
        assert (number(108, 116), number(116, 124)) == (0, 0), "owned by root"
        size, kind = number(124, 136), chr(header[156])
        content = tar[at + 512:at + 512 + size]
        fill = -size % 512
        assert tar[at + 512 + size:at + 512 + size + fill] == bytes(fill)
        at += 512 + size + fill
        if kind == "x":
            while content:
                length = int(content.split(b" ")[0])
                key, value = content[:length].split(b" ", 1)[1].rstrip(b"\n").split(b"=", 1)
                extended[key.decode()] = value.decode()
                content = content[length:]
            continue
        name = (text(345, 500) + "/" if text(345, 500) and header[257:263] == b"ustar\0" else "") + text(0, 100)
        yield name, kind, number(100, 108), number(136, 148), text(157, 257), extended, content
        extended = {}
    assert tar[at:] == bytes(1024 if ends else 0), "two empty blocks at the end" if ends else "no empty blocks at the end"


def folders_first(names):
    """Checks that every folder precedes its contents."""
    seen = {"", "."}
    for name in names:
        name = name.rstrip("/")
        above = name.rpartition("/")[0]
        assert above in seen, f"{above} of {name}"
        seen.add(name)


def apk(data, key):
    parts = list(streams(data))
    if key:
        (_, first), parts = parts[0], parts[1:]
        ((name, kind, mode, _, _, _, signature),) = blocks(first, ends=False)
        assert (name, kind, mode) == (".SIGN.RSA." + key.rpartition("/")[2], "0", 0o644)
        with tempfile.NamedTemporaryFile() as file:
            file.write(signature)
            file.flush()
            verify = ["openssl", "dgst", "-sha1", "-verify", key, "-signature", file.name]
            subprocess.run(verify, input=parts[0][0], check=True, stdout=subprocess.DEVNULL)
    (_, control), (packed, tree) = parts
    control = list(blocks(control, ends=False))
    # A package without links needs no script.
    scripts = control[1:]
    assert control[0][0] == ".PKGINFO" and [entry[0] for entry in scripts] in ([".pre-deinstall"], [])
    assert all(entry[2] == 0o755 and entry[6].startswith(b"#!/bin/sh\n") for entry in scripts)
    lines = [line.split(" = ", 1) for line in control[0][6].decode().splitlines() if not line.startswith("#")]
    info = dict(lines)
    assert len(info) == len(lines)
    assert info["datahash"] == hashlib.sha256(packed).hexdigest(), "the hash of the packed data"
    assert re.fullmatch(r"[a-zA-Z0-9][a-zA-Z0-9._+-]*", info["pkgname"])
    assert re.fullmatch(r"\d+(\.\d+)*(_(alpha|beta|pre|rc|cvs|svn|git|hg|p)\d*)*-r\d+", info["pkgver"])
    # abuild writes these fields, and the script needs a shell.
    assert set(info) >= {"pkgname", "pkgver", "pkgdesc", "arch", "size", "builddate", "packager", "origin", "license"}
    assert info.get("depend") == ("/bin/sh" if scripts else None)
    files = list(blocks(tree, ends=True))
    folders_first(entry[0] for entry in files)
    size = 0
    for name, kind, _, date, _, extended, content in files:
        assert not name.startswith((".", "/")), name
        assert date == int(info["builddate"])
        if kind == "0":
            size += len(content)
            assert extended == {"APK-TOOLS.checksum.SHA1": hashlib.sha1(content).hexdigest()}, name
        else:
            assert kind == "5" and not extended, name
    assert size == int(info["size"])
    return info, files


def ipk(data, _key):
    ((_, outer),) = streams(data)
    outer = {name: content for name, kind, _, _, _, _, content in blocks(outer, ends=True) if kind == "0"}
    assert list(outer) == ["./debian-binary", "./data.tar.gz", "./control.tar.gz"]
    assert outer["./debian-binary"] == b"2.0\n"
    ((_, tree),) = streams(outer["./data.tar.gz"])
    ((_, control),) = streams(outer["./control.tar.gz"])
    control = {entry[0]: entry for entry in blocks(control, ends=True)}
    assert list(control) in (["./", "./control", "./prerm"], ["./", "./control"])
    assert "./prerm" not in control or control["./prerm"][2] == 0o755
    text = control["./control"][6].decode()
    assert text.endswith("\n") and "\n\n" not in text
    info = dict(re.findall(r"(?m)^(\S+): (.*)$", text))
    assert not re.search(r"[^a-zA-Z0-9_.+-]", info["Package"])
    assert set(info) >= {"Package", "Version", "Architecture", "Maintainer", "Section", "Description", "Installed-Size"}
    assert int(info["Installed-Size"]) == len(tree), "the unpacked data"
    files = list(blocks(tree, ends=True))
    folders_first(entry[0] for entry in files)
    assert all(entry[0].startswith("./") and not entry[5] for entry in files)
    return info, files


def main():
    kind, path, *key = sys.argv[1:]
    with open(path, "rb") as file:
        info, files = {"apk": apk, "ipk": ipk}[kind](file.read(), key[0] if key else None)
    for key in ("pkgname", "pkgver", "arch", "Package", "Version", "Architecture"):
        if key in info:
            print(info[key])
    for name, kind, mode, _, link, _, content in files:
        if kind != "5":
            print(f"{mode:o} {name.removeprefix('./')} {hashlib.sha256(content).hexdigest()}")


main()
