#!/bin/sh
# record.sh: records the rows that Salt's returners write for cases.txt. Needs root, Salt in $SALT (a virtual environment), psycopg2,
# pymysql and redis in the folder $LIBRARIES, and Salt 3007's mysql.py, sqlite3_return.py and redis_return.py in $RETURNERS.
set -eu
here=$(dirname "$(readlink -f "$0")")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
chmod 755 "$dir"
mkdir -p "$dir/etc" "$dir/srv/_returners"
cp "$RETURNERS/mysql.py" "$RETURNERS/sqlite3_return.py" "$RETURNERS/redis_return.py" "$dir/srv/_returners"
cat >"$dir/etc/minion" <<END
root_dir: $dir/root
file_client: local
file_roots: {base: [$dir/srv]}
END
python3 - "$here/../../../packaging/docs/returners.md" "$dir" <<'END'
import re, sys
blocks = re.findall(r"```sql\n-- (\w+).*?\n(.*?)```", open(sys.argv[1]).read(), re.S)
sql = {name: text for name, text in blocks}
for name, text in [("jsonb", sql["PostgreSQL"]), ("text", sql["PostgreSQL"].replace("jsonb", "text")), ("mysql", sql["MySQL"]), ("sqlite3", sql["SQLite"])]:
    open(f"{sys.argv[2]}/{name}.sql", "w").write(text)
END
export PYTHONPATH="$LIBRARIES"
"$here/../throwaway.sh" "$dir" sh -euc '
dir=$1 corpus=$2/..
. "$2/servers.sh"
"$3/bin/salt-call" --local -c "$dir/etc" saltutil.sync_returners >/dev/null
each_case "$3/bin/salt-call" "$2/cases.txt"
stop_servers
' sh "$dir" "$here" "$SALT"
for kind in pgjsonb postgres mysql sqlite3 redis; do cp "$dir/$kind.rows" "$here/$kind.rows"; done
[ -z "${SHOW:-}" ] || cat "$dir/calls.log"
