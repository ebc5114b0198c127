#!/usr/bin/env python3
"""Records what Salt's own checker decides for users of external_auth, in rules.json in this folder.

usage: SALT_VENV/bin/python tests/corpus/eauth/record.py

Each case has a table of external_auth, a user with groups, and calls with Salt's decision. The minions are m1 and m2; m1 has
the grain os: Debian. `pub` is a job: target, type of target, function or list of functions, and its arguments.
"""

import json
import pathlib
import tempfile

import salt.cache
import salt.config
import salt.utils.minions

HERE = pathlib.Path(__file__).parent


def kw(**given):
    return {"__kwarg__": True, **given}


JOBS = [
    ["m1", "glob", "test.ping", []],
    ["m2", "glob", "test.ping", []],
    ["*", "glob", "test.ping", []],
    ["m1,m2", "list", "test.ping", []],
    ["os:Debian", "grain", "test.ping", []],
    ["G@os:Debian", "compound", "test.arg", ["a"]],
    ["m1", "glob", "test.arg", ["a", "b"]],
    ["m1", "glob", "test.arg", ["b", kw(x="1")]],
    ["m1", "glob", "test.arg", [kw(x="1", y="2")]],
    ["m1", "glob", "cmd.run", ["id"]],
    ["m2", "glob", "cmd.run", ["id"]],
    ["m1", "glob", "cmd.run", ["id", kw(runas="root")]],
    ["m1", "glob", "cmd.run_all", ["id"]],
    ["m1", "glob", "state.apply", []],
    ["m1", "glob", "saltutil.find_job", ["20261120100843468059"]],
    ["m1", "glob", ["test.ping", "cmd.run"], [[], ["id"]]],
    ["m1", "glob", ["test.ping", "test.arg"], [[], ["a"]]],
]
CALLS = [
    ["runner", "jobs.active", [], {}],
    ["runner", "jobs.list_jobs", [], {}],
    ["runner", "jobs.lookup_jid", ["20261120100843468059"], {}],
    ["runner", "manage.up", [], {}],
    ["runner", "manage.up", [], {"timeout": "3"}],
    ["runner", "state.orchestrate", ["deploy"], {"pillar": "x"}],
    ["runner", "jobs", [], {}],
    ["runner", "jobs.a.b", [], {}],
    ["wheel", "key.list_all", [], {}],
    ["wheel", "key.accept", ["m1"], {}],
    ["wheel", "minions.connected", [], {}],
]

# A table, the user's name, and the user's groups. The table's keys may be users, groups and "*".
TABLES = [
    {"joe": [".*"]},
    {"joe": ["test.*"]},
    {"joe": ["test.ping"]},
    {"joe": ["test\\.ping$"]},
    {"joe": ["test"]},
    {"joe": ["cmd.run"]},
    {"joe": []},
    {"ann": [".*"]},
    {"joe": [{"m1": ["test.*"]}]},
    {"joe": [{"m1": "test.*"}]},
    {"joe": [{"m*": ["test.ping"]}]},
    {"joe": [{"*": ["test.ping", "cmd.*"]}]},
    {"joe": [{"G@os:Debian": ["test.*", "cmd.run"]}]},
    {"joe": [{"L@m1,m2": ["test.ping"]}]},
    {"joe": [{"not m2": ["cmd.run"]}]},
    {"joe": [{"E@m[12]": [".*"]}]},
    {"joe": [{"m1": ["test.*"]}, {"m2": ["cmd.run"]}]},
    {"joe": [{"m1": ["test.*"], "m2": ["cmd.run"]}]},
    {"joe": [{"nothing": [".*"]}]},
    {"joe": [{"m1": [{"test.arg": {"args": ["a.*", "b"]}}]}]},
    {"joe": [{"m1": [{"test.arg": {"args": [None, "b"]}}]}]},
    {"joe": [{"m1": [{"test.arg": [{"args": ["b"]}, {"args": ["a"]}]}]}]},
    {"joe": [{"m1": [{"test.arg": {"kwargs": {"x": "1"}}}]}]},
    {"joe": [{"m1": [{"test.arg": {"kwargs": {"x": None, "y": "2"}}}]}]},
    {"joe": [{"m1": [{"test.arg": {"args": ["b"], "kwargs": {"x": "1"}}}]}]},
    {"joe": [{"m1": [{"cmd.run": {"args": ["id"]}}]}]},
    {"joe": [{"m1": [{"cmd.run": {"args": ["rm.*"]}}, "test.ping"]}]},
    {"joe": [{"m1": [{"test.*": {}}]}]},
    {"joe": [{"m1": [{"test.ping": {}, "cmd.run": {}}]}]},
    {"joe": ["@runner"]},
    {"joe": ["@runners"]},
    {"joe": ["@wheel"]},
    {"joe": ["@wheels"]},
    {"joe": ["@jobs"]},
    {"joe": ["@jobs", "@key", "test.ping"]},
    {"joe": ["@job", "@", "runner", "@runner.jobs"]},
    {"joe": [".*", "@runner", "@wheel"]},
    {"joe": [{"@jobs": ["active", "list_.*"]}]},
    {"joe": [{"@jobs": "active"}]},
    {"joe": [{"@runner": ["jobs.active", "manage.*"]}]},
    {"joe": [{"@runners": ["jobs.list_jobs"]}]},
    {"joe": [{"@wheel": ["key.list_all"]}]},
    {"joe": [{"@key": ["list_.*"]}, {"@manage": ["up"]}]},
    {"joe": [{"@jobs": [{"lookup_jid": {"args": ["2026.*"]}}]}]},
    {"joe": [{"@manage": [{"up": {"kwargs": {"timeout": "3"}}}]}]},
    {"joe": [{"@state": [{"orchestrate": {"args": ["deploy"], "kwargs": {"pillar": None}}}]}]},
    {"joe": [{"@jobs": ["active"], "@manage": ["up"]}]},
    {"j*": ["test.ping"]},
    {"j.e": ["test.ping"]},
    {"J.*": [".*"]},
    {"ops%": ["test.ping", "@jobs"]},
    {"ops%": ["test.ping"], "joe": ["cmd.run"]},
    {"other%": [".*"]},
    {"*": ["test.ping"]},
    {"*": ["test.ping"], "joe": ["cmd.run"]},
    {"*": ["test.ping"], "ops%": ["cmd.run"]},
    {"*": ["test.ping"], "j.*": ["cmd.run"], "ops%": [{"m1": ["state.apply"]}]},
    {"*": ["@wheel"], "ann": ["@runner"]},
]


def checker(folder):
    opts = salt.config.master_config(None, defaults=dict(salt.config.DEFAULT_MASTER_OPTS, root_dir=str(folder)))
    for name in ("cachedir", "pki_dir", "sock_dir"):
        opts[name] = str(folder / name)
        (folder / name).mkdir()
    cache = salt.cache.Cache(opts)
    (folder / "pki_dir" / "minions").mkdir()
    for name, grains in (("m1", {"os": "Debian"}), ("m2", {"os": "Arch"})):
        (folder / "pki_dir" / "minions" / name).write_text("key")
        cache.store("grains", name, grains)
        cache.store("pillar", name, {})
        cache.store(f"minions/{name}", "data", {"grains": grains, "pillar": {}})
    return salt.utils.minions.CkMinions(opts)


def decided(ckminions, rules, job):
    target, kind, fun, arg = job
    return bool(
        ckminions.auth_check(rules, fun, arg, target, kind, publish_validate=True, whitelist=["saltutil.find_job"])
    )


def called(ckminions, rules, call):
    form, fun, arg, kwarg = call
    check = ckminions.runner_check if form == "runner" else ckminions.wheel_check
    answer = check(rules, fun, {"arg": arg, "kwarg": kwarg})
    return "error" if isinstance(answer, dict) else bool(answer)


def main():
    with tempfile.TemporaryDirectory() as folder:
        ckminions = checker(pathlib.Path(folder))
        found = ckminions.check_minions("G@os:Debian", "compound")["minions"]
        assert found == ["m1"] and sorted(ckminions.check_minions("*")["minions"]) == ["m1", "m2"], found
        cases = []
        for table in TABLES:
            for permissive in (False, True) if "*" in table else (False,):
                rules = ckminions.fill_auth_list(table, "joe", ["ops"], permissive=permissive)
                jobs = [decided(ckminions, rules, job) for job in JOBS]
                calls = [called(ckminions, rules, call) for call in CALLS]
                cases.append({"table": table, "permissive": permissive, "rules": rules, "jobs": jobs, "calls": calls})
    data = {"jobs": JOBS, "calls": CALLS, "cases": cases}
    lines = json.dumps(data, indent=None)
    text = lines.replace('{"table"', '\n{"table"').replace('"cases"', '\n"cases"').replace('"calls": [[', '\n"calls": [[')
    (HERE / "rules.json").write_text(text + "\n")


main()
