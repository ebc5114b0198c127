#!/bin/sh
# kills.sh: after servers.sh, fires $rounds times some events at a master whose event_return and master_job_cache are the four returners, and
# kills the master or a database each time. $program is the path of the program. Each time, a minion has a job. At the end, the tables must have each event once, in
# order, and each return.
mkdir -p "$dir/master/etc/master.d" "$dir/master/run"
cat >"$dir/master/etc/master" <<END
root_dir: $dir/master
pki_dir: $dir/master/pki
cachedir: $dir/master/cache
sock_dir: $dir/master/run
log_file: $dir/master/log
interface: 127.0.0.1
user: root
event_return: [pgjsonb, postgres, mysql, sqlite3]
event_return_whitelist: ['my/*']
master_job_cache: [pgjsonb, postgres, mysql, sqlite3, redis]
auto_accept: True
END
mkdir -p "$dir/minion/etc"
cat >"$dir/minion/etc/minion" <<END
root_dir: $dir/minion
pki_dir: $dir/minion/pki
cachedir: $dir/minion/cache
sock_dir: $dir/minion/run
log_file: $dir/minion/log
master: 127.0.0.1
id: m1
END
cp "$dir/etc/minion.d/returners.conf" "$dir/master/etc/master.d/returners.conf"
sed -i '/^id:/d' "$dir/master/etc/master.d/returners.conf"
start_master() {
    rm -f "$dir/master/run/master.sock"
    "$program" salt-master -c "$dir/master/etc" >>"$dir/calls.log" 2>&1 </dev/null &
    master=$!
    for _ in $(seq 300); do
        [ -S "$dir/master/run/master.sock" ] && return
        sleep 0.1
    done
    echo "the master does not start"
    exit 1
}
sync_mariadb
start_master
"$program" salt-minion -c "$dir/minion/etc" >>"$dir/calls.log" 2>&1 </dev/null &
minion=$!
fired=0
for round in $(seq "$rounds"); do
    for _ in 1 2 3 4 5; do
        fired=$((fired + 1))
        "$program" salt-run -c "$dir/master/etc" event.send "my/$fired" "{n: $fired}" >>"$dir/calls.log" 2>&1
    done
    for _ in $(seq 50); do
        "$program" salt -c "$dir/master/etc" -t 20 --out=txt m1 test.echo "ret $round" >"$dir/answer" 2>>"$dir/calls.log" || :
        grep -q "ret $round" "$dir/answer" && break
        sleep 0.2
    done
    case $((round % 4)) in
    0) kill -9 "$(head -n 1 /var/lib/postgresql/data/postmaster.pid)" && start_postgres off ;;
    1) kill -9 "$(pgrep -n -f "mariadbd.*$dir/run/mysql.sock")" && start_mariadb ;;
    *) kill -9 "$master" && wait "$master" 2>/dev/null || : && start_master ;;
    esac
done
for kind in pgjsonb postgres mysql sqlite3; do
    for _ in $(seq 900); do
        [ "$(count $kind 'SELECT count(DISTINCT tag) FROM salt_events')" = "$fired" ] && break
        sleep 0.1
    done
    count $kind 'SELECT tag FROM salt_events ORDER BY id' >"$dir/$kind.tags"
    done_once='SELECT count(DISTINCT jid) FROM salt_returns'
    for _ in $(seq 300); do
        [ "$(count $kind "$done_once")" -ge "$rounds" ] && break
        sleep 0.1
    done
    count $kind "$done_once" >"$dir/$kind.jobs"
    count $kind "SELECT count(*) FROM salt_returns" >>"$dir/$kind.jobs"
    count $kind "SELECT count(DISTINCT s.jid) FROM salt_returns s JOIN jids j ON j.jid = s.jid" >>"$dir/$kind.jobs"
done
redis --raw keys 'ret:*' | wc -l >"$dir/redis.jobs"
kill "$minion" "$master"
wait "$minion" "$master" || :
