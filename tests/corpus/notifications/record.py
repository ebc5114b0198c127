"""Records what the notification modules of Salt 3007.17 send and return: usage: record.py >answers.json, with Salt's Python and requests."""

import http.server
import json
import pathlib
import sys
import tempfile
import threading
import urllib.parse

import requests
import salt.config
import salt.exceptions
import salt.modules.config
import salt.modules.mattermost
import salt.modules.msteams
import salt.modules.pagerduty
import salt.modules.pushover_notify
import salt.modules.slack_notify
import salt.modules.telegram
import salt.states.msteams
import salt.states.pagerduty
import salt.states.pushover
import salt.states.slack
import salt.utils.http
import salt.utils.yaml  # pagerduty uses it without an import

# The headers that the services read. Others depend on the HTTP library.
HEADERS = ["Accept", "Authorization", "Content-Type", "User-Agent"]

here = pathlib.Path(__file__).parent
scratch = tempfile.TemporaryDirectory()
received = []  # the requests of the case that runs
replies = []  # the answers to them
origins = []  # the services that they were meant for


class Receiver(http.server.BaseHTTPRequestHandler):
    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): self.headers[name] for name in HEADERS if name in self.headers}
        request = {"method": self.command, "url": origins[-1] + self.path, "headers": headers, "body": body.decode()}
        received.append(request)
        reply = replies.pop(0)
        text = reply["body"] if isinstance(reply["body"], str) else json.dumps(reply["body"])
        self.send_response(reply.get("status", 200))
        self.send_header("Content-Type", reply.get("type", "application/json"))
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    do_GET = do_POST = answer

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
threading.Thread(target=server.serve_forever, daemon=True).start()


def here_instead(url):
    """Returns the address with the receiver in place of the service."""
    parts = urllib.parse.urlsplit(url)
    origins.append(f"{parts.scheme}://{parts.netloc}")
    return urllib.parse.urlunsplit(parts._replace(scheme="http", netloc=f"127.0.0.1:{server.server_port}"))


query, post = salt.utils.http.query, requests.post
salt.utils.http.query = lambda url, *args, **kwargs: query(here_instead(url), *args, **kwargs)
requests.post = lambda url, *args, **kwargs: post(here_instead(url), *args, **kwargs)

functions = {"config.get": salt.modules.config.get, "config.option": salt.modules.config.option}
modules = [salt.modules.config]
for name, module in {
    "mattermost": salt.modules.mattermost,
    "msteams": salt.modules.msteams,
    "pagerduty": salt.modules.pagerduty,
    "pushover": salt.modules.pushover_notify,
    "slack": salt.modules.slack_notify,
    "telegram": salt.modules.telegram,
}.items():
    modules.append(module)
    functions.update({f"{name}.{key}": value for key, value in vars(module).items() if callable(value) and key[0] != "_"})
states = {}
for name in ["msteams", "pagerduty", "pushover", "slack"]:
    module = getattr(salt.states, name)
    modules.append(module)
    states.update({f"{name}.{key}": value for key, value in vars(module).items() if callable(value) and key[0] != "_"})


def answer(case):
    opts = salt.config.DEFAULT_MINION_OPTS.copy()
    opts.update({"cachedir": scratch.name, "test": case.get("test", False)})
    opts.update(case.get("opts", {}))
    salt.config.minion_config = lambda *_, **__: opts
    for module in modules:
        module.__opts__, module.__salt__ = opts, functions
        module.__grains__, module.__pillar__ = {}, case.get("pillar", {})
    received.clear()
    replies[:] = case.get("replies", [])
    function = (states if "state" in case else functions)[case.get("state") or case["function"]]
    try:
        found = {"return": function(**case.get("kwargs", {}))}
    except salt.exceptions.SaltInvocationError as error:
        found = {"error": str(error)}
    except Exception as error:
        found = {"error": f"{type(error).__name__}: {error}"}
    assert not replies, case
    return {"requests": list(received), **found}


cases = json.loads((here / "cases.json").read_text())
json.dump({name: answer(case) for name, case in cases.items()}, sys.stdout, indent=1, ensure_ascii=False)
print()
