"""Runners and wheel functions on this machine."""
from salt import _pinch


class RunnerClient:
    kind = "saltutil.runner"

    def __init__(self, opts=None, **kwargs):
        self.opts = opts

    def cmd(self, fun, arg=None, pub_data=None, kwarg=None, print_event=True, full_return=False):
        return _pinch.call(self.kind, fun, arg=list(arg or ()), kwarg=kwarg or {}, full_return=full_return)
