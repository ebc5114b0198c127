"""HTTP."""
from salt import _pinch


def query(url, method="GET", **kwargs):
    kwargs.pop("opts", None)
    return _pinch.call("http.query", url, method=method, **kwargs)
