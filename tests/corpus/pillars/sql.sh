#!/bin/sh
# sql.sh: starts the servers of mariadb.sh and postgres.sh for the folder $dir, and fills their databases and $dir/pillar.db from the files
# DATABASE.sql of $dir. The folder of the corpus is in $corpus.
mkdir -p "$dir/run"
. "$corpus/postgres.sh"
psql --file=- <"$dir/postgres.sql"
chown root "$dir/run"
chmod 777 "$dir/run"
(. "$corpus/mariadb.sh"; chmod 777 "$dir/run"; sql -e 'CREATE DATABASE salt CHARACTER SET utf8mb4'; sql salt <"$dir/mysql.sql")
sqlite3 "$dir/pillar.db" <"$dir/sqlite3.sql"
