#!/usr/bin/env python3
"""record.py ENVDIR: record the returns of a real Salt for the chunks of each SLS in sls/, as NAME.json in this folder.

Run it with the Python in which Salt is installed. ENVDIR/etc/minion has the file_roots ENVDIR/srv/salt. Each NAME.json has the chunks in the
order in which they run, and the returns of a run and of a test run, without their times.
"""
import glob, json, os, shutil, sys

import salt.client, salt.config, salt.loader, salt.state

here = os.path.dirname(os.path.abspath(__file__))
env = os.path.abspath(sys.argv[1])
os.makedirs(env + "/srv/salt/run", exist_ok=True)
opts = salt.config.minion_config(env + "/etc/minion")
opts.update(file_client="local", local=True)
opts["grains"] = salt.loader.grains(opts)
caller = salt.client.Caller(mopts=opts)


def chunks(sls):
    highstate = salt.state.HighState(dict(opts, test=False))
    high, errors = highstate.render_highstate({"base": [sls]})
    state = highstate.state
    high, found = state.reconcile_extend(high)
    errors += found + state.verify_high(high)
    high, found = state.requisite_in(high)
    high = state.apply_exclude(high)
    low, more = state.compile_high_data(high)
    errors += found + more
    if errors:
        sys.exit(f"{sls}: {errors}")
    last = {}
    for chunk in low:
        # The target of a prereq is in the list twice: its test run comes first.
        chunk = {k: v for k, v in chunk.items() if k not in ("__prereq__", "__prerequiring__")}
        tag = salt.state._gen_tag(chunk)
        last.pop(tag, None)
        last[tag] = chunk
    return list(last.values())


def returns(sls, test):
    running = json.loads(json.dumps(caller.cmd("state.sls", sls, test=test, concurrent=True)))
    for ret in running.values():
        ret.pop("start_time", None)
        ret.pop("duration", None)
    return running


paths = sorted(glob.glob(here + "/sls/*.sls"))
for path in paths:
    shutil.copy(path, env + "/srv/salt/run/")
for path in paths:
    name = os.path.basename(path)[:-4]
    case = {"chunks": chunks("run." + name)}
    case["apply"] = returns("run." + name, False)
    case["test"] = returns("run." + name, True)
    with open(f"{here}/{name}.json", "w") as out:
        json.dump(case, out, separators=(",", ":"))
        out.write("\n")
