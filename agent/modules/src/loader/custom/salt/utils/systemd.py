"""systemd."""
import os
import subprocess


def booted(context=None):
    return os.path.isdir("/run/systemd/system")


def version(context=None):
    try:
        words = subprocess.run(["systemctl", "--version"], stdout=subprocess.PIPE, check=True).stdout.split()
        return int(words[1])
    except (OSError, subprocess.SubprocessError, IndexError, ValueError):
        return None


def has_scope(context=None):
    return booted(context) and (version(context) or 0) >= 205


def offline(context=None):
    return bool(os.environ.get("SYSTEMD_OFFLINE", "")) or not booted(context)


def pid_to_service(pid):
    try:
        with open("/proc/{}/cgroup".format(pid)) as file:
            units = [part for line in file for part in line.strip().split("/") if part.endswith(".service")]
        return units[-1][: -len(".service")] if units else None
    except OSError:
        return None
