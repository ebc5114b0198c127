#!/usr/bin/env python3
"""record.py PYTHON [CASE...]: record the answers of a real Salt to each case of this folder in CASE/expected.json.

PYTHON is a Python that can import salt. A case is a folder of SLS files; `main` is the one that is run.
"""
import json, os, shutil, subprocess, sys, tempfile
here = os.path.dirname(os.path.abspath(__file__))
if os.path.basename(sys.argv[1]) != "inside":
    sys.exit(subprocess.call([sys.argv[1], os.path.abspath(__file__), "inside", *sys.argv[2:]]))
import logging; logging.disable(logging.CRITICAL)
import salt.config, salt.loader, salt.client
env = tempfile.mkdtemp()
roots = env + "/srv/salt"
with open(env + "/minion", "w") as config:
    config.write(f"id: m1\nroot_dir: {env}/root\nfile_roots: {{base: [{roots}]}}\npillar_roots: {{base: [{env}/srv/pillar]}}\nenable_fqdns_grains: False\n")
def call(*words):
    opts = salt.config.minion_config(env + "/minion"); opts["file_client"] = "local"; opts["local"] = True
    try: return salt.client.Caller(mopts=opts).cmd(*words)
    except Exception as e: return {"exception": type(e).__name__}
for case in sys.argv[2:] or sorted(os.listdir(here)):
    if not os.path.isdir(f"{here}/{case}"): continue
    shutil.rmtree(roots, ignore_errors=True); shutil.copytree(f"{here}/{case}", roots)
    open(roots + "/top.sls", "w").write("base:\n  '*':\n    - main\n")
    shutil.rmtree(env + "/root", ignore_errors=True)
    got = {f: call("state." + f, *(["main"] if f != "show_lowstate" else [])) for f in ("show_sls", "show_low_sls", "show_lowstate")}
    json.dump(got, open(f"{here}/{case}/expected.json", "w"), indent=1, ensure_ascii=False); open(f"{here}/{case}/expected.json", "a").write("\n")
    print(case, flush=True)
shutil.rmtree(env)
