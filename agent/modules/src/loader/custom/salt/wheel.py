"""Wheel functions: those of the master of this machine, or without one those of this machine."""
from salt import _pinch


class WheelClient:
    def __init__(self, opts=None, **kwargs):
        self.opts = opts or {}

    def cmd(self, fun, arg=None, pub_data=None, kwarg=None, print_event=True, full_return=False):
        if _pinch.has_master(self.opts):
            arg = list(arg or ()) + ([dict(kwarg, __kwarg__=True)] if kwarg else [])
            (found,) = _pinch.of_master(self.opts, "wheel", {"fun": fun, "arg": arg})
            data = {"return": found}
        else:
            data = _pinch.call("saltutil.wheel", fun, *(arg or ()), **(kwarg or {}))
        return data if full_return else data["return"]


Wheel = WheelClient
