#!/bin/sh
# mariadb.sh: starts a MariaDB server in a throw-away root, which listens on the socket $dir/run/mysql.sock. Its root needs no password.
# It listens on the network with the options $network, if they are set. For the `prepare` of cases, which set dir=@ENV@ before, and whose configuration has `mysql.unix_socket: @ENV@/run/mysql.sock` and
# `mysql.user: root`. It defines the function sql for them. Missing programs come from the packages that tests/run keeps.
if [ ! -x /usr/sbin/mariadbd ]; then
    for part in usr lib; do cp -asn /var/cache/pinch-tests/mariadb/root/$part/. /$part/; done
    ldconfig
fi
id mysql >/dev/null 2>&1 || useradd --system --home-dir /nonexistent --shell /usr/sbin/nologin mysql
install -d -o mysql /var/lib/mysql
chown mysql "$dir/run"
chmod 711 "$dir"
mariadb-install-db --no-defaults --user=mysql --datadir=/var/lib/mysql --skip-test-db --auth-root-authentication-method=normal >/dev/null
sql() { mariadb --no-defaults --user=root --socket="$dir/run/mysql.sock" "$@"; }
setsid mariadbd --no-defaults --user=mysql --datadir=/var/lib/mysql --socket="$dir/run/mysql.sock" ${network:---skip-networking} --skip-log-bin \
    --innodb-flush-log-at-trx-commit=0 --innodb-buffer-pool-size=16M --general-log-file=/var/lib/mysql/said --general-log \
    >/var/lib/mysql/log 2>&1 </dev/null &
for _ in $(seq 600); do
    sql -e 'SELECT 1' >/dev/null 2>&1 && break
    sleep 0.1
done
