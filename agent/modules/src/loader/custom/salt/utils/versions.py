"""Versions."""
import functools
import re
import warnings


@functools.total_ordering
class LooseVersion:
    def __init__(self, vstring=None):
        self.vstring = str(vstring or "")
        parts = [part for part in re.split(r"(\d+|[a-z]+|\.)", self.vstring) if part and part != "."]
        self.version = [int(part) if part.isdigit() else part for part in parts]

    def _key(self):
        return [(isinstance(part, str), part) for part in self.version]

    def __eq__(self, other):
        return self._key() == _of(other)._key()

    def __lt__(self, other):
        return self._key() < _of(other)._key()

    def __str__(self):
        return self.vstring

    def __repr__(self):
        return "LooseVersion ('{}')".format(self.vstring)

    def __hash__(self):
        return hash(self.vstring)


def _of(version):
    return version if isinstance(version, LooseVersion) else LooseVersion(version)


Version = StrictVersion = parse = LooseVersion


def version_cmp(pkg1, pkg2, ignore_epoch=False):
    if ignore_epoch:
        pkg1, pkg2 = str(pkg1).split(":")[-1], str(pkg2).split(":")[-1]
    one, other = LooseVersion(pkg1), LooseVersion(pkg2)
    return (one > other) - (one < other)


def compare(ver1="", oper="==", ver2="", cmp_func=None, ignore_epoch=False):
    found = (cmp_func or version_cmp)(ver1, ver2) if cmp_func else version_cmp(ver1, ver2, ignore_epoch)
    holds = {"<": found < 0, "<=": found <= 0, "==": found == 0, "!=": found != 0, ">=": found >= 0, ">": found > 0}
    return found is not None and holds.get(oper, False)


def warn_until(version, message, category=DeprecationWarning, stacklevel=None, **kwargs):
    warnings.warn(message.format(version=version), category, stacklevel=stacklevel or 2)


def kwargs_warn_until(kwargs, version, **_):
    if kwargs:
        warn_until(version, "Unknown arguments: " + ", ".join(kwargs))
