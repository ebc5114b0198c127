"""Outputters, those of the program."""
import sys

from salt import _pinch


def out_format(data, out, opts=None, **kwargs):
    few = {key: value for key, value in (opts or {}).items() if key.startswith(("output", "state_", "color", "no_color", "force_color", "strip"))}
    return _pinch.request({"output": data, "out": out, "opts": few})


string_format = try_printout = out_format


def get_printout(out, opts=None, **kwargs):
    return lambda data, **_: out_format(data, out, opts)


def display_output(data, out=None, opts=None, **kwargs):
    text = out_format(data, out, opts)
    path = (opts or {}).get("output_file")
    if path:
        with open(path, (opts or {}).get("output_file_append") and "a" or "w") as file:
            file.write(text)
    elif text:
        sys.stdout.write(text)
        sys.stdout.flush()
