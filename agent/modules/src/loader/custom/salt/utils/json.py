"""JSON."""
import json
from json import *  # noqa: F401,F403


def import_json():
    return json


def _args(kwargs):
    kwargs.pop("_json_module", None)
    return kwargs


def load(fp, **kwargs):
    return loads(fp.read(), **_args(kwargs))


def loads(s, **kwargs):
    return json.loads(s.decode("utf-8") if isinstance(s, bytes) else s, **_args(kwargs))


def dumps(obj, **kwargs):
    kwargs.setdefault("ensure_ascii", False)
    return json.dumps(obj, **_args(kwargs))


def dump(obj, fp, **kwargs):
    fp.write(dumps(obj, **kwargs))


def find_json(raw):
    for at, char in enumerate(raw):
        if char in "{[":
            try:
                return json.JSONDecoder().raw_decode(raw[at:])[0]
            except ValueError:
                pass
    raise ValueError
