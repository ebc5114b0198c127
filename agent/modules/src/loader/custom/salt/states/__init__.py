"""The functions of the program."""
import salt.modules  # noqa: F401
