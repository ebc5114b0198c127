"""The files of a package, and reproducible archives of them."""

import dataclasses
import gzip
import hashlib
import io
import struct
import tarfile


class Failed(Exception):
    """A reason why nothing can be packaged, for the user."""


@dataclasses.dataclass
class Entry:
    """A file with `data`, a link to `link`, or a folder."""
    path: str
    data: bytes | None = None
    link: str | None = None
    mode: int = 0o644


def with_folders(entries):
    """Returns the entries sorted, with their parent folders before them."""
    found = {entry.path: entry for entry in entries}
    for entry in entries:
        parts = entry.path.split("/")
        for end in range(1, len(parts)):
            above = "/".join(parts[:end])
            found.setdefault(above, Entry(above, mode=0o755))
    return [found[path] for path in sorted(found)]


def tar(entries, epoch, kind=tarfile.GNU_FORMAT, prefix="", hashes=False, end=True):
    """Returns a tar archive. `hashes` adds apk's checksum of each file; without `end`, the two empty blocks at the end are omitted."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=kind) as archive:
        for entry in entries:
            info = tarfile.TarInfo(prefix + entry.path)
            info.mtime, info.mode = epoch, entry.mode
            content = entry.data
            if entry.link is not None:
                info.type, info.linkname, info.mode = tarfile.SYMTYPE, entry.link, 0o777
                content = entry.link.encode()
            elif entry.data is None:
                info.type = tarfile.DIRTYPE
            else:
                info.size = len(entry.data)
            if kind != tarfile.PAX_FORMAT:
                info.uname = info.gname = ""
            else:
                info.uname = info.gname = "root"
            if hashes and content is not None:
                info.pax_headers = {"APK-TOOLS.checksum.SHA1": hashlib.sha1(content).hexdigest()}
            archive.addfile(info, io.BytesIO(entry.data or b""))
        length = archive.offset
    # tarfile pads the archive to records of 20 blocks, but two empty blocks are enough as the end.
    return out.getvalue()[:length + (1024 if end else 0)]


def gz(data):
    return gzip.compress(data, 9, mtime=0)


def is_static(binary, expected, target):
    """Returns true if the program has no interpreter. Fails if it was built for another target."""
    if binary[:4] != b"\x7fELF" or len(binary) < 64:
        raise Failed("the binary is not an ELF file")
    size, order = binary[4], binary[5]
    byte_order = "<" if order == 1 else ">"
    machine = struct.unpack_from(byte_order + "H", binary, 18)[0]
    if [size, order, machine] != expected:
        raise Failed(f"the ELF header (class, byte order, machine) of the binary is {[size, order, machine]}, but {target} needs {expected}")
    if size == 2:
        start, width, count = (struct.unpack_from(byte_order + kind, binary, at)[0] for kind, at in (("Q", 32), ("H", 54), ("H", 56)))
    else:
        start, width, count = (struct.unpack_from(byte_order + kind, binary, at)[0] for kind, at in (("I", 28), ("H", 42), ("H", 44)))
    if start + count * width > len(binary):
        raise Failed("the binary is truncated: its program headers are missing")
    interpreter = 3
    return all(struct.unpack_from(byte_order + "I", binary, start + at * width)[0] != interpreter for at in range(count))
