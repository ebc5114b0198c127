#!/usr/bin/env python3
"""Records the returns of `schedule.*` on a running minion of Salt in manage.json. usage: SALT_VENV=DIR DIR/bin/python tests/corpus/schedule/manage.py

It starts a master and a minion of Salt on loopback, in a temporary folder. Each step is a command line of `salt`. The record has its return
and the contents of `_schedule.conf` after it.
"""

import json
import os
import pathlib
import shlex
import shutil
import subprocess
import tempfile
import time

import salt.utils.yaml

HERE = pathlib.Path(__file__).parent
BIN = pathlib.Path(os.environ["SALT_VENV"]) / "bin"

# The same as in tests/e2e/fleet/schedule.rs.
CONFIG = """schedule:
  configured: {function: test.ping, hours: 7, run_on_start: False}
"""
PILLAR = """schedule:
  of_pillar: {function: test.ping, hours: 9, run_on_start: False}
"""
SLS = {
    "present": "job7:\n  schedule.present: [{function: test.ping}, {hours: 4}]\n",
    "present_other": "job7:\n  schedule.present: [{function: test.ping}, {hours: 5}]\n",
    "present_unsaved": "job8:\n  schedule.present: [{function: test.ping}, {hours: 4}, {persist: False}]\n",
    "present_wrong": "job9:\n  schedule.present: [{function: test.ping}, {hours: 4}, {cron: '* * * * *'}]\n",
    "disabled": "job7:\n  schedule.disabled: []\n",
    "enabled": "job7:\n  schedule.enabled: []\n",
    "absent": "job7:\n  schedule.absent: []\n",
    "of_pillar": "of_pillar:\n  schedule.absent: []\n",
}

STEPS = """
schedule.list
schedule.list return_yaml=False
schedule.list where=pillar return_yaml=False
schedule.list where=opts return_yaml=False
schedule.add job1 function=test.ping hours=3
schedule.add job1 function=test.ping hours=3
schedule.add job2 function=test.ping hours=3 cron='* * * * *'
schedule.add job2 function=test.ping when=1pm cron='* * * * *'
schedule.add job2 function=test.ping hours=3 test=True
schedule.add job2 function=test.ping hours=3 job_args=no
schedule.add job2 function=test.ping hours=3 job_kwargs=no
schedule.add job2 function=test.ping when='no time at all'
schedule.add job2 function=test.arg job_args='[1, a]' job_kwargs='{b: 2}' days=3 maxrunning=2 splay=5 return_job=False metadata='{foo: bar}' run_on_start=False persist=False
schedule.add job3 function=test.ping hours=3 splay='{start: 10, end: 15}' enabled=False run_on_start=False
schedule.add job4 function=test.ping once=2099-01-02T03:04:05
schedule.add of_pillar function=test.ping hours=3
schedule.list
schedule.list show_disabled=False return_yaml=False
schedule.is_enabled
schedule.is_enabled job1
schedule.is_enabled job3
schedule.is_enabled nothing
schedule.modify job1 function=test.ping hours=4
schedule.modify job1 function=test.ping hours=4
schedule.modify job1 hours=5 test=True
schedule.modify job1 hours=5
schedule.modify job1 seconds=5 cron='* * * * *'
schedule.modify job1 when=1pm cron='* * * * *'
schedule.modify nothing seconds=5
schedule.modify job2 function=test.ping days=4 persist=False
schedule.modify of_pillar function=test.ping hours=4
schedule.modify configured hours=8
schedule.disable_job job1
schedule.disable_job job1 test=True
schedule.disable_job of_pillar
schedule.disable_job nothing
schedule.enable_job job1
schedule.enable_job job3 persist=False
schedule.enable_job nothing
schedule.enable_job of_pillar
schedule.run_job job1
schedule.run_job nothing
schedule.disable_job job3
schedule.run_job job3
schedule.run_job job3 force=True
schedule.show_next_fire_time job4
schedule.show_next_fire_time nothing
schedule.job_status job4
schedule.job_status job1
schedule.job_status nothing
schedule.job_status job4 time_fmt=%Y
schedule.postpone_job job4 2099-01-02T03:04:05 2099-01-02T04:04:05
schedule.postpone_job job4 nothing 2099-01-02T04:04:05
schedule.postpone_job job4 2099-01-02T03:04:05 nothing
schedule.postpone_job nothing 2099-01-02T03:04:05 2099-01-02T04:04:05
schedule.postpone_job of_pillar 2099-01-02T03:04:05 2099-01-02T04:04:05
schedule.skip_job job4 2099-01-02T04:04:05
schedule.skip_job job4 nothing
schedule.skip_job nothing 2099-01-02T04:04:05
schedule.skip_job job3 2099-01-02T04:04:05
schedule.list return_yaml=False
schedule.save
schedule.save test=True
schedule.reload
schedule.disable
schedule.is_enabled
schedule.disable test=True
schedule.list return_yaml=False
schedule.enable
schedule.is_enabled
schedule.enable test=True persist=False
schedule.delete job1
schedule.delete job1
schedule.delete job2 test=True
schedule.delete job2 persist=False
schedule.delete configured
schedule.delete of_pillar
schedule.list
state.sls present test=True
state.sls present
state.sls present
state.sls present_other test=True
state.sls present_other
state.sls present_wrong
state.sls present_unsaved
state.sls disabled test=True
state.sls disabled
state.sls enabled test=True
state.sls enabled
state.sls absent test=True
state.sls absent
state.sls absent
state.sls of_pillar
schedule.purge test=True
schedule.purge
schedule.list
""".strip().splitlines()


def start(program, folder, config):
    folder.mkdir(parents=True)
    for part in ["pki", "cache", "run"]:
        (folder / part).mkdir()
    (folder / program.split("-")[1]).write_text(
        f"pki_dir: {folder}/pki\ncachedir: {folder}/cache\nsock_dir: {folder}/run\n"
        f"log_file: {folder}/log\npidfile: {folder}/pid\nuser: root\n{config}"
    )
    return subprocess.Popen([BIN / program, "-c", folder], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def call(folder, words, fun):
    command = [BIN / "salt", "-c", folder / "master", "--out=json", "--static", "-t", "60", "m1"]
    if fun.startswith("state."):
        command.append("--log-level=quiet")
    answer = subprocess.run([*command, *words], capture_output=True, text=True)
    try:
        return json.loads(answer.stdout)["m1"]
    except (ValueError, KeyError):
        return None


def settled(answer):
    """Returns a state's return without the parts that differ in each run."""
    if not isinstance(answer, dict) or not any("_|-" in str(key) for key in answer):
        return answer
    fields = ["result", "comment", "changes"]
    return {key: {name: ret.get(name) for name in fields} for key, ret in answer.items()}


def saved_jobs(path):
    """Returns the contents of the file without the internal data of Salt's scheduler."""
    data = salt.utils.yaml.safe_load(path.read_text())
    for job in data["schedule"].values():
        if isinstance(job, dict):
            job.pop("run", None)
            if "splay" in job and job["splay"] is None:
                del job["splay"]
    return salt.utils.yaml.safe_dump(data)


def record(folder):
    for name, text in {"top": "base: {'*': [jobs]}", "jobs": PILLAR}.items():
        (folder / "pillar").mkdir(exist_ok=True)
        (folder / "pillar" / f"{name}.sls").write_text(text)
    (folder / "salt").mkdir()
    for name, text in SLS.items():
        (folder / "salt" / f"{name}.sls").write_text(text)
    roots = f"file_roots: {{base: [{folder}/salt]}}\npillar_roots: {{base: [{folder}/pillar]}}\n"
    ports = "publish_port: 24605\n"
    processes = [
        start("salt-master", folder / "master", f"interface: 127.0.0.1\nret_port: 24606\nauto_accept: True\n{ports}{roots}"),
        start("salt-minion", folder / "minion", f"id: m1\nmaster: 127.0.0.1\nmaster_port: 24606\nmine_enabled: False\n{ports}{CONFIG}"),
    ]
    try:
        while call(folder, ["test.ping"], "test.ping") is not True:
            time.sleep(1)
        time.sleep(5)
        saved = folder / "minion" / "minion.d" / "_schedule.conf"
        steps = []
        for step in STEPS:
            words = shlex.split(step)
            answer = settled(call(folder, words, words[0]))
            # A change that an event requests is made a little later.
            time.sleep(1.5)
            steps.append({
                "words": words,
                "return": answer,
                "saved": saved_jobs(saved) if saved.exists() else None,
            })
            print(step, json.dumps(answer), flush=True)
        return {"config": CONFIG, "pillar": PILLAR, "sls": SLS, "steps": steps}
    finally:
        for process in processes:
            process.terminate()
            process.wait()


def main():
    folder = pathlib.Path(tempfile.mkdtemp())
    try:
        recorded = record(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    (HERE / "manage.json").write_text(json.dumps(recorded, indent=1) + "\n")


if __name__ == "__main__":
    main()
