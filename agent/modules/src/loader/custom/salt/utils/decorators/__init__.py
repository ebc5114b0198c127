"""Decorators of functions."""
import functools


def memoize(func):
    cache = {}

    @functools.wraps(func)
    def remembered(*args, **kwargs):
        key = repr((args, sorted(kwargs.items())))
        if key not in cache:
            cache[key] = func(*args, **kwargs)
        return cache[key]

    return remembered


class Depends:
    """Removes a function from its module, or replaces it by `fallback_function`, if a dependency is missing."""

    unmet = []

    def __init__(self, *dependencies, **kwargs):
        self.dependencies = dependencies
        self.fallback = kwargs.get("fallback_function")

    def __call__(self, function):
        if not all(self._met(need, function) for need in self.dependencies):
            Depends.unmet.append((function, self.fallback))
        return function

    @staticmethod
    def _met(need, function):
        if need is True or need is False:
            return need
        if callable(need):
            return bool(need())
        try:
            __import__(need)
        except ImportError:
            return function.__globals__.get(need) is not None
        return True

    @classmethod
    def enforce_dependencies(cls, functions=None, kind=None, tgt_mod=None):
        for function, fallback in cls.unmet:
            space = function.__globals__
            if space.get(function.__name__) is function:
                if fallback is None:
                    del space[function.__name__]
                else:
                    space[function.__name__] = fallback
        cls.unmet = []


depends = Depends


def _passing(func):
    return func


ignores_kwargs = lambda *names: _passing  # noqa: E731
ensure_unicode_args = timing = _passing
