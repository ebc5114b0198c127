"""Ordered dictionaries."""
from collections import OrderedDict


class DefaultOrderedDict(OrderedDict):
    def __init__(self, default_factory=None, *args, **kwargs):
        OrderedDict.__init__(self, *args, **kwargs)
        self.default_factory = default_factory

    def __missing__(self, key):
        if self.default_factory is None:
            raise KeyError(key)
        self[key] = value = self.default_factory()
        return value


class HashableOrderedDict(OrderedDict):
    def __hash__(self):
        return id(self)
