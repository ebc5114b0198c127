"""The outputters of the program."""
import sys

from salt import _pinch


def out_format(data, out, opts=None, **kwargs):
    names = ("output", "state_", "color", "no_color", "force_color", "strip", "nested_indent")
    few = {key: value for key, value in (opts or {}).items() if key.startswith(names)}
    if not sys.stdout.isatty():
        few["color"] = False
    return _pinch.request({"output": data, "out": out, "opts": few})


string_format = try_printout = out_format


def get_printout(out, opts=None, **kwargs):
    return lambda data, **_: out_format(data, out, opts)


def display_output(data, out=None, opts=None, **kwargs):
    text = out_format(data, out, opts)
    path = (opts or {}).get("output_file")
    if path:
        with open(path, "a") as file:
            file.write(text + "\n")
    elif text:
        print(text, flush=True)
