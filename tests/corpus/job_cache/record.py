#!/usr/bin/env python3
"""Records a job cache of Salt in jobs/, and what Salt reads from it in salt.json. usage: SALT_VENV/bin/python tests/corpus/job_cache/record.py

Salt's returner `local_cache` writes all files. A return of an old release is a file with the bare value, which Salt still reads.
"""

import datetime
import json
import pathlib
import shutil

import salt.cache
import salt.payload
import salt.returners.local_cache as cache
import salt.runners.cluster as cluster
import salt.utils.jid
from salt.defaults import NOT_SET

HERE = pathlib.Path(__file__).parent
ROOT = HERE / "jobs"

PING = "20261119100843468059"
STATES = "20261119101055879502"
UNIQUE = "20261119101200000001_4711"
NOCACHE = "20261119101300000002"
SYNDIC = "20261119101400000003"
OLD = "20261119101500000004"
STUB = "20261119101600000005"


def load(jid, fun, tgt, tgt_type="glob", arg=(), **more):
    return {"cmd": "publish", "tgt": tgt, "fun": fun, "arg": list(arg), "tgt_type": tgt_type, "ret": "", "jid": jid, "user": "root", **more}


def publish(jid, minions, nocache=False, **of_load):
    cache.prep_jid(nocache=nocache, passed_jid=jid)
    cache.save_load(jid, load(jid, **of_load), minions=minions)


def returned(jid, id_, value, **more):
    cache.returner({"jid": jid, "id": id_, "return": value, "retcode": 0, "success": True, **more})


def write():
    publish(PING, ["m3", "m1", "m2"], fun="test.ping", tgt="*", kwargs={"metadata": {"ticket": "T-1"}, "delimiter": ":"})
    returned(PING, "m1", True)
    returned(PING, "m2", "not available", retcode=254, success=False)
    cache.update_endtime(PING, "2026, Nov 20 10:08:44.000001")

    publish(STATES, ["m1"], fun="state.apply", tgt=["m1"], tgt_type="list", arg=["web", {"__kwarg__": True, "test": True}])
    chunk = {
        "result": None,
        "comment": "Größe geändert",
        "changes": {"mtime": datetime.datetime(2026, 11, 20, 10, 10, 55, 12), "day": datetime.date(2026, 11, 20)},
        "__run_num__": 0,
        "duration": 1.5,
        "start_time": "10:10:55.000000",
        "name": "/etc/web",
    }
    returned(STATES, "m1", {"file_|-web_|-/etc/web_|-managed": chunk}, out="highstate")

    values = {"bytes": b"\x00\xff", "large": 2**64, "wide": 2**63, "set": {1}, 7: [None, -1, NOT_SET]}
    publish(UNIQUE, ["m1"], fun="test.arg", tgt="m1")
    returned(UNIQUE, "m1", values)

    publish(NOCACHE, ["m1"], nocache=True, fun="test.ping", tgt="m1")
    returned(NOCACHE, "m1", True)

    publish(SYNDIC, ["m1"], fun="test.version", tgt="*")
    cache.save_minions(SYNDIC, ["s2", "s1"], syndic_id="syndic1")
    returned(SYNDIC, "s1", "3008.5")

    publish(OLD, ["m1"], fun="cmd.run", tgt="m1", arg=["true"])
    folder = pathlib.Path(salt.utils.jid.jid_dir(OLD, str(ROOT), "sha256")) / "m1"
    folder.mkdir()
    salt.payload.dump("", (folder / "return.p").open("wb"))

    cache.prep_jid(passed_jid=STUB)


def shown(value):
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def main():
    shutil.rmtree(ROOT, ignore_errors=True)
    opts = {"cachedir": str(HERE), "hash_type": "sha256", "cache": "localfs", "extension_modules": ""}
    cache.__opts__ = cluster.__opts__ = opts
    write()
    answer = cluster.migrate_jobs_to_cache(dry_run=True)
    answer["jobs_root"] = "jobs"
    jobs = {}
    for jid, job in sorted(cache.get_jids().items()):
        job["Minions"] = cache.get_load(jid).get("Minions", [])
        job["Result"] = cache.get_jid(jid)
        jobs[jid] = job
    text = json.dumps({"answer": answer, "jobs": jobs}, indent=1, ensure_ascii=False, default=shown)
    (HERE / "salt.json").write_text(text + "\n")


main()
