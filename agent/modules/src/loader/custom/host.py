"""Runs Salt's Python modules: requests and replies are lines of JSON (see protocol.md).

Plain Python 3.6 without installed packages.
"""
import sys

# Neither the working directory nor a relative PYTHONPATH may decide which code is loaded.
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
import select
import signal
import threading
import traceback

BASE = "salt.loaded.ext.%s."
TAGS = {"modules": "module", "renderers": "render"}
DATA = ("grains", "pillar", "opts")


class Channel:
    """The original standard input and output. Modules get others, so that a print() cannot disturb the protocol."""

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
            # Threads that a module has started do not delay the exit.
            os._exit(0)
        return json.loads(line, object_hook=wire.thing)

    def watch(self):
        """Ends this process when the program is gone. An engine does not read its input by itself."""
        poll = select.poll()
        poll.register(self.lines.fileno(), 0)
        poll.poll()
        os._exit(0)

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
    """Writes log records to the same stream as replies, so that they keep their order."""

    def __init__(self, channel):
        logging.Handler.__init__(self)
        self.channel = channel

    def emit(self, record):
        try:
            text = self.format(record)
            self.channel.write({"log": record.levelname, "name": record.name, "text": text})
        except Exception:  # a message that cannot be formatted must not end the call
            pass


class Functions(collections.abc.Mapping):
    """Functions of the program by name: __salt__, __states__, and the functions that runners call."""

    def __init__(self, host, call="call", has="has", names="names"):
        self.host, self.requests = host, (call, has, names)
        self.found = {}

    def __contains__(self, name):
        return isinstance(name, str) and (name in self.found or self.host.answer({self.requests[1]: name}))

    def __getitem__(self, name):
        if name not in self.found:
            if name not in self:
                raise KeyError(name)
            self.found[name] = self.caller(name)
        return self.found[name]

    def __getattr__(self, module):
        if module.startswith("__"):
            raise AttributeError(module)
        return Named(self, module)

    def caller(self, name):
        def call(*args, **kwargs):
            message = {self.requests[0]: name, "args": wire.plain(args)["__tuple__"], "kwargs": wire.plain(kwargs)}
            return self.host.answer(message, args, kwargs)

        call.__name__ = call.__qualname__ = name.rpartition(".")[2]
        return call

    def __iter__(self):
        return iter(self.host.answer({self.requests[2]: True}))

    def __len__(self):
        return len(list(iter(self)))


class Named:
    """A module of `__salt__.test.ping()`."""

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
        self.host.refresh(module)
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
    """__opts__, which also contains the grains and the pillar."""

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
    """A function was called with arguments that it does not accept."""


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
        """Sends a request to the program. Raises the exception that the program reports."""
        reply = self.channel.ask(message)
        if "error" in reply:
            raise exception(reply["error"])
        if "yours" in reply:
            # The function belongs to this host, so no second child is needed.
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
            self.modules[path] = self.load(path)
        return self.modules[path]

    def load(self, path):
        folder, file = os.path.split(path)
        package = file == "__init__.py"
        stem = os.path.basename(folder) if package else file[:-3]
        kind = os.path.basename(os.path.dirname(folder) if package else folder)
        module = self.create(BASE % TAGS.get(kind, kind) + stem, path, package)
        module.__stem__ = stem
        dunders = dict(self.dunders)
        if kind == "runners":
            dunders["__salt__"] = self.runners
        elif kind == "engines":
            dunders["__runners__"] = self.runners
            threading.Thread(target=self.channel.watch, daemon=True).start()
        elif kind == "states":
            dunders.update(__states__=self.states, __env__=self.env)
        self.execute(module, dunders)
        init = module.__dict__.get("__init__")
        if inspect.isfunction(init):
            self.fresh("opts")
            init(self.data["opts"])
        return module

    def create(self, name, path, whole=False):
        """Returns a module that is not executed yet. A package may use all data, because its other files are not searched."""
        loader = importlib.machinery.SourceFileLoader(name, path)
        spec = importlib.util.spec_from_file_location(name, path, loader=loader)
        module = importlib.util.module_from_spec(spec)
        text = b""
        if not whole:
            with open(path, "rb") as source:
                text = source.read()
        module.__uses__ = [data for data in DATA if whole or data.encode() in text]
        return module

    def execute(self, module, dunders):
        sys.modules[module.__name__] = module
        module.__dict__.update(dunders)
        self.refresh(module)
        try:
            module.__spec__.loader.exec_module(module)
        except BaseException:
            del sys.modules[module.__name__]
            raise
        module.__dict__.update(dunders)
        depends = getattr(sys.modules.get("salt.utils.decorators"), "Depends", None)
        if depends is not None and hasattr(depends, "unmet"):
            depends.enforce_dependencies()

    def refresh(self, module):
        if "__env__" in module.__dict__:
            module.__env__ = self.env
        for data in module.__uses__:
            self.fresh(data)

    def name_of(self, module):
        """Returns the name of a module, and the reason why it cannot be used, if there is one."""
        name, virtual = module.__stem__, getattr(module, "__virtual__", None)
        if not inspect.isfunction(virtual):
            return name, None
        answer, reason = virtual(), ""
        if isinstance(answer, tuple):
            answer, reason = (answer + (None, None))[:2]
        if not answer:
            return name, "" if reason is None else str(reason)
        return getattr(module, "__virtualname__", name) if answer is True else str(answer), None

    def describe(self, path):
        """Returns the name and the functions of a module, or the reason why it cannot be used."""
        module = self.module(path)
        self.refresh(module)
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
        self.refresh(module)
        try:
            return func(*args, **kwargs)
        except TypeError as error:
            if error.__traceback__.tb_next is None:
                # The error is not from the function itself: the arguments do not match.
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
        """Calls or returns a Jinja filter, test or global that a module has registered."""
        self.refresh(self.module(request["file"]))
        thing = jinja()[request["jinja"]][request["name"]]
        if callable(thing):
            thing = thing(*request["args"], **request["kwargs"])
        return {"return": wire.plain(thing)}

    def py(self, request):
        """The renderer `py`: calls the function run() of a file."""
        path, kwargs = request["py"], request["kwargs"]
        text = request.get("text")
        module = self.create(os.path.basename(path).split(".")[0], path, text is not None)
        if text is not None:
            module.__spec__.loader.get_data = lambda _: text.encode("utf-8")
        names = {name[2:-2]: value for name, value in self.dunders.items()}
        names = {name: names[name] for name in ("salt", "grains", "pillar", "opts")}
        env, sls = kwargs.get("saltenv", ""), kwargs.get("sls", "")
        dunders = dict({"__%s__" % name: value for name, value in names.items()}, __env__=env, __sls__=sls)
        self.env = env
        self.execute(module, {})
        module.__dict__.update(dict(dunders, **dict(names, **kwargs)))
        try:
            return {"return": wire.plain(module.run())}
        except Exception as error:
            return {"error": {"type": "SaltRenderError", "text": trace(error)}}
        finally:
            sys.modules.pop(module.__name__, None)

    def mako(self, request):
        """The renderer `mako`."""
        if "salt._mako" not in sys.modules:
            load_included(self.finder, "salt._mako")
        self.env = request["kwargs"].get("saltenv", "")
        for name in DATA:
            self.fresh(name)
        names = {name: self.dunders["__%s__" % name] for name in ("salt", "grains", "pillar", "opts")}
        names.update(request["kwargs"])
        try:
            return {"return": sys.modules["salt._mako"].render(request["text"], request["mako"], names)}
        except (ImportError, ValueError) as error:
            return {"error": {"type": "SaltRenderError", "text": str(error), "salt": True}}

    def reply(self, request):
        if "mako" in request:
            return self.mako(request)
        if "load" in request:
            return {"return": self.describe(request["load"])}
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
                reply = {"error": describe_error(error)}
            sys.stdout.flush()
            self.channel.write(reply)


def jinja():
    """Returns the Jinja filters, tests and globals that modules have registered so far."""
    marks = sys.modules.get("salt.utils.decorators.jinja")
    kinds = {"filters": "JinjaFilter", "tests": "JinjaTest", "globals": "JinjaGlobal"}
    return {kind: getattr(getattr(marks, name, None), "salt_jinja_" + kind, {}) for kind, name in kinds.items()}


def signature(func):
    """Returns the arguments of a function, and its documentation."""
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


def describe_error(error):
    kinds = [kind.__name__ for kind in type(error).__mro__]
    reply = {"type": type(error).__name__, "text": str(error)}
    if isinstance(error, ImportError) and error.name:
        reply["missing"] = error.name
        reply["python"] = sys.executable
    reply.update(trace=trace(error), salt="SaltException" in kinds)
    return reply


def trace(error):
    """Returns the traceback without this file and Python's own loader."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = ("<string>", "<salt/", "<frozen importlib")
    frames = [frame for frame in frames if not frame[0].startswith(ours)]
    lines = traceback.format_list(frames) + traceback.format_exception_only(type(error), error)
    return "Traceback (most recent call last):\n" + "".join(lines)


def exception(error):
    """Returns the exception that the program reports: one of Python's, or else one of Salt's."""
    kind, text = error.get("type") or "", error.get("text", "")
    found = getattr(builtins, kind, None)
    if isinstance(found, type) and issubclass(found, Exception):
        return found(text)
    return wire.exception(kind, text)


class Included:
    """Finds the modules of the package `salt` that the program contains."""

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


def load_included(finder, name):
    """Loads a module that the program contains, even where another Salt is installed."""
    origin = name.replace(".", "/") + ".py"
    spec = importlib.machinery.ModuleSpec(name, finder, origin=origin)
    module = importlib.util.module_from_spec(spec)
    finder.exec_module(module)
    sys.modules[name] = module
    return module


def main():
    global wire
    channel = Channel()
    included = json.loads(channel.lines.readline())
    finder = Included(included["sources"])
    # An installed Salt takes precedence, because it is complete.
    if importlib.util.find_spec("salt") is None:
        sys.meta_path.append(finder)
    wire = load_included(finder, "salt._pinch")
    sys.path.append(os.path.join(included["extmods"], "utils"))
    host = Host(channel, included["extmods"])
    host.finder = finder
    wire.ask, wire.path, wire.utils = host.answer, included["program"], host.utils
    # Print a traceback after a crash or a signal.
    faulthandler.enable(sys.stderr)
    faulthandler.register(signal.SIGUSR1, sys.stderr, all_threads=False)
    logging.basicConfig(level=logging.DEBUG, handlers=[ToLog(channel)], format="%(message)s")
    channel.write({"return": True})
    host.serve()


main()
