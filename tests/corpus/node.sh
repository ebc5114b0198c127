#!/bin/sh
# node.sh DIR ADDRESS HUB PROGRAM [WORD...]: runs PROGRAM in a throw-away copy of this machine's root, as throwaway.sh does, with its own
# processes, host name (the name of DIR) and network: it has ADDRESS on a link to the bridge br0 in the namespace of the process HUB.
# The packages of haproxy and nginx that `tests/run` keeps are unpacked there, with their init.d scripts, and dpkg lists them as installed.
# Needs root. Everything is removed when this process ends.
#
# node.sh hub ADDRESS: creates such a namespace, prints "ready", and keeps the namespace.
#
# The script calls itself: each step enters another layer of namespaces around a node.
set -eu
cache=/var/cache/pinch-tests/servers

# Removes systemd, so that services are started with init.d: with systemctl but no running systemd the root would look as if it was not booted.
# Also removes insserv, which fails for each service if this machine has the scripts of only some of its services.
install_servers() {
	rm -rf "$1/lib/systemd" "$1/bin/systemctl" "$1/sbin/insserv"
	for package in "$cache"/*.deb; do
		dpkg-deb --fsys-tarfile "$package" | tar --extract --keep-directory-symlink --directory="$1"
		printf 'Status: install ok installed\n%s\n\n' "$(dpkg-deb -f "$package")" >>"$1/var/lib/dpkg/status"
	done
	chroot "$1" useradd --system --home-dir /var/lib/haproxy --shell /usr/sbin/nologin haproxy
}

case $1 in
hub)
	if [ -z "${3-}" ]; then
		exec unshare --net "$0" hub "$2" inside
	fi
	ip link set lo up
	ip link add br0 type bridge
	ip address add "$2/24" dev br0
	ip link set br0 up
	ip link add probe type veth peer name eborp
	ip link delete probe
	echo ready
	exec sleep 3600
	;;

wired)
	dir=$2 address=$3 hub=$4 name=${2##*/}
	ip link set lo up
	ip link add eth0 type veth peer name "$name" netns "$hub"
	ip address add "$address/24" dev eth0
	ip link set eth0 up
	nsenter --target "$hub" --net ip link set "$name" master br0 up
	hostname "$name"
	shift 4
	exec unshare --pid --fork --kill-child --mount "$0" rooted "$dir" "$@"
	;;

rooted)
	dir=$2 root=$2/over/root
	shift 2
	mount -t overlay overlay -o "lowerdir=/,upperdir=$dir/over/changed,workdir=$dir/over/work" "$root"
	mount -t proc proc "$root/proc"
	for folder in dev sys; do mount --rbind "/$folder" "$root/$folder"; done
	mount -t tmpfs -o mode=755 tmpfs "$root/run"
	mount --bind "$dir" "$root$dir"
	[ -e "$dir/over/installed" ] || install_servers "$root"
	touch "$dir/over/installed"
	mkdir -p "$root/run/haproxy"
	# The shell is process 1: it reaps orphaned processes.
	exec chroot "$root" sh -euc 'cd /; "$@" & wait' sh "$@"
	;;

*)
	dir=$1
	mkdir -p "$dir/over/changed" "$dir/over/work" "$dir/over/root"
	exec env --default-signal setpriv --bounding-set=-sys_time unshare --net --uts "$0" wired "$@"
	;;
esac
