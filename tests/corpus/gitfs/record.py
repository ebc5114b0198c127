"""Records what Salt answers to the cases of gitfs: usage: record.py FOLDER-OF-SCRATCH >answers.json, with Salt's Python and pygit2."""

import hashlib
import json
import os
import pathlib
import subprocess
import sys

import salt.config
import salt.fileserver
import salt.utils.gitfs
import yaml

here = pathlib.Path(__file__).parent
scratch = pathlib.Path(sys.argv[1])
repositories = scratch / "repositories"
repositories.mkdir(parents=True)
subprocess.run(["sh", here / "repositories.sh", repositories], check=True)
own = scratch / "srv"
(own / "web/files").mkdir(parents=True)
(own / "web/files/a.txt").write_text("own\n")
(own / "own.sls").write_text("own: {}\n")


def commit(name):
    found = subprocess.run(["git", "-C", repositories / "states", "rev-parse", name], capture_output=True, text=True, check=True)
    return found.stdout.strip()


known = {"SHA_V1": commit("v1^{commit}"), "SHA_DEV": commit("dev"), "FOLDER": str(repositories)}
text = (here / "cases.yaml").read_text()
for word, value in known.items():
    text = text.replace(word, value)
environments = ["base", "dev", "feature/x", "main", "master", "pr/7", "prod", "qa", "release-1", "staging", "v1", "v2", "v1.0.0", "nosuch", known["SHA_V1"]]
answers = {}
for name, options in yaml.safe_load(text).items():
    opts = salt.config.DEFAULT_MINION_OPTS.copy()
    opts.update({"__role": "minion", "id": "m", "cachedir": str(scratch / "cache" / name), "file_roots": {"base": [str(own)]}})
    opts.update({"fileserver_backend": ["gitfs"], "gitfs_provider": "pygit2", "sock_dir": str(scratch)})
    opts.update(options)
    opts["fileserver_backend"] = ["gitfs" if name == "git" else name for name in opts["fileserver_backend"]]
    salt.utils.gitfs.GitFS.instance_map.clear()
    os.makedirs(opts["cachedir"])
    files = salt.fileserver.Fileserver(opts)
    files.update()
    answer = {"environments": sorted(files.envs())}
    for env in environments:
        load = {"saltenv": env}
        listed = {}
        for path in sorted(files.file_list(dict(load))):
            found = files.find_file(path, env)
            if found.get("path"):
                listed[path] = hashlib.sha256(pathlib.Path(found["path"]).read_bytes()).hexdigest()[:12]
            else:
                listed[path] = None
        shown = "SHA_V1" if env == known["SHA_V1"] else env
        if listed:
            answer[shown] = {
                "files": listed,
                "dirs": sorted(files.dir_list(dict(load))),
                "links": files.symlink_list(dict(load)),
            }
    answers[name] = answer
print(json.dumps(answers, indent=1, sort_keys=True, ensure_ascii=False))
