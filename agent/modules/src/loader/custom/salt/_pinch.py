"""The connection to the program: in a run the program itself (the host sets `ask`), otherwise a child process that answers lines of JSON."""
import collections.abc
import json
import os
import subprocess
import threading

ask = None
path = None
_lock = threading.RLock()
_child = None
MARKS = {
    "__bytes__": lambda text: text.encode("latin-1"),
    "__pairs__": dict,
    "__tuple__": tuple,
    "__set__": set,
}


def plain(value):
    """Returns a value with JSON's types. Other types become a dictionary with one marked key."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else str(value)
    if isinstance(value, (bytes, bytearray)):
        return {"__bytes__": bytes(value).decode("latin-1")}
    if isinstance(value, collections.abc.Mapping):
        if all(isinstance(key, str) for key in value) and not marked(value):
            return {key: plain(value[key]) for key in value}
        return {"__pairs__": [[plain(key), plain(value[key])] for key in value]}
    if isinstance(value, tuple):
        return {"__tuple__": [plain(item) for item in value]}
    if isinstance(value, (set, frozenset)):
        return {"__set__": [plain(item) for item in value]}
    if isinstance(value, collections.abc.Iterable):
        return [plain(item) for item in value]
    return str(value)


def marked(mapping):
    return len(mapping) == 1 and next(iter(mapping)) in MARKS


def thing(mapping):
    """Reverses plain() for one dictionary that was read."""
    if marked(mapping):
        key, value = next(iter(mapping.items()))
        return MARKS[key](value)
    return mapping


def call(fun, *args, **kwargs):
    """Calls an execution function."""
    return request({"call": fun, "args": list(args), "kwargs": kwargs})


def request(message):
    """Sends a request to the program. Raises the error that the program reports."""
    if ask and "output" not in message and message.get("role") != "master":
        return ask(message)
    return reply(_from_child(message)).get("return")


def exception(kind, text):
    """Returns an exception of Salt by its name."""
    import salt.exceptions as known

    found = getattr(known, kind or "", None)
    if not (isinstance(found, type) and issubclass(found, Exception)):
        found = known.CommandExecutionError
    return found(text)


def program():
    """Returns the path of the program: the one in PINCH, or else the one that installed this package."""
    if path or os.environ.get("PINCH"):
        return path or os.environ["PINCH"]
    with open(os.path.join(os.path.dirname(__file__), "_program")) as file:
        return file.read().strip()


def start():
    return subprocess.Popen([program(), "answer"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def reply(line):
    """Reads a reply. Raises the error that the program reports."""
    message = json.loads(line.decode(), object_hook=thing)
    if "error" in message:
        raise exception(message["error"].get("type"), message["error"].get("text", ""))
    return message


def _from_child(message):
    global _child
    with _lock:
        if _child is None or _child.poll() is not None:
            _child = start()
        _child.stdin.write(json.dumps(plain(message)).encode() + b"\n")
        _child.stdin.flush()
        line = _child.stdout.readline()
        if not line:
            raise exception(None, "%s ended without a reply" % program())
        return line
