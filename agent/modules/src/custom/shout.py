"""Says things loudly."""
from salt.exceptions import CommandExecutionError


def hello(name="you"):
    """Greet someone."""
    if not name:
        raise CommandExecutionError("There is nobody to greet")
    return "HELLO, %s!" % name.upper()


def whoami():
    """Greet this machine."""
    return hello(__salt__["grains.get"]("id"))
