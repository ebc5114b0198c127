"""Wheel functions on this machine."""
from salt import _pinch


class WheelClient:
    def __init__(self, opts=None):
        self.opts = opts

    def cmd(self, fun, arg=None, pub_data=None, kwarg=None, **_):
        return _pinch.call("saltutil.wheel", fun, *(arg or ()), **(kwarg or {}))["return"]


Wheel = WheelClient
