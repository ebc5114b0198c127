"""URLs of the file server."""
from urllib.parse import urlparse, urlunparse


def parse(url):
    if not url.startswith("salt://"):
        return url, None
    path, _, query = url[len("salt://") :].partition("?")
    env = [part[len("saltenv=") :] for part in query.split("&") if part.startswith("saltenv=")]
    return path, env[0] if env else None


def create(path, saltenv=None):
    return "salt://" + path.replace("\\", "/") + ("?saltenv={}".format(saltenv) if saltenv else "")


def strip_proto(url):
    return url.split("://", 1)[-1]


def split_env(url):
    return (url, None) if not url.startswith("salt://") else (create(parse(url)[0]), parse(url)[1])


def add_env(url, saltenv):
    return create(parse(url)[0], saltenv) if url.startswith("salt://") else url


def validate(url, protos):
    kind = urlparse(url).scheme
    return kind in protos if kind else "" in protos or "file" in protos


def redact_http_basic_auth(output):
    import re

    return re.sub(r"(https?)://.*@", r"\1://<redacted>@", output)


__all__ = [name for name in dir() if not name.startswith("_")] + ["urlunparse"]
