"""A pytest plugin that makes Salt's functional tests call Pinch: it replaces their `Loaders` before the tests are imported.

A call of a module or a state becomes a command line of `salt-call --local`. Salt parses arguments as YAML unless they contain a `#`. A value
that no argument can express is passed in an SLS file.
"""

import ast
import collections.abc
import contextlib
import copy
import json
import os
import pathlib
import shutil
import subprocess

import pytest
import saltfactories.utils.functional as functional
import yaml

# Salt's functions that return the result of one state, or of several states.
ONE_STATE = ("state.low", "state.single", "state.sls_id")
SEVERAL_STATES = ("state.apply", "state.high", "state.highstate", "state.sls", "state.template", "state.template_str", "state.test", "state.top")
# Salt's options that must not be passed to another program: computed ones, and the paths of the tests' Salt.
NOT_PASSED = {"conf_file", "grains", "pillar", "root_dir", "log_file", "extension_modules", "pidfile"}
TIMEOUT = 120


class NoArgument(Exception):
    """The value cannot be expressed as an argument of a command line."""


def plain(value):
    """Returns the value with JSON's types only."""
    if isinstance(value, collections.abc.Mapping):
        return {str(k) if isinstance(k, pathlib.PurePath) else k: plain(v) for k, v in value.items()}
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, (collections.abc.Sequence, collections.abc.Set)) and not isinstance(value, str):
        return [plain(one) for one in value]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return str(value)


def argument(value):
    """Returns the argument that Salt's command line parses to the value."""
    from salt.utils.args import yamlify_arg

    value = plain(value)
    forms = [json.dumps(value), json.dumps(value, ensure_ascii=False)]
    if isinstance(value, str) and "\n" not in value:
        forms.append(value)
    forms.append(yaml.safe_dump(value, default_flow_style=True, width=10**9).strip())
    for form in forms:
        try:
            read = yamlify_arg(form)
        except Exception:
            continue
        if read == value and type(read) is type(value):
            return form
    raise NoArgument(repr(value))


class Functions:
    """`modules` or `states`: functions by attribute (`modules.test.ping`) and by name (`modules["test.ping"]`)."""

    def __init__(self, loaders, states, module=None):
        self._loaders, self._states, self._module = loaders, states, module

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        if self._module is None and name in ("opts", "context"):
            return getattr(self._loaders, name)
        name = name.rstrip("_")
        return Functions(self._loaders, self._states, name) if self._module is None else self[f"{self._module}.{name}"]

    def __getitem__(self, name):
        call = self._loaders.state if self._states else self._loaders.run
        return lambda *args, **kwargs: call(name, args, kwargs)

    def __iter__(self):
        return iter(self._loaders.run("sys.list_state_functions" if self._states else "sys.list_functions", (), {}))


class Loaders:
    """The interface of the tests to Salt: its options, functions and grains."""

    def __init__(self, opts, loaded_base_name=None):
        self.opts, self._original, self.context = opts, copy.deepcopy(opts), {}
        self._reload_all_funcs = []
        self._etc = pathlib.Path(opts["cachedir"]).parent / "pinch-etc"
        self._etc.mkdir(parents=True, exist_ok=True)
        self.modules, self.states = Functions(self, False), Functions(self, True)

    def reset_state(self):
        self.context.clear()
        shutil.rmtree(self.opts["cachedir"], ignore_errors=True)
        os.makedirs(self.opts["cachedir"])

    def reload_all(self):
        self.opts = copy.deepcopy(self._original)

    def refresh_pillar(self):
        """Does nothing, because each call compiles the pillar."""

    @property
    def grains(self):
        return self.run("grains.items", (), {})

    @property
    def pillar(self):
        return self.run("pillar.items", (), {})

    def _configure(self):
        from salt.config import DEFAULT_MINION_OPTS as default

        options = {
            key: value
            for key, value in self.opts.items()
            if key not in NOT_PASSED and not key.startswith("__") and (key not in default or default[key] != value)
        }
        (self._etc / "minion").write_text(json.dumps(plain({**options, "log_file": str(self._etc / "log")})))

    def state(self, name, args, kwargs):
        """Calls a state through `state.single`, as the tests' own loader does."""
        try:
            return self.run("state.single", (name, *args), kwargs)
        except NoArgument:
            kwargs = dict(zip(("name",), args)) | kwargs
            test = {"test": kwargs.pop("test")} if "test" in kwargs else {}
            file = self._etc / "one.sls"
            high = {plain(kwargs["name"]): {name: [{key: plain(value)} for key, value in kwargs.items()]}}
            file.write_text("#!yaml\n" + json.dumps(high))
            return functional.StateResult(self.run("state.template", (file,), test).raw)

    def run(self, name, args, kwargs):
        """Calls a function. A failure raises the exception that most of Salt's functions raise."""
        from salt.exceptions import CommandExecutionError

        words = [argument(value) for value in args] + [f"{key}={argument(value)}" for key, value in kwargs.items()]
        self._configure()
        line = [os.environ["PINCH"], "salt-call", "--local", f"-c{self._etc}", "--out=json", "--retcode-passthrough"]
        line += ["--show-secrets", name, *words]
        done = subprocess.run(line, capture_output=True, text=True, timeout=TIMEOUT)
        print(name, words, done.returncode, done.stdout, done.stderr, sep="\n")
        try:
            answer = json.loads(done.stdout)["local"]
        except (ValueError, KeyError, TypeError):
            raise CommandExecutionError((done.stderr or done.stdout).strip()) from None
        if kwargs.get("raw") and isinstance(answer, str) and answer.startswith("b"):
            # JSON has no bytes: Pinch prints them as Python does.
            answer = ast.literal_eval(answer)
        kind = functional.StateResult if name in ONE_STATE else functional.MultiStateResult if name in SEVERAL_STATES else lambda same: same
        return kind(answer)


def warns(expected=Warning, *args, _original=pytest.warns, **kwargs):
    """Accepts missing deprecation warnings, which Python would only raise in Salt's process."""
    return contextlib.nullcontext() if expected is DeprecationWarning else _original(expected, *args, **kwargs)


functional.Loaders = Loaders
pytest.warns, pytest.deprecated_call = warns, lambda: warns(DeprecationWarning)
