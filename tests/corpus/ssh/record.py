#!/usr/bin/env python3
"""record.py [CASE...]: record which hosts a real Salt finds in rosters, with which agent/ssh compares Pinch.

    PATH=/path/to/ansible/bin:$PATH /path/to/salt/venv/bin/python tests/corpus/ssh/record.py

CASE/case.json has the options of the master (`@CASE@` is a copy of the folder CASE), and targets with their types. `cache` has the data
of minions in the master's cache. CASE/salt.json is what is recorded: for each target the entries of the hosts. Only the keys
in KEYS are kept. CASE/ours.json is what Pinch finds where it differs; the reason is in ../differences.toml.
CASE/listed.json is the output of `salt-ssh -H --out=json`, for cases with `"listed": true`: Salt lists only files of the roster flat, and fails
for an entry that is no dictionary.
The roster ansible of Salt needs the program ansible-inventory.
"""
import json, os, shutil, subprocess, sys, tempfile

import salt.cache, salt.config, salt.roster

HERE = os.path.dirname(os.path.abspath(__file__))
KEYS = ["host", "user", "port", "priv", "passwd", "sudo", "sudo_user", "tty", "timeout", "thin_dir", "minion_opts"]


def record(case, scratch):
    folder = os.path.join(scratch, "case")
    shutil.copytree(os.path.join(HERE, case), folder)
    with open(os.path.join(folder, "case.json")) as f:
        wanted = json.loads(f.read().replace("@CASE@", folder))
    config = os.path.join(scratch, "master")
    with open(config, "w") as f:
        json.dump({"root_dir": scratch, "user": "root", "pki_dir": scratch + "/pki"} | wanted["opts"], f)
    opts = salt.config.master_config(config)
    os.makedirs(os.path.join(opts["pki_dir"], "minions"), exist_ok=True)
    os.makedirs(opts["cachedir"], exist_ok=True)
    cache = salt.cache.factory(opts)
    for minion, data in wanted.get("cache", {}).items():
        with open(os.path.join(opts["pki_dir"], "minions", minion), "w") as f:
            f.write("key")
        cache.store("grains", minion, data.get("grains", {}))
        cache.store("pillar", minion, data.get("pillar", {}))
        cache.store("mine", minion, data.get("mine", {}))
    found = []
    for tgt, tgt_type in wanted["targets"]:
        hosts = salt.roster.Roster(opts, opts.get("roster", "flat")).targets(tgt, tgt_type)
        kept = {id_: {key: entry[key] for key in KEYS if key in entry} for id_, entry in sorted(hosts.items())}
        found.append(json.loads(json.dumps(kept, default=str).replace(folder, "@CASE@")))
    if wanted.get("listed"):
        salt_ssh = os.path.join(os.path.dirname(sys.executable), "salt-ssh")
        listed = subprocess.run([salt_ssh, "-c", scratch, "-H", "--out=json"], check=True, stdout=subprocess.PIPE, text=True).stdout
        with open(os.path.join(HERE, case, "listed.json"), "w") as f:
            f.write(listed.replace(folder, "@CASE@"))
    with open(os.path.join(HERE, case, "salt.json"), "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(one, sort_keys=True) for one in found) + "\n]\n")


def main():
    cases = sys.argv[1:] or sorted(os.path.basename(d.path) for d in os.scandir(HERE) if os.path.exists(d.path + "/case.json"))
    for case in cases:
        with tempfile.TemporaryDirectory(prefix="rosters-") as scratch:
            record(case, scratch)
        print(case)


main()
