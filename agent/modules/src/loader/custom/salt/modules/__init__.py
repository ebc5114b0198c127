"""salt.modules.NAME, salt.states.NAME, salt.runners.NAME: the functions of the program."""
import importlib.machinery
import sys
import types

from salt import _pinch

VIRTUAL = {"aptpkg": "pkg", "yumpkg": "pkg", "zypperpkg": "pkg", "systemd_service": "service", "useradd": "user", "groupadd": "group"}
QUIET = {"_run_quiet": "run", "_run_all_quiet": "run_all", "list_": "list", "set_": "set", "get_": "get"}


class Module(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        _, kind, module = self.__name__.split(".")
        module = VIRTUAL.get(module, module[:-3] if module.endswith("mod") else module)
        full = "{}.{}".format(module, QUIET.get(name, name))
        if kind == "modules":
            return lambda *args, **kwargs: _pinch.call(full, *args, **kwargs)
        if kind == "states":
            return lambda *args, **kwargs: _pinch.request({"state": full, "args": list(args), "kwargs": kwargs})
        return lambda *args, **kwargs: _pinch.call("saltutil.runner", full, arg=list(args), kwarg=kwargs)


class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        parts = name.split(".")
        if len(parts) == 3 and parts[0] == "salt" and parts[1] in ("modules", "states", "runners"):
            return importlib.machinery.ModuleSpec(name, Finder)

    @staticmethod
    def create_module(spec):
        return Module(spec.name)

    @staticmethod
    def exec_module(module):
        pass


if Finder not in sys.meta_path:
    sys.meta_path.append(Finder)
