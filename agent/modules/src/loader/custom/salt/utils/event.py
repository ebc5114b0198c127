"""The event bus."""
from salt import _pinch


def tagify(suffix="", prefix="salt", base="salt"):
    parts = [base if prefix == "" else prefix] + (suffix if isinstance(suffix, list) else [suffix] if suffix else [])
    return "/".join(str(part) for part in parts if part)


class SaltEvent:
    def __init__(self, node="minion", sock_dir=None, opts=None, **kwargs):
        self.node, self.opts = node, opts

    def fire_event(self, data, tag, timeout=1000):
        if self.node == "master":
            return _pinch.call("event.fire", data, tag)
        return _pinch.call("event.send", tag, data)

    fire_master = fire_event

    def destroy(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


MinionEvent = SaltEvent


class MasterEvent(SaltEvent):
    def __init__(self, sock_dir=None, opts=None, **kwargs):
        SaltEvent.__init__(self, "master", sock_dir, opts)


LocalClientEvent = MasterEvent


def get_event(node, sock_dir=None, transport=None, opts=None, listen=True, **kwargs):
    return SaltEvent(node, sock_dir, opts)


def get_master_event(opts, sock_dir=None, listen=True, **kwargs):
    return SaltEvent("master", sock_dir, opts)
