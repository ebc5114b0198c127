"""Names that moved between Pythons."""
import ipaddress  # noqa: F401
