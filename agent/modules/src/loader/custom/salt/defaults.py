"""Defaults."""
DEFAULT_TARGET_DELIM = ":"
