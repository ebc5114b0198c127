"""Values that are set temporarily."""
import contextlib


@contextlib.contextmanager
def func_globals_inject(func, **overrides):
    space = getattr(func, "__func__", func).__globals__
    old = {key: space[key] for key in overrides if key in space}
    space.update(overrides)
    try:
        yield
    finally:
        for key in overrides:
            del space[key]
        space.update(old)
