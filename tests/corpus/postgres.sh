#!/bin/sh
# postgres.sh: starts a PostgreSQL server in a throw-away root, which listens on a socket in $dir/run and has the account `postgres`. For the
# `prepare` of cases, which set dir=@ENV@ before, and whose configuration has `postgres.host: @ENV@/run` and
# `postgres.bins_dir: /usr/lib/postgresql/15/bin`. It defines the function psql for them. Missing programs come from the packages that
# tests/run keeps.
bin=/usr/lib/postgresql/15/bin
if [ ! -x $bin/postgres ]; then
    cp -asn /var/cache/pinch-tests/postgres/root/usr/. /usr/
    ldconfig
fi
id postgres >/dev/null 2>&1 || useradd --system --home-dir /var/lib/postgresql --shell /bin/bash postgres
mkdir -p /var/lib/postgresql/data
chown -R postgres: /var/lib/postgresql "$dir/run"
chmod 711 "$dir"
as_postgres() { setpriv --reuid=postgres --regid=postgres --init-groups "$@"; }
psql() { as_postgres $bin/psql --quiet --no-psqlrc --host "$dir/run" --set ON_ERROR_STOP=1 "$@"; }
as_postgres $bin/initdb --pgdata=/var/lib/postgresql/data --auth=trust --locale=C --encoding=UTF8 --no-sync --wal-segsize=1 >/dev/null
as_postgres $bin/pg_ctl --pgdata=/var/lib/postgresql/data --wait --timeout=60 --silent --log=/var/lib/postgresql/log \
    --options="-k $dir/run -c listen_addresses='' -c fsync=off -c jit=off -c log_statement=all" start
