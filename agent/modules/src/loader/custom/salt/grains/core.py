"""The built-in grains of the program."""
from salt import _pinch


def __getattr__(name):
    """Returns a function that returns the grain of this name."""
    if name.startswith("__"):
        raise AttributeError(name)
    names = {"hostname": ("localhost", "host", "fqdn", "domain"), "os_data": None, "id_": ("id",)}.get(name, (name,))

    def grains(*_):
        found = _pinch.request({"get": "grains"})
        return {key: value for key, value in found.items() if names is None or key in names}

    return grains
