#!/usr/bin/env python3
"""against-salt.py ENVDIR SALT-RUN [CASE...]: compare the recorded returns of these cases with those of Salt with a master and a minion m1.

A salt-master and a salt-minion must be running with the configuration ENVDIR/etc and the file roots ENVDIR/srv/{salt,pillar}. Cases whose
case.toml has a reason why they differ are skipped.
"""
import json, os, re, shutil, subprocess, sys, tomllib

HERE = os.path.dirname(os.path.abspath(__file__))
VOLATILE = {"duration", "start_time", "__jid__", "jid", "pid", "_stamp", "__orchestration__"}


def settled(value, env):
    if isinstance(value, dict):
        return {settled(k, env): settled(v, env) for k, v in value.items() if k not in VOLATILE}
    if isinstance(value, list):
        return [settled(v, env) for v in value]
    if isinstance(value, str):
        text = value.replace(env + "/out", "@TMP@").replace(env, "@ENV@")
        text = re.sub(r"All events seen in .*", "All events seen in T seconds.", text)
        return re.sub(r"(One or more requisite failed: )(.*)", lambda m: m[1] + ", ".join(sorted(m[2].split(", "))), text)
    return value


def first_difference(a, b, at="$"):
    if isinstance(a, dict) and isinstance(b, dict):
        if set(a) != set(b):
            return f"{at}: keys {sorted(set(a) ^ set(b))}"
        return next((d for k in a if (d := first_difference(a[k], b[k], f"{at}.{k}"))), None)
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return next((d for i in range(len(a)) if (d := first_difference(a[i], b[i], f"{at}[{i}]"))), None)
    return None if a == b else f"{at}: Salt {a!r:.300} / Pinch {b!r:.300}"


def check(name, env, salt_run):
    folder = os.path.join(HERE, name)
    case = tomllib.load(open(f"{folder}/case.toml", "rb"))
    if "differs" in case or case.get("call", "state.orchestrate") != "state.orchestrate":
        return "skipped"
    for part in ("srv/salt", "srv/pillar", "out"):
        shutil.rmtree(f"{env}/{part}", ignore_errors=True)
        os.makedirs(f"{env}/{part}")
    for source in (f"{HERE}/shared", folder):
        shutil.copytree(source, f"{env}/srv/salt", dirs_exist_ok=True)
    for root, _, files in os.walk(f"{env}/srv/salt"):
        for file in files:
            text = open(f"{root}/{file}").read()
            open(f"{root}/{file}", "w").write(text.replace("@TMP@", env + "/out").replace("@ENV@", env))
    if "pillar" in case:
        open(f"{env}/srv/pillar/top.sls", "w").write("base:\n  '*': [data]\n")
        open(f"{env}/srv/pillar/data.sls", "w").write(case["pillar"])
    words = [salt_run, "-c", f"{env}/etc", "--out=json", "state.orchestrate", *case.get("words", ["orch"])]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    try:
        answer = json.loads(done.stdout[done.stdout.index("{"):])
    except ValueError:
        return f"no JSON: {done.stdout[-300:]} {done.stderr[-300:]}"
    data = answer.get("data", answer)
    data = {"m1": next(iter(data.values()))} if isinstance(data, dict) else data
    expected = json.load(open(f"{folder}/return.json"))["data"]
    # A nested orchestration is also under the master's name.
    text = re.sub(r'"[^"\s]*_master"', '"m1"', json.dumps(settled(data, env)))
    return first_difference(json.loads(text), settled(expected, env)) or "agrees"


def main():
    env, salt_run, *names = sys.argv[1:]
    names = names or sorted(n for n in os.listdir(HERE) if os.path.exists(f"{HERE}/{n}/case.toml"))
    answers = []
    for name in names:
        answers.append(check(name, os.path.abspath(env), salt_run))
        if answers[-1] != "skipped":
            print(f"{name}: {answers[-1]}", flush=True)
    counts = [answers.count(word) for word in ("agrees", "skipped")]
    print(f"{counts[0]} agree, {counts[1]} skipped, {len(answers) - sum(counts)} differ")
    sys.exit(len(answers) > sum(counts))


main()
