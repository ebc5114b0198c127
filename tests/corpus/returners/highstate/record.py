"""Records the reports of Salt's returner `highstate`: usage: record.py >reports.json, with Salt's Python."""

import json
import pathlib
import smtplib
import tempfile

import salt.returners.highstate_return as highstate

sent = []


class Server:
    def __init__(self, host, port):
        self.sent = {"host": host, "port": port, "tls": False, "username": None}
        sent.append(self.sent)

    def starttls(self):
        self.sent["tls"] = True

    def login(self, username, password):
        self.sent["username"] = username

    def sendmail(self, sender, recipients, message):
        parsed = __import__("email").message_from_string(message)
        text = parsed.get_payload(decode=True).decode()
        self.sent.update(sender=sender, recipients=recipients, subject=parsed["Subject"], kind=parsed.get_content_type(), text=text)

    def quit(self):
        pass


smtplib.SMTP = Server
grains = {"id": "web1", "host": "web", "b": {"d": 1, "c": [1, {"x": "y"}]}, "a": "<text>"}
results = []
for case in json.loads((pathlib.Path(__file__).parent / "cases.json").read_text()):
    sent.clear()
    with tempfile.TemporaryDirectory() as folder:
        options = {"file_output": "DIR/report", **case["options"]}
        options["file_output"] = options["file_output"].replace("DIR", folder)
        config = {"highstate": options, "other.highstate": {"report_format": "json"}}
        highstate.__opts__ = {}
        highstate.__grains__ = grains
        highstate.__salt__ = {
            "config.option": lambda name, default="": config.get(name, default),
            "grains.items": lambda: grains,
            "grains.ls": lambda: sorted(grains),
            "test.ping": lambda: True,
        }
        highstate.returner(case["ret"])
        files = {file.name: file.read_text() for file in pathlib.Path(folder).iterdir()}
    results.append({"name": case["name"], "files": files, "mail": sent[0] if sent else None})
print(json.dumps(results, indent=1))
