"""Records what Salt 3008.5 answers to the cases of stack.yaml: stack.py >stack.json, with Salt's Python."""

import json
import pathlib
import sys
import tempfile

import salt.config
import salt.pillar
import yaml

here = pathlib.Path(__file__).parent
text = (here / "stack.yaml").read_text()


def replaced(value, folder):
    """Returns the value with the folder in the place of FOLDER."""
    return json.loads(json.dumps(value).replace("FOLDER", folder))


def keyed(value):
    """Returns the value with keys that JSON makes texts as they were."""
    if isinstance(value, dict):
        kinds = {str(key): key for key in (1, 2)} | {"null": None}
        return {kinds.get(key, key): keyed(inner) for key, inner in value.items()}
    return value


def answer(case, folder):
    """Returns the pillar, or the error as a text."""
    for path, contents in case.get("files", {}).items():
        path = pathlib.Path(folder, path)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(contents)
    own = pathlib.Path(folder, "pillar")
    own.mkdir()
    (own / "top.sls").write_text("base: {m1: [own]}\ndev: {m1: [own]}\n")
    (own / "own.sls").write_text(json.dumps(case.get("pillar", {})))
    opts = salt.config.DEFAULT_MINION_OPTS.copy()
    roots = {"base": [str(own)], "dev": [str(own)]}
    opts.update({"__role": "minion", "id": "m1", "cachedir": folder + "/cache", "pillar_roots": roots, "file_client": "local"})
    opts.update({"ext_pillar": [{"stack": keyed(replaced(case["config"], folder))}], **case.get("opts", {})})
    grains = {"id": "m1", **case.get("grains", {})}
    opts["grains"] = grains
    pillar = salt.pillar.Pillar(opts, grains, "m1", opts["saltenv"], pillarenv=opts["pillarenv"]).compile_pillar()
    errors = pillar.pop("_errors", None)
    if errors:
        lines = errors[0].replace(folder, "FOLDER").splitlines()
        return "error " + " | ".join(lines[:2])
    return json.loads(json.dumps(pillar, default=repr).replace(folder, "FOLDER"))


answers = {}
for name, case in yaml.safe_load(text).items():
    with tempfile.TemporaryDirectory() as folder:
        answers[name] = answer(case, folder)
json.dump(answers, sys.stdout, indent=1, ensure_ascii=False)
print()
