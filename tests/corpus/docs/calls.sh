#!/bin/bash
# calls.sh: runs the examples of the functions in the throw-away root that throwaway.sh has made. The current folder has folders NUMBER.group, in
# which a file NUMBER.sh is a command: its output is written to NUMBER.out, and its exit code to NUMBER.code. The commands of a group run one
# after another. `srv` is the tree, PINCH the program.
#
# The machine is called web1, and is a master and its minion. It has only a loopback network, its own processes, no disks and no sockets of this
# machine. The settings of the kernel cannot be changed, and the machine cannot be rebooted. A call takes at most SECONDS_MAX seconds.
if [ -z "${calls_inside-}" ]; then
    calls_inside=yes exec setpriv --bounding-set=-sys_boot,-sys_module,-sys_rawio \
        unshare --uts --ipc --pid --fork --kill-child --mount-proc bash "$0"
fi
set -eu
folder=$PWD
hostname web1
ip link set lo up
mkdir -p "$folder/dev"
mount -t tmpfs dev "$folder/dev"
for name in full null random tty urandom zero; do
    touch "$folder/dev/$name"
    mount --bind "/dev/$name" "$folder/dev/$name"
done
mkdir "$folder/dev/shm"
ln -s /proc/self/fd "$folder/dev/fd"
mount --move "$folder/dev" /dev
mount -t tmpfs run /run
mount --bind /proc/sys /proc/sys
mount -o remount,bind,ro /proc/sys
mount -o remount,bind,ro /sys

rm -rf /etc/salt /srv /var/cache/salt /var/log/salt
mkdir -p /etc/salt /usr/local/bin
cp -r "$folder/srv" /srv
echo 'auto_accept: True' >/etc/salt/master
printf 'master: 127.0.0.1\nid: web1\n' >/etc/salt/minion
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
ln -sf "$PINCH" /usr/local/bin/pinch
pinch install-links /usr/local/bin >/dev/null
salt-master -d
salt-minion -d
for _ in $(seq 100); do
    if salt web1 test.ping 2>/dev/null | grep -q True; then
        break
    fi
    sleep 0.1
done
salt web1 test.ping >/dev/null

unset calls_inside PINCH
# Programs that need a network give up at once; others are not waited for.
rm -rf /etc/apt/sources.list /etc/apt/sources.list.d
echo 'Acquire::Retries "0";' >/etc/apt/apt.conf.d/99calls
export PIP_RETRIES=0 npm_config_fetch_retries=0
cd /root
# Each group has its own network: a packet filter must not separate the minion from its master. They talk to this program over sockets in /run.
find "$folder" -maxdepth 1 -name '*.group' | sort -V | xargs -P 4 -n 1 unshare --net bash -c '
    for call in $(find "$0" -name "*.sh" | sort -V); do
        timeout -k 1 "$SECONDS_MAX" bash "$call" >"${call%.sh}.out" 2>&1 </dev/null
        echo $? >"${call%.sh}.code"
    done'
