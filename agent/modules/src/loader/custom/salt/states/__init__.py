"""Their functions are the program's."""
import salt.modules  # noqa: F401
