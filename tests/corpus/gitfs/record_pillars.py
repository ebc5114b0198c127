"""Records what Salt compiles from the cases of git_pillar: usage: record_pillars.py FOLDER-OF-SCRATCH >pillars.json, with Salt's Python and pygit2."""

import json
import os
import pathlib
import subprocess
import sys

import salt.config
import salt.pillar
import yaml

here = pathlib.Path(__file__).parent
scratch = pathlib.Path(sys.argv[1])
repositories = scratch / "repositories"
repositories.mkdir(parents=True)
subprocess.run(["sh", here / "repositories.sh", repositories], check=True)
own = scratch / "pillar"
own.mkdir()
(own / "top.sls").write_text("base:\n  '*':\n    - own\n")
(own / "own.sls").write_text("own: here\nwho: own\nmap: {d: own}\n")
text = (here / "pillars.yaml").read_text().replace("FOLDER", str(repositories))
answers = {}
for name, options in yaml.safe_load(text).items():
    opts = salt.config.DEFAULT_MINION_OPTS.copy()
    opts.update({"__role": "minion", "id": "m", "cachedir": str(scratch / "cache" / name), "pillar_roots": {"base": [str(own)]}})
    opts.update({"git_pillar_provider": "pygit2", "sock_dir": str(scratch), "file_client": "local", "grains": {"id": "m"}})
    opts.update(options)
    os.makedirs(opts["cachedir"])
    pillar = salt.pillar.Pillar(opts, {"id": "m"}, "m", opts["saltenv"], pillarenv=opts["pillarenv"])
    answers[name] = pillar.compile_pillar()
print(json.dumps(answers, indent=1, sort_keys=True, ensure_ascii=False))
