"""Runners: those of the master of this machine, or without one those of this machine."""
from salt import _pinch

try:
    from salt import _master
except ImportError:
    _master = None


class RunnerClient:
    def __init__(self, opts=None, **kwargs):
        self.opts = opts or {}

    def cmd(self, fun, arg=None, pub_data=None, kwarg=None, print_event=True, full_return=False):
        if not (_master and _master.exists(self.opts)):
            return _pinch.call("saltutil.runner", fun, arg=list(arg or ()), kwarg=kwarg or {}, full_return=full_return)
        data = _master.runner(self.opts, fun, arg or (), kwarg)
        return data if full_return else data["return"]
