#!/bin/sh
# run.sh: in a throw-away root with the folder $dir, runs the orchestration deploy.sls so that it succeeds and so that it fails, on a machine without
# a master and on a master with a minion. Its mails go through Postfix, its messages to chat.py, and its results into PostgreSQL. $program is the
# path of the program, $corpus the folder of the corpus. The results are in $dir: mails, chats, and rows.
ip link set lo up
mkdir -p "$dir/run" "$dir/srv/orch"
cp "$corpus/notified/deploy.sls" "$dir/srv/orch/"
cp "$corpus/notified/web.sls" "$dir/srv/"
. "$corpus/postgres.sh"
psql -c 'CREATE DATABASE salt'
psql salt <"$dir/jsonb.sql"
. "$corpus/postfix.sh"
trap 'stop_postfix || :; as_postgres $bin/pg_ctl --pgdata=/var/lib/postgresql/data --silent --mode=immediate stop; kill $children' EXIT
children=
python3 "$corpus/notified/chat.py" 8080 >"$dir/chats" &
children="$children $!"
# Waits until it listens.
while ! grep -q ":1F90 .* 0A " /proc/net/tcp; do sleep 0.1; done
settings() {
    mkdir -p "$dir/$1/etc"
    cat >"$dir/$1/etc/$2" <<END
root_dir: $dir/$1
pki_dir: $dir/$1/pki
cachedir: $dir/$1/cache
sock_dir: $dir/$1/run
log_file: $dir/$1/log
file_roots: {base: [$dir/srv]}
ca_bundle: $dir/ca.crt
mail: {smtp.server: 'localhost:25', smtp.tls: True, smtp.sender: salt@example.org}
slack: {api_key: planted-secret}
slack.api_url: http://127.0.0.1:8080
returner.pgjsonb: {host: $dir/run, user: postgres, db: salt}
postgres.bins_dir: $bin
$3
END
}
orchestrate() {
    "$@" state.orchestrate orch.deploy >>"$dir/calls.log" 2>&1
    "$@" state.orchestrate orch.deploy pillar='{"broken": true}' >>"$dir/calls.log" 2>&1 && echo "a failed orchestration exits with 0" && exit 1
    return 0
}
settings alone minion 'file_client: local
id: alone'
orchestrate "$program" salt-call -c "$dir/alone/etc" --local --return pgjsonb
settings master master 'interface: 127.0.0.1
auto_accept: True
event_return: pgjsonb
event_return_whitelist: [salt/run/*/ret]'
settings minion minion 'master: 127.0.0.1
id: web1'
"$program" salt-master -c "$dir/master/etc" >>"$dir/calls.log" 2>&1 </dev/null &
children="$children $!"
while [ ! -S "$dir/master/run/master.sock" ]; do sleep 0.1; done
"$program" salt-minion -c "$dir/minion/etc" >>"$dir/calls.log" 2>&1 </dev/null &
children="$children $!"
until "$program" salt -c "$dir/master/etc" -t 5 web1 test.ping >>"$dir/calls.log" 2>&1; do sleep 0.2; done
orchestrate "$program" salt-run -c "$dir/master/etc"
for _ in $(seq 300); do
    [ "$(psql --tuples-only --no-align salt -c 'SELECT count(*) FROM salt_events')" = 2 ] && [ "$(ls "$dir/mail/new" | wc -l)" = 4 ] && break
    sleep 0.1
done
psql --tuples-only --no-align salt -c "SELECT json_build_array(fun, id, success, full_ret->'retcode') FROM salt_returns ORDER BY alter_time" >"$dir/rows"
psql --tuples-only --no-align salt -c "SELECT json_build_array(data->>'fun', data->'success') FROM salt_events ORDER BY id" >>"$dir/rows"
python3 "$corpus/notified/mails.py" "$dir/mail/new" >"$dir/mails"
