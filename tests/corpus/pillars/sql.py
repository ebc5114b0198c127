"""Records what Salt answers to the cases of sql.yaml: sql.py [mysql,sqlite3|postgres] FOLDER >>answers, with Salt's Python, in a throw-away root
in which sql.sh has filled the databases. Salt 3007.17 has sqlite3 and mysql (with PyMySQL), Salt 3008.5 has postgres (with psycopg2)."""

import functools
import importlib
import json
import pathlib
import sys

import yaml

here = pathlib.Path(__file__).parent
kinds, folder = sys.argv[1].split(","), sys.argv[2]
options = {
    "sqlite3": {"database": f"{folder}/pillar.db"},
    "mysql": {"user": "root", "pass": "", "db": "salt"},
    "postgres": {"host": f"{folder}/run", "user": "postgres", "db": "postgres"},
}
cases = yaml.safe_load((here / "sql.yaml").read_text())["cases"]


def written(config, kind):
    """Returns the configuration with the placeholder of this database."""
    if isinstance(config, str):
        return config.replace("%s", "?") if kind == "sqlite3" else config
    if isinstance(config, list):
        return [written(item, kind) for item in config]
    if isinstance(config, dict):
        return {key: written(value, kind) for key, value in config.items()}
    return config


def plain(value):
    """Returns the value with memory views as such, so that their bytes can be seen."""
    if isinstance(value, memoryview):
        return f"memoryview {bytes(value)!r}"
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    return value


answers = {}
for kind in kinds:
    if kind == "mysql":
        import pymysql

        pymysql.connect = functools.partial(pymysql.connect, unix_socket=f"{folder}/run/mysql.sock")
    module = importlib.import_module(f"salt.pillar.{kind}")
    module.__opts__ = options
    for name, case in cases.items():
        if kind not in case.get("only", ["sqlite3", "mysql", "postgres"]):
            continue
        config = written(case["config"], kind)
        try:
            if isinstance(config, dict):
                answer = module.ext_pillar("m1", {}, **config)
            elif isinstance(config, list):
                answer = module.ext_pillar("m1", {}, *config)
            else:
                answer = module.ext_pillar("m1", {}, config)
            answers[f"{name} {kind}"] = repr(plain(answer))
        except Exception as error:  # noqa: BLE001
            answers[f"{name} {kind}"] = f"error {type(error).__name__}: {error}".splitlines()[0]
json.dump(answers, sys.stdout, indent=0, ensure_ascii=False)
