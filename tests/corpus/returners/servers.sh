#!/bin/sh
# servers.sh: starts the servers of mariadb.sh and postgres.sh for the folder $dir, with the tables of $dir/jsonb.sql, text.sql, mysql.sql and
# sqlite3.sql, and writes the configuration etc/minion of the returners. The folder of the corpus is in $corpus. The function `rows KIND`
# prints the rows of a returner as JSON, with a mark for each jid and time, and `each_case PROGRAM FILE` runs the calls of a file.
ip link set lo up
mkdir -p "$dir/run"
. "$corpus/postgres.sh"
psql -c 'CREATE DATABASE jsonb' -c 'CREATE DATABASE text'
psql jsonb <"$dir/jsonb.sql"
psql text <"$dir/text.sql"
chown root "$dir/run"
chmod 777 "$dir/run"
network='--bind-address=127.0.0.1 --port=3306'
. "$corpus/mariadb.sh"
chmod 777 "$dir/run"
sql -e "CREATE DATABASE salt CHARACTER SET utf8mb4; CREATE USER salt@'%' IDENTIFIED BY 'planted-secret'; GRANT ALL ON salt.* TO salt@'%'"
sql salt <"$dir/mysql.sql"
sqlite3 "$dir/salt.db" <"$dir/sqlite3.sql"
if ! command -v redis-server >/dev/null; then
    cp -asn /var/cache/pinch-tests/stores/root/usr/. /usr/
    ldconfig
fi
setsid redis-server --port 6379 --save '' --requirepass planted-secret >/dev/null 2>&1 </dev/null &
redis() { redis-cli -a planted-secret --no-auth-warning "$@"; }
while [ "$(redis ping 2>&1)" != PONG ]; do sleep 0.1; done
stop_servers() {
    kill "$(head -n 1 /var/lib/postgresql/data/postmaster.pid)"
    sql -e SHUTDOWN
    redis shutdown nosave || :
}
# count KIND QUERY: prints the answer of the database of a returner.
count() {
    case $1 in
    pgjsonb) psql --tuples-only --no-align jsonb -c "$2" ;;
    postgres) psql --tuples-only --no-align text -c "$2" ;;
    mysql) sql --batch --skip-column-names salt -e "$2" ;;
    sqlite3) sqlite3 "$dir/salt.db" ".timeout 5000" "$2" ;;
    esac
}
# start_postgres on|off: starts the server, which syncs or does not sync what is committed.
start_postgres() {
    # The processes of the killed server need a moment to end.
    for _ in $(seq 100); do
        as_postgres $bin/pg_ctl --pgdata=/var/lib/postgresql/data --wait --timeout=60 --silent --log=/var/lib/postgresql/log \
            --options="-k $dir/run -c listen_addresses='' -c fsync=$1" start >/dev/null 2>&1 && return
        sleep 0.2
    done
}
start_mariadb() {
    setsid mariadbd --no-defaults --user=mysql --datadir=/var/lib/mysql --socket="$dir/run/mysql.sock" $network --skip-log-bin \
        --innodb-buffer-pool-size=16M >>/var/lib/mysql/log 2>&1 </dev/null &
    for _ in $(seq 600); do
        sql -e 'SELECT 1' >/dev/null 2>&1 && return
        sleep 0.1
    done
}
# The server of mariadb.sh does not sync what is committed.
sync_mariadb() {
    sql -e SHUTDOWN
    while [ -S "$dir/run/mysql.sock" ]; do sleep 0.1; done
    start_mariadb
}
mkdir -p "$dir/etc/minion.d"
cat >"$dir/etc/minion.d/returners.conf" <<END
id: m1
postgres.bins_dir: /usr/lib/postgresql/15/bin
returner.pgjsonb: {host: $dir/run, user: postgres, pass: planted-secret, db: jsonb}
returner.postgres: {host: $dir/run, user: postgres, passwd: planted-secret, db: text}
mysql: {host: 127.0.0.1, pass: planted-secret}
sqlite3: {database: $dir/salt.db, timeout: 5}
redis: {host: 127.0.0.1, port: 6379, db: '0', password: planted-secret}
END

kinds='pgjsonb postgres mysql sqlite3 redis'
mask() { sed -E 's/20[0-9]{18}/JID/g; s/20[0-9]{2}-[0-9]{2}-[0-9]{2} [0-9:]{8}\.[0-9]{6}/DATE/g; s/(pid\\*": )[0-9]+/\1PID/g'; }
rows() {
    case $1 in
    pgjsonb) psql --tuples-only --no-align jsonb -c 'SELECT json_build_array(fun, jid, return, id, success, full_ret) FROM salt_returns ORDER BY alter_time' ;;
    postgres) psql --tuples-only --no-align text -c 'SELECT json_build_array(fun, jid, return, id, success, full_ret) FROM salt_returns ORDER BY alter_time' ;;
    mysql) sql --batch --raw --skip-column-names salt -e 'SELECT JSON_ARRAY(fun, jid, `return`, id, success, full_ret) FROM salt_returns' ;;
    sqlite3) sqlite3 "$dir/salt.db" 'SELECT json_array(fun, jid, id, fun_args, date, full_ret, success) FROM salt_returns' ;;
    redis)
        for key in $(redis --raw keys '*' | LC_ALL=C sort); do
            case $key in
            ret:*) redis --raw hgetall "$key" | sed "s/^/${key%%:*}: /" ;;
            minions) redis --raw smembers "$key" ;;
            *) echo "$key $(redis --raw get "$key")" ;;
            esac
            [ "$(redis ttl "$key")" -gt 86000 ] && echo 'for a day'
        done
        ;;
    esac | mask
}
each_case() {
    while read -r words; do
        for kind in $kinds; do
            eval "$1 -c $dir/etc --local $words --return $kind" >>"$dir/calls.log" 2>&1 </dev/null || :
        done
    done <"$2"
    for kind in $kinds; do rows $kind >"$dir/$kind.rows"; done
}
