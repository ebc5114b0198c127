"""Iterators over text."""
import fnmatch
import re


def split(orig, sep=None):
    found = re.compile(r"\s+" if sep is None else re.escape(sep))
    for part in found.split(orig):
        if part or sep is not None:
            yield part


def fnmatch_multiple(candidates, pattern):
    return next((one for one in candidates if fnmatch.fnmatch(one, pattern)), None)


def read_file(fh_, chunk_size=1048576):
    with fh_:
        yield from iter(lambda: fh_.read(chunk_size), type(fh_.read(0))())
