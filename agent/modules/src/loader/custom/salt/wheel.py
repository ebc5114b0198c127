"""Wheel functions: those of the master of this machine, or without one those of this machine."""
from salt import _pinch
from salt.runner import _master


class WheelClient:
    def __init__(self, opts=None, **kwargs):
        self.opts = opts or {}

    def cmd(self, fun, arg=None, pub_data=None, kwarg=None, print_event=True, full_return=False):
        if _master and _master.exists(self.opts):
            data = _master.wheel(self.opts, fun, arg or (), kwarg)
        else:
            data = _pinch.call("saltutil.wheel", fun, *(arg or ()), **(kwarg or {}))
        return data if full_return else data["return"]


Wheel = WheelClient
