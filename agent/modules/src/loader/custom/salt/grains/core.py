"""Built-in grains, the program's."""
from salt import _pinch


def __getattr__(name):
    """Each function returns the grains that its name stands for."""
    if name.startswith("__"):
        raise AttributeError(name)
    names = {"hostname": ("localhost", "host", "fqdn", "domain"), "os_data": None, "id_": ("id",)}.get(name, (name,))

    def grains(*_):
        found = _pinch.request({"get": "grains"})
        return {key: value for key, value in found.items() if names is None or key in names}

    return grains
