"""The names of `six` that modules for older versions of Salt use; Salt 3008 no longer has it."""
import builtins
import http.client
import io
import sys
import types
import urllib.parse

PY2, PY3 = False, True
string_types, text_type, binary_type, integer_types, class_types = (str,), str, bytes, (int,), (type,)
StringIO, BytesIO = io.StringIO, io.BytesIO
iteritems = viewitems = lambda mapping, **_: mapping.items()  # noqa: E731
iterkeys = viewkeys = lambda mapping, **_: mapping.keys()  # noqa: E731
itervalues = viewvalues = lambda mapping, **_: mapping.values()  # noqa: E731


def add_metaclass(metaclass):
    def made(cls):
        space = {key: value for key, value in cls.__dict__.items() if key not in ("__dict__", "__weakref__")}
        return metaclass(cls.__name__, cls.__bases__, space)

    return made


def reraise(kind, value, trace=None):
    raise value.with_traceback(trace)


def ensure_str(text, encoding="utf-8", errors="strict"):
    return text.decode(encoding, errors) if isinstance(text, bytes) else text


ensure_text = ensure_str
moves = types.ModuleType(__name__ + ".moves")
moves.__path__ = []
for _name in ("range", "map", "filter", "zip", "input"):
    setattr(moves, _name, getattr(builtins, _name))
moves.urllib, moves.http_client = urllib, http.client
moves.cStringIO = moves.StringIO = io.StringIO
sys.modules.update({
    moves.__name__: moves,
    moves.__name__ + ".urllib": urllib,
    moves.__name__ + ".urllib.parse": urllib.parse,
    moves.__name__ + ".http_client": http.client,
})
