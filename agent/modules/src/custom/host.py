"""Runs Salt's Python modules: requests and answers are lines of JSON (the protocol stands in mod.rs).

Plain Python 3.6 without anything installed.
"""
import collections.abc
import importlib.util
import inspect
import json
import logging
import os
import sys
import threading
import traceback
import types

BASE = "salt.loaded.ext.%s."
DATA = ("grains", "pillar", "opts")


def plain(value):
    """A value as JSON has it; what JSON lacks is a dictionary with one marked key."""
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


MARKS = {
    "__bytes__": lambda text: text.encode("latin-1"),
    "__pairs__": dict,
    "__tuple__": tuple,
    "__set__": set,
}


def thing(mapping):
    """The opposite of plain(), for one dictionary of what was read."""
    if marked(mapping):
        key, value = next(iter(mapping.items()))
        return MARKS[key](value)
    return mapping


class Channel:
    """The two ends that were the standard input and output; modules get others, so that a print() does no harm."""

    def __init__(self):
        self.lines = os.fdopen(os.dup(0), "r", encoding="utf-8", newline="\n")
        self.out = os.fdopen(os.dup(1), "w", encoding="utf-8", newline="\n")
        self.lock = threading.RLock()
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)

    def read(self):
        line = self.lines.readline()
        if not line:
            # Threads that a module has left behind do not keep us.
            os._exit(0)
        return json.loads(line, object_hook=thing)

    def write(self, message):
        line = json.dumps(message, ensure_ascii=True) + "\n"
        with self.lock:
            self.out.write(line)
            self.out.flush()

    def ask(self, message):
        with self.lock:
            self.write(message)
            return self.read()


class ToLog(logging.Handler):
    """Log records go the same way as replies, so that they keep their order."""

    def __init__(self, channel):
        logging.Handler.__init__(self)
        self.channel = channel

    def emit(self, record):
        try:
            text = self.format(record)
            self.channel.write({"log": record.levelname, "name": record.name, "text": text})
        except Exception:  # a message that cannot be shown must not end the call
            pass


class Functions(collections.abc.Mapping):
    """__salt__: every function of the program by its name."""

    def __init__(self, host):
        self.host = host
        self.known = {}

    def __contains__(self, name):
        return isinstance(name, str) and (
            name in self.known or self.host.answer({"has": name})
        )

    def __getitem__(self, name):
        if name not in self.known:
            if name not in self:
                raise KeyError(name)
            self.known[name] = self.caller(name)
        return self.known[name]

    def caller(self, name):
        def call(*args, **kwargs):
            message = {"call": name, "args": plain(args)["__tuple__"], "kwargs": plain(kwargs)}
            return self.host.answer(message, args, kwargs)

        call.__name__ = call.__qualname__ = name.rpartition(".")[2]
        return call

    def __iter__(self):
        return iter(self.host.answer({"names": True}))

    def __len__(self):
        return len(self.host.answer({"names": True}))


class Options(dict):
    """__opts__: the grains and the pillar stand in it too."""

    host = None

    def __getitem__(self, key):
        if key in ("grains", "pillar"):
            self.host.fresh(key)
            return self.host.data[key]
        return dict.__getitem__(self, key)

    def get(self, key, default=None):
        try:
            return self[key]
        except KeyError:
            return default


class Arguments(TypeError):
    """A function was called with arguments that it does not take."""


class Host:
    def __init__(self):
        self.channel = Channel()
        self.modules = {}
        self.context = {}
        self.fetched = set()
        self.data = {"grains": {}, "pillar": {}, "opts": Options()}
        self.data["opts"].host = self
        self.functions = Functions(self)
        self.dunders = {
            "__salt__": self.functions,
            "__context__": self.context,
            "__grains__": self.data["grains"],
            "__pillar__": self.data["pillar"],
            "__opts__": self.data["opts"],
        }

    def answer(self, message, args=(), kwargs=None):
        """Asks the program, and raises what it raises."""
        reply = self.channel.ask(message)
        if "error" in reply:
            raise exception(reply["error"].get("type"), reply["error"].get("text", ""))
        if "yours" in reply:
            # The function is one of this host's: no second child is needed.
            module = self.module(reply["yours"])
            return self.call(module, message["call"], args, kwargs or {})
        return reply.get("return")

    def fresh(self, name):
        if name not in self.fetched:
            self.fetched.add(name)
            data = self.answer({"get": name})
            self.data[name].clear()
            self.data[name].update(data)

    def module(self, path):
        if path not in self.modules:
            self.modules[path] = self.loaded(path)
        return self.modules[path]

    def loaded(self, path):
        folder, file = os.path.split(path)
        stem = os.path.basename(folder) if file == "__init__.py" else file[:-3]
        kind = os.path.basename(os.path.dirname(folder) if file == "__init__.py" else folder)
        name = BASE % ("module" if kind == "modules" else kind) + stem
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        with open(path, "rb") as source:
            text = source.read()
        # A package's other files are not looked through: it may use everything.
        whole = file == "__init__.py"
        module.__uses__ = [data for data in DATA if whole or ("__%s__" % data).encode() in text]
        module.__stem__ = stem
        sys.modules[name] = module
        module.__dict__.update(self.dunders)
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
        module.__dict__.update(self.dunders)
        init = module.__dict__.get("__init__")
        if inspect.isfunction(init):
            self.fresh("opts")
            init(self.data["opts"])
        return module

    def described(self, path):
        """What a module is called and what it has, or why it is not to be used."""
        module = self.module(path)
        for data in module.__uses__:
            self.fresh(data)
        name, reason = module.__stem__, None
        virtual = getattr(module, "__virtual__", None)
        if inspect.isfunction(virtual):
            answer = virtual()
            if isinstance(answer, tuple):
                answer, reason = (answer + (None, None))[:2]
            if not answer:
                return {"name": name, "virtual": None if reason is None else str(reason)}
            name = getattr(module, "__virtualname__", name) if answer is True else str(answer)
        aliases = getattr(module, "__virtual_aliases__", ())
        self.functions_of(module)
        return {
            "name": name,
            "aliases": [aliases] if isinstance(aliases, str) else list(aliases),
            "functions": {fun: signature(func) for fun, func in module.__functions__.items()},
        }

    def functions_of(self, module):
        if not hasattr(module, "__functions__"):
            alias = getattr(module, "__func_alias__", {})
            module.__functions__ = {}
            for attribute in getattr(module, "__load__", dir(module)):
                func = getattr(module, attribute)
                own = inspect.isfunction(func) and func.__module__.startswith(module.__name__)
                if own and not attribute.startswith("_"):
                    module.__functions__.setdefault(alias.get(attribute, attribute), func)
        return module.__functions__

    def call(self, module, full, args, kwargs):
        func = self.functions_of(module).get(full.rpartition(".")[2])
        if func is None:
            raise exception("CommandExecutionError", "'%s' is not available." % full)
        for data in module.__uses__:
            self.fresh(data)
        try:
            return func(*args, **kwargs)
        except TypeError as error:
            if error.__traceback__.tb_next is None:
                # It did not come as far as the function: the arguments do not fit.
                raise Arguments(*error.args)
            raise

    def run(self, request):
        self.context.pop("retcode", None)
        module = self.module(request["file"])
        value = self.call(module, request["run"], request["args"], request["kwargs"])
        reply = {"return": plain(value)}
        if isinstance(self.context.get("retcode"), int):
            reply["retcode"] = self.context["retcode"]
        return reply

    def serve(self):
        while True:
            request = self.channel.read()
            self.fetched.clear()
            try:
                if "load" in request:
                    reply = {"return": self.described(request["load"])}
                else:
                    reply = self.run(request)
            except (Exception, SystemExit) as error:
                reply = {"error": told(error)}
            sys.stdout.flush()
            self.channel.write(reply)


def signature(func):
    """What a function takes, and its documentation."""
    args, kinds = [], {"varargs": False, "kwargs": False}
    for parameter in inspect.signature(func).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            kinds["varargs"] = True
        elif parameter.kind is parameter.VAR_KEYWORD:
            kinds["kwargs"] = True
        elif parameter.default is parameter.empty:
            args.append([parameter.name])
        else:
            args.append([parameter.name, plain(parameter.default)])
    return dict(kinds, args=args, doc=func.__doc__ or "")


def told(error):
    kinds = [kind.__name__ for kind in type(error).__mro__]
    told = {"type": type(error).__name__, "text": str(error)}
    if isinstance(error, ImportError) and error.name:
        told["missing"] = error.name
        told["python"] = sys.executable
    if "SaltException" not in kinds and not isinstance(error, Arguments):
        told["trace"] = trace(error)
    return told


def trace(error):
    """Where it happened, without this file and Python's own loader."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = ("<string>", "<frozen importlib")
    frames = [frame for frame in frames if not frame[0].startswith(ours)]
    lines = traceback.format_list(frames) + traceback.format_exception_only(type(error), error)
    return "Traceback (most recent call last):\n" + "".join(lines)


def exception(kind, text):
    """An exception of Salt by its name, for what a function of the program says."""
    exceptions = importlib.import_module("salt.exceptions")
    found = getattr(exceptions, kind or "", None)
    if not (isinstance(found, type) and issubclass(found, Exception)):
        found = exceptions.CommandExecutionError
    return found(text)


def provide_exceptions():
    """`salt.exceptions` where no Salt is installed: modules import it for the names."""
    if importlib.util.find_spec("salt") is not None:
        return
    salt, exceptions = types.ModuleType("salt"), types.ModuleType("salt.exceptions")
    salt.__path__, salt.exceptions = [], exceptions

    class SaltException(Exception):
        def __init__(self, message=""):
            Exception.__init__(self, message)
            self.message = self.strerror = str(message)

    class CommandExecutionError(SaltException):
        def __init__(self, message="", info=None):
            self.error = exc_text = str(message)
            self.info = info
            SaltException.__init__(self, exc_text)

    def add(name, *bases):
        kind = bases[0] if name == bases[0].__name__ else type(name, bases, {})
        kind.__module__ = "salt.exceptions"
        setattr(exceptions, name, kind)

    add("SaltException", SaltException)
    add("CommandExecutionError", CommandExecutionError)
    for name in ("CommandNotFoundError", "CheckError", "PackageConflict"):
        add(name, CommandExecutionError)
    add("SaltInvocationError", SaltException, TypeError)
    add("ArgumentValueError", CommandExecutionError)
    for name in (
        "AuthenticationError AuthorizationError EauthAuthenticationError FileserverConfigError FileLockError GitLockError "
        "InvalidConfigError InvalidEntityError LoaderError MasterExit MinionError NotImplemented PillarRenderError "
        "SaltCacheError SaltClientError SaltConfigurationError SaltDeserializationError SaltMasterError SaltRenderError "
        "SaltReqTimeoutError SaltRunnerError SaltSystemExit SaltWheelError TemplateError TimedProcTimeoutError TimeoutError "
        "TokenAuthenticationError UnsupportedFormat"
    ).split():
        add(name, SaltException)
    sys.modules.update({"salt": salt, "salt.exceptions": exceptions})


def main():
    provide_exceptions()
    host = Host()
    logging.basicConfig(level=logging.DEBUG, handlers=[ToLog(host.channel)], format="%(message)s")
    host.serve()


main()
