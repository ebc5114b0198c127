"""Runs Salt's Python modules: requests and answers are lines of JSON (the protocol stands in PROTOCOL.md).

Plain Python 3.6 without anything installed.
"""
import sys

# Neither the folder that we stand in nor a relative PYTHONPATH says what is loaded.
sys.path[:] = [path for path in sys.path if path.startswith("/")]
import builtins
import collections.abc
import faulthandler
import importlib
import importlib.machinery
import importlib.util
import inspect
import io
import json
import logging
import os
import signal
import threading
import traceback

BASE = "salt.loaded.ext.%s."
TAGS = {"modules": "module", "renderers": "render"}
DATA = ("grains", "pillar", "opts")


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
        return json.loads(line, object_hook=wire.thing)

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
    """Functions of the program by their names: __salt__, __states__, and what runners call."""

    def __init__(self, host, call="call", has="has", names="names"):
        self.host, self.asks = host, (call, has, names)
        self.known = {}

    def __contains__(self, name):
        return isinstance(name, str) and (name in self.known or self.host.answer({self.asks[1]: name}))

    def __getitem__(self, name):
        if name not in self.known:
            if name not in self:
                raise KeyError(name)
            self.known[name] = self.caller(name)
        return self.known[name]

    def __getattr__(self, module):
        if module.startswith("__"):
            raise AttributeError(module)
        return Named(self, module)

    def caller(self, name):
        def call(*args, **kwargs):
            message = {self.asks[0]: name, "args": wire.plain(args)["__tuple__"], "kwargs": wire.plain(kwargs)}
            return self.host.answer(message, args, kwargs)

        call.__name__ = call.__qualname__ = name.rpartition(".")[2]
        return call

    def __iter__(self):
        return iter(self.host.answer({self.asks[2]: True}))

    def __len__(self):
        return len(list(iter(self)))


class Named:
    """`__salt__.test.ping()`."""

    def __init__(self, functions, module):
        self.functions, self.module = functions, module

    def __getattr__(self, name):
        try:
            return self.functions["%s.%s" % (self.module, name)]
        except KeyError:
            raise AttributeError(name)


class Utils(Functions):
    """__utils__: functions of the files in _utils, and of salt.utils."""

    def __contains__(self, name):
        return self.find(name) is not None

    def __getitem__(self, name):
        found = self.find(name)
        if found is None:
            raise KeyError(name)
        return found

    def find(self, full):
        name, _, function = full.partition(".")
        module = self.file(name)
        if module is None:
            try:
                module = importlib.import_module("salt.utils." + name)
            except ImportError:
                return None
            return getattr(module, function, None)
        self.host.refreshed(module)
        return self.host.functions_of(module).get(function)

    def files(self):
        folder = os.path.join(self.host.extmods, "utils")
        names = sorted(os.listdir(folder)) if os.path.isdir(folder) else ()
        for name in names:
            path = os.path.join(folder, name)
            package = os.path.join(path, "__init__.py")
            if os.path.isfile(package) or name.endswith(".py"):
                yield name.split(".")[0], package if os.path.isfile(package) else path

    def file(self, name):
        files = list(self.files())
        for stem, path in sorted(files, key=lambda file: file[0] != name):
            try:
                if self.host.name_of(self.host.module(path))[0] == name:
                    return self.host.module(path)
            except ImportError:
                if stem == name:
                    raise
        return None

    def __iter__(self):
        for _, path in self.files():
            module = self.host.module(path)
            name = self.host.name_of(module)[0]
            yield from ("%s.%s" % (name, function) for function in self.host.functions_of(module))


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
    def __init__(self, channel, extmods):
        self.channel, self.extmods = channel, extmods
        self.modules = {}
        self.fetched = set()
        self.data = {"grains": {}, "pillar": {}, "opts": Options()}
        self.data["opts"].host = self
        self.utils = Utils(self)
        self.runners = Functions(self, "runner", "has_runner", "runners")
        self.states = Functions(self, "state", "has_state", "states")
        self.env = ""
        self.context = {}
        self.dunders = {
            "__salt__": Functions(self),
            "__context__": self.context,
            "__utils__": self.utils,
            "__grains__": self.data["grains"],
            "__pillar__": self.data["pillar"],
            "__opts__": self.data["opts"],
        }

    def answer(self, message, args=(), kwargs=None):
        """Asks the program, and raises what it raises."""
        reply = self.channel.ask(message)
        if "error" in reply:
            raise exception(reply["error"])
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
        package = file == "__init__.py"
        stem = os.path.basename(folder) if package else file[:-3]
        kind = os.path.basename(os.path.dirname(folder) if package else folder)
        module = self.made(BASE % TAGS.get(kind, kind) + stem, path, package)
        module.__stem__ = stem
        dunders = dict(self.dunders)
        if kind == "runners":
            dunders["__salt__"] = self.runners
        elif kind == "states":
            dunders.update(__states__=self.states, __env__=self.env)
        self.executed(module, dunders)
        init = module.__dict__.get("__init__")
        if inspect.isfunction(init):
            self.fresh("opts")
            init(self.data["opts"])
        return module

    def made(self, name, path, whole=False):
        """A module that is not executed yet. A package may use everything: its other files are not looked through."""
        loader = importlib.machinery.SourceFileLoader(name, path)
        spec = importlib.util.spec_from_file_location(name, path, loader=loader)
        module = importlib.util.module_from_spec(spec)
        text = b""
        if not whole:
            with open(path, "rb") as source:
                text = source.read()
        module.__uses__ = [data for data in DATA if whole or data.encode() in text]
        return module

    def executed(self, module, dunders):
        sys.modules[module.__name__] = module
        module.__dict__.update(dunders)
        self.refreshed(module)
        try:
            module.__spec__.loader.exec_module(module)
        except BaseException:
            del sys.modules[module.__name__]
            raise
        module.__dict__.update(dunders)
        depends = getattr(sys.modules.get("salt.utils.decorators"), "Depends", None)
        if depends is not None and hasattr(depends, "unmet"):
            depends.enforce_dependencies()

    def refreshed(self, module):
        if "__env__" in module.__dict__:
            module.__env__ = self.env
        for data in module.__uses__:
            self.fresh(data)

    def name_of(self, module):
        """What a module is called, and why it is not to be used."""
        name, virtual = module.__stem__, getattr(module, "__virtual__", None)
        if not inspect.isfunction(virtual):
            return name, None
        answer, reason = virtual(), ""
        if isinstance(answer, tuple):
            answer, reason = (answer + (None, None))[:2]
        if not answer:
            return name, "" if reason is None else str(reason)
        return getattr(module, "__virtualname__", name) if answer is True else str(answer), None

    def described(self, path):
        """What a module is called and what it has, or why it is not to be used."""
        module = self.module(path)
        self.refreshed(module)
        name, refusal = self.name_of(module)
        if refusal is not None:
            return {"name": name, "virtual": refusal or None}
        aliases = getattr(module, "__virtual_aliases__", ())
        self.functions_of(module)
        return {
            "name": name,
            "aliases": [aliases] if isinstance(aliases, str) else list(aliases),
            "functions": {fun: signature(func) for fun, func in module.__functions__.items()},
            "jinja": {kind: list(registry) for kind, registry in jinja().items()},
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
        self.refreshed(module)
        try:
            return func(*args, **kwargs)
        except TypeError as error:
            if error.__traceback__.tb_next is None:
                # It did not come as far as the function: the arguments do not fit.
                raise Arguments(*error.args)
            raise

    def run(self, request):
        self.context.pop("retcode", None)
        self.env = request.get("saltenv", self.env)
        module, args = self.module(request["file"]), request["args"]
        if os.path.basename(os.path.dirname(request["file"])) == "renderers" and isinstance(args[0], str):
            args = [io.StringIO(args[0])] + args[1:]
        value = self.call(module, request["run"], args, request["kwargs"])
        reply = {"return": wire.plain(value)}
        if isinstance(self.context.get("retcode"), int):
            reply["retcode"] = self.context["retcode"]
        return reply

    def jinja(self, request):
        """One of Jinja's filters, tests or globals that a module has registered."""
        self.refreshed(self.module(request["file"]))
        thing = jinja()[request["jinja"]][request["name"]]
        if callable(thing):
            thing = thing(*request["args"], **request["kwargs"])
        return {"return": wire.plain(thing)}

    def py(self, request):
        """The renderer `py`: what the function run() of a file returns."""
        path, given = request["py"], request["kwargs"]
        text = request.get("text")
        module = self.made(os.path.basename(path).split(".")[0], path, text is not None)
        if text is not None:
            module.__spec__.loader.get_data = lambda _: text.encode("utf-8")
        names = {name[2:-2]: value for name, value in self.dunders.items()}
        names = {name: names[name] for name in ("salt", "grains", "pillar", "opts")}
        env, sls = given.get("saltenv", ""), given.get("sls", "")
        dunders = dict({"__%s__" % name: value for name, value in names.items()}, __env__=env, __sls__=sls)
        self.env = env
        self.executed(module, {})
        module.__dict__.update(dict(dunders, **dict(names, **given)))
        try:
            return {"return": wire.plain(module.run())}
        except Exception as error:
            return {"error": {"type": "SaltRenderError", "text": trace(error)}}
        finally:
            sys.modules.pop(module.__name__, None)

    def reply(self, request):
        if "load" in request:
            return {"return": self.described(request["load"])}
        if "jinja" in request:
            return self.jinja(request)
        return self.py(request) if "py" in request else self.run(request)

    def serve(self):
        while True:
            request = self.channel.read()
            self.fetched.clear()
            try:
                reply = self.reply(request)
            except (Exception, SystemExit) as error:
                reply = {"error": told(error)}
            sys.stdout.flush()
            self.channel.write(reply)


def jinja():
    """What modules have registered with Jinja so far."""
    marks = sys.modules.get("salt.utils.decorators.jinja")
    kinds = {"filters": "JinjaFilter", "tests": "JinjaTest", "globals": "JinjaGlobal"}
    return {kind: getattr(getattr(marks, name, None), "salt_jinja_" + kind, {}) for kind, name in kinds.items()}


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
            args.append([parameter.name, wire.plain(parameter.default)])
    return dict(kinds, args=args, doc=func.__doc__ or "")


def told(error):
    kinds = [kind.__name__ for kind in type(error).__mro__]
    told = {"type": type(error).__name__, "text": str(error)}
    if isinstance(error, ImportError) and error.name:
        told["missing"] = error.name
        told["python"] = sys.executable
    told.update(trace=trace(error), salt="SaltException" in kinds)
    return told


def trace(error):
    """Where it happened, without this file and Python's own loader."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = ("<string>", "<salt/", "<frozen importlib")
    frames = [frame for frame in frames if not frame[0].startswith(ours)]
    lines = traceback.format_list(frames) + traceback.format_exception_only(type(error), error)
    return "Traceback (most recent call last):\n" + "".join(lines)


def exception(error):
    """The exception that a function of the program says: one of Python's, else one of Salt's."""
    kind, text = error.get("type") or "", error.get("text", "")
    found = getattr(builtins, kind, None)
    if isinstance(found, type) and issubclass(found, Exception):
        return found(text)
    return wire.exception(kind, text)


class Carried:
    """Finds the modules of the package `salt` that the program carries."""

    def __init__(self, sources):
        self.sources = sources

    def find_spec(self, name, path=None, target=None):
        file = name.replace(".", "/")
        for source in (file + "/__init__.py", file + ".py"):
            if source in self.sources:
                spec = importlib.machinery.ModuleSpec(name, self, origin=source, is_package=source.endswith("/__init__.py"))
                return spec

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        source = module.__spec__.origin
        exec(compile(self.sources[source], "<%s>" % source, "exec"), module.__dict__)


def main():
    global wire
    channel = Channel()
    carried = json.loads(channel.lines.readline())
    finder = Carried(carried["sources"])
    # A Salt that is installed has more than we carry.
    if importlib.util.find_spec("salt") is None:
        sys.meta_path.append(finder)
    spec = importlib.machinery.ModuleSpec("salt._pinch", finder, origin="salt/_pinch.py")
    wire = importlib.util.module_from_spec(spec)
    finder.exec_module(wire)
    sys.modules["salt._pinch"] = wire
    sys.path.append(os.path.join(carried["extmods"], "utils"))
    host = Host(channel, carried["extmods"])
    wire.ask, wire.path, wire.utils = host.answer, carried["program"], host.utils
    # What was at work when it crashed or was ended.
    faulthandler.enable(sys.stderr)
    faulthandler.register(signal.SIGUSR1, sys.stderr, all_threads=False)
    logging.basicConfig(level=logging.DEBUG, handlers=[ToLog(channel)], format="%(message)s")
    channel.write({"return": True})
    host.serve()


main()
