"""Calls functions on this machine."""
from salt import _pinch


def _opts(path, mopts):
    """Returns the options of the caller, without grains and pillar."""
    if mopts is None:
        import salt.config

        mopts = salt.config.minion_config(path)
    return {key: value for key, value in mopts.items() if key not in ("grains", "pillar")}


class Caller:
    def __init__(self, c_path="/etc/salt/minion", mopts=None):
        self.opts = _opts(c_path, mopts)

    def cmd(self, fun, *args, **kwargs):
        return _pinch.request({"call": fun, "args": list(args), "kwargs": kwargs, "opts": self.opts})

    function = cmd


class LocalClient:
    """Calls functions on this machine, which is the only one."""

    def __init__(self, c_path="/etc/salt/master", mopts=None, **kwargs):
        self.opts = mopts or {}

    def cmd(self, tgt, fun, arg=(), timeout=None, tgt_type="glob", ret="", jid="", full_return=False, kwarg=None, **kwargs):
        found = _pinch.call("saltutil.cmd", tgt, fun, list(arg), tgt_type=tgt_type, kwarg=kwarg)
        return found if full_return else {minion: data.get("ret") for minion, data in found.items()}

    def cmd_iter(self, *args, **kwargs):
        yield from ({minion: data} for minion, data in self.cmd(*args, full_return=True, **kwargs).items())


def get_local_client(c_path="/etc/salt/master", mopts=None, **kwargs):
    return LocalClient(c_path, mopts)
