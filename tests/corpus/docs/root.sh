#!/bin/bash
# root.sh: the shell that runs the commands of a documentation page, in the throw-away root that throwaway.sh has made. The current folder
# has a file NUMBER.sh for each command. For each NUMBER on the standard input, the command runs with its output in NUMBER.out, and its exit
# code is printed. REPO is the folder of this repository, PINCH the program.
#
# The machine is called web1. It has only a loopback network, its own processes, no /etc/salt, no /srv, no systemd, and an apt with the
# packages that the pages install. All processes end with this one.
if [ -z "${docs_inside-}" ]; then
    docs_inside=yes exec unshare --uts --pid --fork --kill-child --mount-proc bash "$0"
fi
exec 3>&1 1>&2
set -eu
docs_folder=$PWD corpus=$REPO/tests/corpus
hostname web1
ip link set lo up
printf '127.0.0.1 localhost\n127.0.0.1 salt.example.com\n127.0.1.1 web1\n' >/etc/hosts
rm -rf /etc/salt /srv /var/cache/salt /var/log/salt /usr/local/bin/salt* /usr/local/bin/pinch
# Without a systemd, services are started with their init scripts.
rm -rf /lib/systemd /bin/systemctl /usr/sbin/insserv
mkdir -p /srv /usr/local/bin

. "$corpus/apt.sh"
mv "$repo" /var/lib/docs-packages
repo=/var/lib/docs-packages
rm "$repo"/*
echo "deb [trusted=yes] file:$repo ./" >/etc/apt/sources.list
package nginx 1.22.1
dpkg-deb -R "$repo/nginx_1.22.1_all.deb" /tmp/nginx
mkdir -p /tmp/nginx/etc/init.d /tmp/nginx/var/www/html
install -m 755 "$corpus/docs/nginx" /tmp/nginx/etc/init.d/nginx
echo '<h1>Welcome to nginx!</h1>' >/tmp/nginx/var/www/html/index.html
dpkg-deb -Znone --build /tmp/nginx "$repo/nginx_1.22.1_all.deb" >/dev/null
rm -r /tmp/nginx
index
apt-get -qq update

install -m 755 "$corpus/docs/crontab" /usr/local/bin/crontab
ln -s "$PINCH" /usr/local/bin/pinch
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
pinch install-links /usr/local/bin
unset docs_inside corpus repo build name version REPO PINCH SOURCE_DATE_EPOCH
cd /root
set +eu
docs_code=0
while read -r docs_number; do
    (exit "$docs_code")
    . "$docs_folder/$docs_number.sh" >"$docs_folder/$docs_number.out" 2>&1 </dev/null 3>&-
    docs_code=$?
    echo "$docs_code" >&3
done
