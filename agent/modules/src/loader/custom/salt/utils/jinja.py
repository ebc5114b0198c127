"""Types for Jinja templates."""
from collections import OrderedDict


class PrintableDict(OrderedDict):
    """A dictionary that prints as a plain one, with its texts in quotes."""

    def __str__(self):
        return "{" + ", ".join("{!r}: {!r}".format(str(key), value if not isinstance(value, bytes) else value.decode("utf-8")) for key, value in self.items()) + "}"

    def __repr__(self):
        return "{" + ", ".join("{!r}: {!r}".format(key, value) for key, value in self.items()) + "}"
