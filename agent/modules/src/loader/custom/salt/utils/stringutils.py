"""Text."""
import difflib
import fnmatch
import random as _random
import re
import string as _string


def to_bytes(s, encoding=None, errors="strict"):
    if isinstance(s, str):
        return s.encode(encoding or "utf-8", errors)
    if isinstance(s, (bytes, bytearray)):
        return bytes(s)
    raise TypeError("expected str, bytes, or bytearray")


def to_str(s, encoding=None, errors="strict", normalize=False):
    if isinstance(s, (bytes, bytearray)):
        return bytes(s).decode(encoding or "utf-8", errors)
    if isinstance(s, str):
        return s
    raise TypeError("expected str, bytes, or bytearray not {}".format(type(s)))


to_unicode = to_str


def to_num(text):
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def to_none(text):
    return None if str(text).strip().lower() in ("", "none", "null") else text


def is_quoted(value):
    return value[0] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else ""


def dequote(value):
    return value[1:-1] if is_quoted(value) else value


def is_hex(value):
    try:
        int(value, 16)
        return True
    except (TypeError, ValueError):
        return False


def is_binary(data):
    if not data or not isinstance(data, (str, bytes)):
        return False
    return (b"\0" if isinstance(data, bytes) else "\0") in data


def random(size=32):
    return "".join(_random.SystemRandom().choice(_string.ascii_letters + _string.digits) for _ in range(size))


def contains_whitespace(text):
    return any(char.isspace() for char in text)


def human_to_bytes(size, default_unit="B", handle_metric=False):
    found = re.match(r"([0-9.]+)\s*([A-Za-z]*)\s*$", str(size).strip())
    if not found:
        return 0
    unit = (found.group(2) or default_unit).upper()
    base = 1000 if handle_metric and unit[1:] == "B" else 1024
    return int(float(found.group(1)) * base ** max("BKMGTPEZY".find(unit[0]), 0))


def expr_match(line, expr):
    try:
        return fnmatch.fnmatch(line, expr) or bool(re.match(r"\A{}\Z".format(expr), line))
    except (re.error, TypeError):
        return line == expr


def _matches(value, patterns):
    patterns = patterns.split(",") if isinstance(patterns, str) else patterns
    return any(expr_match(value, pattern) for pattern in patterns)


def check_whitelist_blacklist(value, whitelist=None, blacklist=None):
    if blacklist and _matches(value, blacklist):
        return False
    return not whitelist or _matches(value, whitelist)


def get_context(template, line, num_lines=5, marker=None):
    lines = template.splitlines()
    if line > len(lines):
        return template
    start, end = max(0, line - num_lines - 1), min(len(lines), line + num_lines)
    if marker:
        lines[line - 1] += marker
    shown = ["---"] + ["[...]"] * (start > 0) + lines[start:end] + ["[...]"] * (end < len(lines)) + ["---"]
    return "\n".join(shown)


def get_diff(a, b, *args, **kwargs):
    lines = [value if isinstance(value, list) else value.splitlines(True) for value in (a, b)]
    return "".join(difflib.unified_diff(*(lines + list(args)), **kwargs))


def camel_to_snake_case(camel_input):
    text = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", camel_input)
    return re.sub("([a-z0-9])([A-Z])", r"\1_\2", text).lower()


def snake_to_camel_case(snake_input, uppercamel=False):
    words = [word.capitalize() or "_" for word in snake_input.split("_")]
    return "".join(words if uppercamel else [words[0].lower()] + words[1:])
