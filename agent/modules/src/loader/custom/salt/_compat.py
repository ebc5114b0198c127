"""Names that moved between versions of Python."""
import ipaddress  # noqa: F401
