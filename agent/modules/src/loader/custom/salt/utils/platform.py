"""Checks of the kind of this machine."""
import platform
import sys


def _no():
    return False


def is_linux():
    return sys.platform.startswith("linux")


def is_fedora():
    return _id() == "fedora"


def is_photonos():
    return _id() == "photon"


def is_aarch64():
    return platform.machine() == "aarch64"


def _id():
    try:
        with open("/etc/os-release") as file:
            lines = dict(line.strip().split("=", 1) for line in file if "=" in line)
        return lines.get("ID", "").strip('"')
    except OSError:
        return ""


is_windows = is_proxy = is_darwin = is_sunos = is_smartos = is_smartos_globalzone = is_smartos_zone = _no
is_junos = is_freebsd = is_netbsd = is_openbsd = is_aix = _no
