#!/usr/bin/env python3
"""Records how Salt renders the templates in NAME.jinja. usage: PYTHON_OF_SALT tests/corpus/jinja/record.py NAME...

The templates of a file are separated by lines `=====`. NAME.salt.json has the answers in the same order. Imports come from `tree`.
"""

import json
import pathlib
import sys
import tempfile

import salt.config
import salt.loader
import salt.utils.templates
from salt.exceptions import SaltRenderError

HERE = pathlib.Path(__file__).resolve().parent
# As in agent/render/tests/jinja.rs.
VARIABLES = {
    "pillar": {"a": {"b": 1}, "l": [1, 2, 3], "m": {"deep": {"deeper": ["x"]}}, "s": "text"},
    "grains": {"os": "Debian", "list": ["g0"]},
    "sls": "t", "slspath": "", "slsdotpath": "", "slscolonpath": "", "sls_path": "",
    "tplpath": "/srv/t.sls", "tplfile": "t.sls", "tpldir": ".", "tpldot": "",
}


def options(folder):
    opts = salt.config.minion_config(None)
    opts.update(
        id="m1", file_client="local", root_dir=folder, cachedir=f"{folder}/cache", file_roots={"base": [str(HERE / "tree")]},
        grains=VARIABLES["grains"], pillar=VARIABLES["pillar"],
    )
    return opts


def answer(template, opts, functions):
    context = dict(VARIABLES, opts=opts, saltenv="base", env="base", salt=functions)
    try:
        return "OK " + salt.utils.templates.render_jinja_tmpl(template, context)
    except SaltRenderError as error:
        return f"ERR {error}"


def main():
    with tempfile.TemporaryDirectory() as folder:
        opts = options(folder)
        functions = salt.loader.minion_mods(opts)
        for name in sys.argv[1:]:
            templates = (HERE / f"{name}.jinja").read_text().split("=====\n")
            answers = [answer(template, opts, functions) for template in templates]
            text = json.dumps(answers, indent=1, ensure_ascii=False)
            (HERE / f"{name}.salt.json").write_text(text)


if __name__ == "__main__":
    main()
