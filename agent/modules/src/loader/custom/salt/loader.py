"""The functions of the program by their names."""
from salt import _pinch


class Functions(dict):
    def __missing__(self, name):
        if name not in self:
            raise KeyError(name)
        return lambda *args, **kwargs: _pinch.call(name, *args, **kwargs)

    def __contains__(self, name):
        return bool(_pinch.request({"has": name}))

    def get(self, name, default=None):
        return self[name] if name in self else default

    def __iter__(self):
        return iter(_pinch.request({"names": True}))

    keys = __iter__

    def __len__(self):
        return len(list(iter(self)))


class States(Functions):
    def __missing__(self, name):
        return lambda *args, **kwargs: _pinch.request({"state": name, "args": list(args), "kwargs": kwargs})

    def __contains__(self, name):
        return bool(_pinch.request({"has_state": name}))


class Runners(Functions):
    def __missing__(self, name):
        return lambda *args, **kwargs: _pinch.call("saltutil.runner", name, arg=list(args), kwarg=kwargs)

    def __contains__(self, name):
        return name in _pinch.call("sys.list_runner_functions")

    def __iter__(self):
        return iter(_pinch.call("sys.list_runner_functions"))


def minion_mods(opts=None, *args, **kwargs):
    return Functions()


def states(opts=None, *args, **kwargs):
    return States()


def runner(opts=None, *args, **kwargs):
    return Runners()


def grains(opts=None, *args, **kwargs):
    return _pinch.request({"get": "grains"})


def utils(opts=None, *args, **kwargs):
    return _pinch.utils


def render(opts=None, functions=None, *args, **kwargs):
    def renderer(name):
        def rendered(template, saltenv="base", sls="", **_):
            text = template.read() if hasattr(template, "read") else template
            return _pinch.call("slsutil.renderer", string=text, default_renderer=name, saltenv=saltenv)

        return rendered

    return {name: renderer(name) for name in _pinch.call("sys.list_renderers")}
