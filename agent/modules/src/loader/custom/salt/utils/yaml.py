"""YAML, read and written by the program."""
from salt import _pinch
from salt.exceptions import SaltException


class YAMLError(SaltException):
    pass


def _asked(fun, *args, **kwargs):
    try:
        return _pinch.call(fun, *args, **kwargs)
    except SaltException as error:
        raise YAMLError(str(error))


def load(stream, Loader=None):
    text = stream.read() if hasattr(stream, "read") else stream
    text = text.decode("utf-8") if isinstance(text, bytes) else text
    return _asked("slsutil.deserialize", "yaml", text) if text.strip() else None


safe_load = load


def dump(data, stream=None, **kwargs):
    kwargs.pop("Dumper", None)
    text = _asked("slsutil.serialize", "yaml", data, **dict({"default_flow_style": False}, **kwargs))
    if stream is None:
        return text
    return stream.write(text)


safe_dump = dump


def __getattr__(name):
    """Returns other names from PyYAML."""
    import yaml

    kind = yaml.SafeDumper if "Dumper" in name else yaml.SafeLoader
    return kind if name.startswith(("Salt", "Ordered", "SafeOrdered")) else getattr(yaml, name)
