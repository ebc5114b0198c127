"""Records the requests of the returners of Salt 3007.17: usage: record.py >requests.json, with Salt 3007's Python. There is no
library elasticsearch: the calls of its execution module are recorded."""

import datetime
import http.server
import importlib
import json
import pathlib
import sys
import threading
import urllib.parse

import requests
import salt.config
import salt.modules.config
import salt.modules.pushover_notify
import salt.modules.telegram
import salt.utils.http
import salt.utils.yaml

here = pathlib.Path(__file__).parent
received = []  # the requests of the case that runs
replies = []  # the answers to them


class Receiver(http.server.BaseHTTPRequestHandler):
    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        headers = {name.lower(): self.headers[name] for name in ["Authorization", "Content-Type"] if name in self.headers}
        received.append({"method": self.command, "path": self.path, "headers": headers, "body": body})
        text = replies.pop(0) if replies else '{"ok": true, "status": 1, "channel": "C1"}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    do_GET = do_POST = answer

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
threading.Thread(target=server.serve_forever, daemon=True).start()
query = salt.utils.http.query


def here_instead(url, *args, **kwargs):
    parts = urllib.parse.urlsplit(url)
    url = urllib.parse.urlunsplit(parts._replace(scheme="http", netloc=f"127.0.0.1:{server.server_port}"))
    return query(url, *args, **kwargs)


salt.utils.http.query, post = here_instead, requests.post
requests.post = lambda url, **kwargs: post(f"http://127.0.0.1:{server.server_port}{urllib.parse.urlsplit(url).path}", **kwargs)


def recorded(name):
    def call(*args, **kwargs):
        kwargs.update(zip(["index", "body" if name == "index_create" else "alias"], args))
        if name == "alias_create":
            kwargs["index"] = args[0]
        body = kwargs.get("body")
        kwargs["body"] = json.loads(body) if isinstance(body, str) else body
        kwargs.pop("id" if len(str(kwargs.get("id"))) == 36 else None, None)  # a random one
        received.append({"call": name, **{key: value for key, value in kwargs.items() if value is not None}})
        return name != "index_exists"

    return call


functions = {f"elasticsearch.{name}": recorded(name) for name in ["index_exists", "index_create", "alias_create", "document_create"]}
functions["config.option"], functions["config.get"] = salt.modules.config.option, salt.modules.config.get
functions["telegram.post_message"] = salt.modules.telegram.post_message
MODULES = {"slack": "slack_returner", "mattermost": "mattermost_returner", "pushover": "pushover_returner", "splunk": "splunk"}


def requests_of(case):
    name = case["returner"]
    module = importlib.import_module("salt.returners." + MODULES.get(name, f"{name}_return"))
    opts = {**salt.config.DEFAULT_MINION_OPTS, "grains": case.get("grains", {}), **case["opts"]}
    for used in [module, salt.modules.config, salt.modules.telegram, salt.modules.pushover_notify]:
        used.__opts__, used.__salt__, used.__pillar__, used.__grains__ = opts, functions, {}, opts["grains"]
    received.clear()
    replies[:] = case.get("replies", [])
    try:
        for function, *args in case["calls"]:
            getattr(module, function)(*args)
    except Exception as error:
        return {"error": type(error).__name__, "requests": list(received)}
    return {"requests": list(received)}


cases = json.loads((here / "cases.json").read_text())
found = {name: requests_of(case) for name, case in cases.items()}
for case in found.values():
    for request in case["requests"]:
        if "call" in request:
            (request.get("body") or {}).pop("@timestamp", None)
        elif request["path"].startswith("/services/collector"):
            event = json.loads(request["body"])
            request["body"] = json.dumps({**event, "time": "TIME", "host": "HOST"})
today = datetime.date.today().strftime("%Y.%m.%d")
print(json.dumps(found, indent=1, ensure_ascii=False).replace(today, "TODAY"))
