#!/bin/sh
# boot.sh DIR INIT: starts systemd, sysvinit, openrc or runit as process 1 of a throw-away copy of this machine's root, without a network.
# The packages of the init system (see tests/run) are unpacked there. Afterwards throwaway.sh runs programs in this root. Needs root.
# Exits with 77 if systemd cannot run because control groups cannot be mounted.
#
# The script calls itself: each step enters another layer of namespaces around the init system.
set -eu
step=$1 dir=$2 init=${3-}

unpack() {
	for package; do
		dpkg-deb --fsys-tarfile "/var/cache/pinch-tests/$package.deb" | tar --extract --keep-directory-symlink --directory=/
	done
}

case $step in

# Keeps the namespaces until process 1 ends, then removes the control groups that systemd has created.
hold)
	group=
	if [ "$init" = systemd ]; then
		group=/sys/fs/cgroup/throwaway-$$
		if ! mount -t cgroup2 cgroup2 /sys/fs/cgroup || ! mkdir "$group"; then
			touch "$dir/over/cannot"
			exit 1
		fi
	fi
	"$0" enter "$dir" "$init" "$group" &
	unshare=$!
	until child=$(cat /proc/$unshare/task/$unshare/children) && [ -n "$child" ]; do sleep 0.02; done
	echo "${child% }" >"$dir/over/init"
	wait $unshare || echo "process 1 exited with $?"
	for _ in $(seq 50); do
		[ -n "$group" ] && [ -e "$group" ] || break
		find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || sleep 0.1
	done
	;;

enter)
	[ -z "$4" ] || echo $$ >"$4/cgroup.procs"
	# The clock is that of the real machine: without this limit timedated would change it by the offset of the time zone.
	exec setpriv --bounding-set=-sys_time unshare --pid --fork --kill-child --mount --net --ipc --uts --cgroup "$0" root "$dir" "$init"
	;;

root)
	root=$dir/over/root
	mount -t overlay overlay -o "lowerdir=/,upperdir=$dir/over/changed,workdir=$dir/over/work" "$root"
	mount -t proc proc "$root/proc"
	mount --bind /sys "$root/sys"
	[ "$init" != systemd ] || mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
	mount -t tmpfs -o mode=755 tmpfs "$root/run"
	mount -t tmpfs -o mode=755 tmpfs "$root/dev"
	for device in null zero full random urandom tty; do
		: >"$root/dev/$device"
		mount --bind "/dev/$device" "$root/dev/$device"
	done
	ln -s /proc/self/fd "$root/dev/fd"
	mount --bind "$dir" "$root$dir"
	exec chroot "$root" "$0" "as-$init" "$dir"
	;;

as-systemd)
	# Disable all services: only those that a case starts are running.
	rm -rf /lib/systemd/system/*.wants /etc/systemd/system/*.wants
	rm -f /etc/rc?.d/[SK]*
	printf '[Service]\nType=oneshot\nExecStart=/bin/touch %s/over/booted\n' "$dir" >/etc/systemd/system/booted.service
	mkdir /etc/systemd/system/multi-user.target.wants
	ln -s ../booted.service /etc/systemd/system/multi-user.target.wants
	exec env -i PATH="$PATH" container=throwaway /lib/systemd/systemd --system --unit=multi-user.target --log-target=null --show-status=0
	;;

as-sysvinit | as-openrc)
	rm -rf /lib/systemd /bin/systemctl /etc/rc?.d
	unpack sysvinit-core insserv
	touch /run/utmp
	{
		echo 'id:2:initdefault:'
		if [ "$step" = as-openrc ]; then
			unpack libeinfo1 librc1 openrc
			echo 'l2:2:wait:/sbin/openrc default'
		fi
		echo "l3:2:once:/bin/touch $dir/over/booted"
	} >/etc/inittab
	exec env -i PATH="$PATH" /sbin/init
	;;

as-runit)
	rm -rf /lib/systemd /bin/systemctl
	unpack runit
	ln -sfn default /etc/runit/runsvdir/current
	printf '#!/bin/sh\ntouch %s/over/booted\n' "$dir" >/etc/runit/1
	printf '#!/bin/sh\nexec runsvdir -P /etc/service >/dev/null 2>&1\n' >/etc/runit/2
	exec env -i PATH="$PATH" /lib/runit/runit-init
	;;

*)
	dir=$1 init=$2
	mkdir -p "$dir/over/changed" "$dir/over/work" "$dir/over/root"
	setsid unshare --mount "$0" hold "$dir" "$init" >"$dir/over/log" 2>&1 </dev/null &
	for _ in $(seq 600); do
		[ ! -e "$dir/over/booted" ] || exit 0
		[ ! -e "$dir/over/cannot" ] || exit 77
		sleep 0.05
	done
	echo "$init has not started" >&2
	cat "$dir/over/log" >&2
	exit 1
	;;
esac
