#!/bin/sh
# record.sh PYTHON-3007 PYTHON-3008: records sql.json beside this file, with the Python of each Salt. Needs root, and the packages that
# tests/run keeps. The servers are stopped at the end.
set -eu
here=$(realpath "$(dirname "$0")")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
chmod 755 "$dir"
"$1" - "$here/sql.yaml" "$dir" <<'PY'
import pathlib, sys, yaml
setup = yaml.safe_load(pathlib.Path(sys.argv[1]).read_text())["setup"]
for kind in ("sqlite3", "mysql", "postgres"):
    pathlib.Path(sys.argv[2], f"{kind}.sql").write_text(setup[kind] + setup["all"])
PY
export here dir corpus="$here/.." old="$1" new="$2"
"$corpus/throwaway.sh" "$dir" sh -euc '
. "$here/sql.sh"
"$old" "$here/sql.py" sqlite3,mysql "$dir" >"$dir/old.json"
"$new" "$here/sql.py" postgres "$dir" >"$dir/new.json"
kill "$(cat /var/lib/mysql/*.pid)"
as_postgres $bin/pg_ctl --pgdata=/var/lib/postgresql/data --silent --mode=immediate stop
' >&2
"$1" -c '
import json, sys
all = {}
for name in sys.argv[1:]:
    all.update(json.load(open(name)))
print(json.dumps(all, indent=1, ensure_ascii=False, sort_keys=True))
' "$dir/old.json" "$dir/new.json" >"$here/sql.json"
