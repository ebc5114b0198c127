"""Files."""
import contextlib
import fcntl
import os
import re
import shutil
import stat
import tempfile

TEMPFILE_PREFIX = "__salt.tmp."


def fopen(*args, **kwargs):
    mode = args[1] if len(args) > 1 else kwargs.get("mode", "r")
    if "b" not in mode:
        kwargs.setdefault("encoding", "utf-8")
    return open(*args, **kwargs)


@contextlib.contextmanager
def flopen(*args, **kwargs):
    with fopen(*args, **kwargs) as file:
        fcntl.flock(file.fileno(), fcntl.LOCK_SH if kwargs.get("mode", "r") == "r" else fcntl.LOCK_EX)
        yield file


@contextlib.contextmanager
def fpopen(*args, **kwargs):
    uid, gid, mode = (kwargs.pop(key, None) for key in ("uid", "gid", "mode"))
    with fopen(*args, **kwargs) as file:
        if uid is not None or gid is not None:
            os.chown(args[0], -1 if uid is None else uid, -1 if gid is None else gid)
        if mode is not None:
            os.chmod(args[0], mode)
        yield file


def mkstemp(*args, **kwargs):
    kwargs.setdefault("prefix", TEMPFILE_PREFIX)
    close = kwargs.pop("close_fd", True)
    file, path = tempfile.mkstemp(*args, **kwargs)
    if not close:
        return file, path
    os.close(file)
    return path


def remove(path):
    try:
        os.remove(path)
    except FileNotFoundError:
        pass


safe_rm = remove


def rename(src, dst):
    os.replace(src, dst)


def rm_rf(path):
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.remove(path)


def copyfile(source, dest, backup_mode="", cachedir=""):
    temporary = mkstemp(prefix=os.path.basename(dest), dir=os.path.dirname(dest))
    shutil.copyfile(source, temporary)
    with contextlib.suppress(OSError):
        old = os.stat(dest)
        os.chown(temporary, old.st_uid, old.st_gid)
        os.chmod(temporary, old.st_mode)
    os.replace(temporary, dest)


def recursive_copy(source, dest):
    for root, _, names in os.walk(source):
        target = os.path.join(dest, os.path.relpath(root, source))
        os.makedirs(target, exist_ok=True)
        for name in names:
            shutil.copyfile(os.path.join(root, name), os.path.join(target, name))


def get_umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextlib.contextmanager
def set_umask(mask):
    old = os.umask(mask) if mask is not None else None
    try:
        yield
    finally:
        if old is not None:
            os.umask(old)


def is_empty(filename):
    try:
        return os.stat(filename).st_size == 0
    except OSError:
        return False


def is_text(fp_, blocksize=512):
    try:
        with open(fp_, "rb") if isinstance(fp_, str) else fp_ as file:
            block = file.read(blocksize)
        return b"\x00" not in block and (block.decode("utf-8", "ignore") or not block) is not False
    except OSError:
        return False


def is_binary(path):
    return os.path.isfile(path) and not is_text(path)


def list_files(directory):
    found = {directory}
    for root, dirs, names in os.walk(directory):
        found.update(os.path.join(root, name) for name in dirs + names)
    return list(found)


def st_mode_to_octal(mode):
    return oct(stat.S_IMODE(mode)).replace("0o", "0")


def normalize_mode(mode):
    if mode is None:
        return None
    mode = str(mode).replace("0o", "0").strip('"').strip("'").lstrip("0")
    return "0" + mode if len(mode) == 4 or mode else "0"


def human_size_to_bytes(human_size):
    found = re.match(r"^(\d+)([KMGTPEZY]?)B?$", str(human_size).upper())
    return int(found.group(1)) * 1024 ** " KMGTPEZY".index(found.group(2) or " ") if found else 0
