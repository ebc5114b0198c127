"""Calls functions on this machine, and on minions where this program is a master."""
from salt import _pinch

try:
    from salt._master import LocalClient
except ImportError:

    class LocalClient:
        def __init__(self, *args, **kwargs):
            raise _pinch.exception("SaltClientError", "this program is built without a master. Use salt.client.Caller for this machine")


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


def get_local_client(c_path="/etc/salt/master", mopts=None, **kwargs):
    return LocalClient(c_path, mopts)
