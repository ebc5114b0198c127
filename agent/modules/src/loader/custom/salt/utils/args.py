"""Arguments."""
import collections
import inspect
import re
import shlex

ArgSpec = collections.namedtuple("ArgSpec", "args varargs keywords defaults")


def clean_kwargs(**kwargs):
    return {key: value for key, value in kwargs.items() if not key.startswith("__")}


def invalid_kwargs(invalid_kwargs, raise_exc=True):
    from salt.exceptions import SaltInvocationError

    if invalid_kwargs:
        text = "The following keyword arguments are not valid: " + ", ".join("{}={}".format(*pair) for pair in invalid_kwargs.items())
        if not raise_exc:
            return text
        raise SaltInvocationError(text)


def get_function_argspec(func, is_class_method=None):
    spec = inspect.getfullargspec(func)
    return ArgSpec(spec.args, spec.varargs, spec.varkw, spec.defaults)


def split_input(val, mapper=None):
    items = val if isinstance(val, list) else str(val).split(",")
    return [(mapper or (lambda text: text.strip() if isinstance(text, str) else text))(item) for item in items]


def shlex_split(s, **kwargs):
    return shlex.split(s, **kwargs) if isinstance(s, str) else s


def yamlify_arg(arg):
    import salt.utils.yaml

    if not isinstance(arg, str) or not arg.strip() or "_" in arg:
        return arg
    try:
        return salt.utils.yaml.safe_load(arg)
    except salt.utils.yaml.YAMLError:
        return arg


def test_mode(**kwargs):
    return any(key.lower() == "test" and value in (True, "True", "true", 1) for key, value in kwargs.items())


def parse_function(s):
    found = re.match(r"\s*([^()\s]+)\s*\((.*)\)\s*$", s, re.S)
    if not found:
        return None, None, None
    args, kwargs = [], {}
    for word in [part.strip() for part in re.split(r",(?=(?:[^\"']|\"[^\"]*\"|'[^']*')*$)", found.group(2)) if part.strip()]:
        name, equals, value = word.partition("=")
        if equals and re.match(r"\w+$", name):
            kwargs[name] = value.strip("\"'")
        else:
            args.append(word.strip("\"'"))
    return found.group(1), args, kwargs
