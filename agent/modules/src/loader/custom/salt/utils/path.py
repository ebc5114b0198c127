"""Paths."""
import os
import shutil

islink, readlink = os.path.islink, os.readlink


def which(exe=None):
    return shutil.which(exe) if exe else None


def which_bin(exes):
    return next((path for path in map(which, exes if isinstance(exes, (list, tuple)) else ()) if path), None)


def join(*parts, **kwargs):
    first, rest = os.path.normpath(parts[0]) if parts else "", [str(part).lstrip("/") for part in parts[1:]]
    return os.path.normpath(os.path.join(first, *rest)) if parts else ""


def os_walk(top, *args, **kwargs):
    return os.walk(top, *args, **kwargs)


def expand(path):
    return os.path.expanduser(os.path.expandvars(path))


def safe_path(path, allow_path=None):
    real = os.path.abspath(os.path.realpath(path))
    allowed = allow_path or os.sep
    return os.path.abspath(real).startswith(allowed) and not os.path.islink(path)


def check_or_die(command):
    from salt.exceptions import CommandNotFoundError

    if not which(command):
        raise CommandNotFoundError("'{}' is not in the path".format(command))
