#!/usr/bin/env python3
"""Records the events of Salt's beacons as JSON in this folder. usage: PYTHONPATH=EXTRA SALT_VENV/bin/python tests/corpus/beacons/record.py

EXTRA is a folder with watchdog, psutil and a pyOpenSSL that cert_info can use (pip install --target EXTRA watchdog psutil
pyOpenSSL==24.2.1): with a newer version Salt's beacon does not load. The certificates are those of the existing cert_info.json.
"""

import importlib
import json
import os
import pathlib
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent

TABLE = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 1000     10    0    0    0     0          0         0     1000      10    0    0    0     0       0          0
  eth0: 123456   200    3    4    0     0          0         0   654321     300    5    6    0     0       0          0
"""

INTERFACES = [
    {"eth0": {"type": "equal", "bytes_sent": 654321}},
    {"eth0": {"type": "equal", "bytes_sent": 654320}},
    {"eth0": {"type": "greater", "bytes_recv": 123455, "errin": 100}},
    {"eth0": {"type": "greater", "bytes_recv": 123456}},
    {"eth0": {"dropout": "6"}},
    {"eth0": {"type": "other", "errout": 5, "dropin": 4}},
    {"eth0": {"type": "greater", "packets_sent": 1}, "lo": {"packets_recv": 10}, "eth9": {"errin": 0}},
    {"lo": {"type": "equal"}},
]

VALIDATED = [
    ("network_info", {}),
    ("network_info", [{"interfaces": {"eth0": []}}]),
    ("network_info", [{"interfaces": {"eth0": {"bytes": 1}}}]),
    ("network_info", [{"interfaces": {"eth0": {"type": "equal"}}}]),
    ("network_info", []),
    ("log", {}),
    ("log", []),
    ("log", [{"tags": {}}]),
    ("log", [{"file": "/var/log/x"}]),
    ("journald", {}),
    ("journald", [{"services": {"sshd": []}}]),
    ("journald", [{"services": {"sshd": {}}}]),
    ("journald", []),
    ("sh", {}),
    ("sh", []),
    ("cert_info", {}),
    ("cert_info", [{"notify_days": 5}]),
    ("cert_info", [{"files": ["/x"]}]),
    ("watchdog", {}),
    ("watchdog", []),
    ("watchdog", [{"directories": []}]),
    ("watchdog", [{"directories": {"/x": []}}]),
    ("watchdog", [{"directories": {"/x": {"mask": "create"}}}]),
    ("watchdog", [{"directories": {"/x": {"mask": ["creates"]}}}]),
    ("watchdog", [{"directories": {"/x": {"mask": ["create", "move"]}}}]),
    ("pkg", {}),
    ("pkg", []),
    ("pkg", [{"pkgs": "zsh"}]),
    ("pkg", [{"pkgs": ["zsh"]}]),
    ("swapusage", {}),
    ("swapusage", []),
    ("swapusage", [{"percent": "5%"}]),
    ("memusage", {}),
    ("memusage", []),
    ("memusage", [{"percent": 5}]),
    ("load", {}),
    ("load", []),
    ("load", [{"averages": {"2m": [0, 1]}}]),
    ("load", [{"averages": {"1m": [0], "5m": [0], "15m": [0]}}]),
    ("load", [{"onchangeonly": 5}, {"averages": {"1m": [0, 1], "5m": [0, 1], "15m": [0, 1]}}]),
    ("load", [{"averages": {"1m": [0, 1], "5m": [0, 1], "15m": [0, 1]}}]),
    ("ps", {}),
    ("ps", []),
    ("ps", [{"processes": []}]),
    ("ps", [{"processes": {"sshd": "running"}}]),
    ("service", {}),
    ("service", []),
    ("service", [{"services": []}]),
    ("service", [{"services": {"sshd": []}}]),
    ("service", [{"services": {"sshd": {}}}]),
    ("diskusage", {}),
    ("diskusage", [{"/": "5%"}]),
    ("inotify", {}),
    ("inotify", []),
    ("inotify", [{"files": []}]),
    ("inotify", [{"files": {"/x": []}}]),
    ("inotify", [{"files": {"/x": {}}}]),
    ("inotify", [{"files": {"/x": {"recurse": 5}}}]),
    ("inotify", [{"files": {"/x": {"mask": "create"}}}]),
    ("inotify", [{"files": {"/x": {"mask": ["creates"]}}}]),
    ("inotify", [{"files": {"/x": {"mask": ["create"]}}}]),
    ("status", {}),
    ("status", []),
    ("salt_monitor", [{"salt_fun": [{"test.ping": {"args": 5}}]}]),
    ("salt_monitor", [{"salt_fun": [{"test.ping": {"kwargs": {}}}]}]),
    ("salt_monitor", [{"salt_fun": [{"test.ping": {"kwargs": [5]}}]}]),
    ("salt_monitor", [{"salt_fun": [{"test.ping": {"arg": []}}]}]),
    ("salt_monitor", [{"salt_fun": ["test.ping", {"test.echo": {"args": ["x"], "kwargs": [{"a": 1}]}}]}]),
]

# The text that is appended to a file before each poll, and the patterns of the beacon.
LOG_TAGS = {"in/door": {"regex": ".*hello"}, "start": {"regex": "ab+c"}, "wrong": {"regex": "("}, "none": {"regex": ""}, "bare": {}}
LOG_STEPS = ["hello before\n", "hello\nx abc\nabbc hello\n", "", "nothing\n", "say hello\r\nabc\n"]

MODULES = {"log": "log_beacon"}


def beacon(name):
    module = importlib.import_module("salt.beacons." + MODULES.get(name, name))
    module.__context__ = {}
    module.__salt__ = {"test.ping": None, "test.echo": None}
    return module


def write(name, data):
    (HERE / name).write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n")


def validate():
    cases = []
    for name, config in VALIDATED:
        valid, text = beacon(name).validate(config)
        cases.append({"beacon": name, "config": config, "valid": valid, "text": text})
    write("validate.json", cases)


def network_info():
    import psutil

    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(folder + "/net")
        pathlib.Path(folder, "net/dev").write_text(TABLE)
        psutil.PROCFS_PATH = folder
        psutil.net_io_counters.cache_clear()
        cases = []
        for interfaces in INTERFACES:
            events = beacon("network_info").beacon([{"interfaces": interfaces}])
            cases.append({"interfaces": interfaces, "events": events})
        psutil.PROCFS_PATH = "/proc"
    write("network_info.json", {"table": TABLE, "cases": cases})


def cert_info():
    cases = json.loads((HERE / "cert_info.json").read_text())
    for case in cases:
        with tempfile.TemporaryDirectory() as folder:
            path = folder + "/" + case["name"] + ".pem"
            pathlib.Path(path).write_text(case["pem"])
            [event] = beacon("cert_info").beacon([{"files": [path]}, {"notify_days": -1}])
            [case["certificate"]] = event["certificates"]
            case["certificate"]["cert_path"] = case["name"]
            case["certificate"]["serial_number"] = str(case["certificate"]["serial_number"])
    write("cert_info.json", cases)


def log():
    module, steps = beacon("log"), []
    with tempfile.NamedTemporaryFile("a") as file:
        config = [{"file": file.name}, {"tags": LOG_TAGS}]
        for text in LOG_STEPS:
            file.write(text)
            file.flush()
            steps.append({"text": text, "events": module.beacon(config)})
    write("log.json", {"tags": LOG_TAGS, "steps": steps})


# Commands in a watched folder; `../out` is outside of it.
WATCHDOG = [
    ["echo x >> a"],
    ["echo x >> a"],
    ["chmod 600 a"],
    ["mv a b"],
    ["mkdir sub"],
    ["echo x >> sub/c"],
    ["mv sub sub2"],
    ["mv b ../out"],
    ["mv ../out c"],
    ["rm c"],
    ["ls"],
    ["echo x >> t", "mv t u"],
    ["rm sub2/c", "rmdir sub2"],
]


def watchdog():
    runs = []
    for mask in [None, ["create", "delete"], ["modify"], ["move"]]:
        module, steps = beacon("watchdog"), []
        with tempfile.TemporaryDirectory() as root:
            folder = root + "/in"
            os.mkdir(folder)
            config = [{"directories": {folder: {"mask": mask} if mask else {}}}]
            module.beacon(config)
            for commands in WATCHDOG:
                for command in commands:
                    os.system(f"cd {folder} && {command} > /dev/null" if command == "ls" else f"cd {folder} && {command}")
                time.sleep(1.2)
                events = module.beacon(config)
                for event in events:
                    event["path"] = event["path"].replace(folder, "DIR")
                steps.append({"commands": commands, "events": events})
            module.close(config)
        runs.append({"mask": mask, "steps": steps})
    write("watchdog.json", runs)


for record in (validate, network_info, cert_info, log, watchdog):
    if record.__name__ in (sys.argv[1:] or [record.__name__]):
        record()
