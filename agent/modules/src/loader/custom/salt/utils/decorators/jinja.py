"""Marks functions as Jinja's filters, tests and globals."""


def _registry(key):
    class Registry:
        def __init__(self, name=None):
            self.name = name

        def __call__(self, function):
            getattr(self, key).setdefault(self.name or function.__name__, function)
            return function

    setattr(Registry, key, {})
    return Registry


JinjaFilter = jinja_filter = _registry("salt_jinja_filters")
JinjaTest = jinja_test = _registry("salt_jinja_tests")
JinjaGlobal = jinja_global = _registry("salt_jinja_globals")
