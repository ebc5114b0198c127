#!/bin/sh
# podman.sh, after corpus=@CORPUS@: in a throw-away root, podman of Debian's with the image localhost/box:1, which has busybox. For what runs under boot.sh, whose
# devices and control groups are this root's own. What this machine does not have comes from the packages that tests/run keeps.
cp -asn /var/cache/pinch-tests/podman/root/usr/. /usr/
if [ -d /var/cache/pinch-tests/podman/root/lib ]; then cp -asn /var/cache/pinch-tests/podman/root/lib/. /usr/lib/; fi
cp -rn /var/cache/pinch-tests/podman/root/etc/. /etc/
ldconfig
mkdir -p /dev/shm /dev/pts /dev/mqueue /etc/containers
mount -t tmpfs tmpfs /dev/shm
mount -t devpts devpts /dev/pts
mount -t cgroup2 cgroup2 /sys/fs/cgroup
ip link set lo up
cat >/etc/containers/containers.conf <<END
[containers]
cgroups = "disabled"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "crun"
END
# An overlay may not lie on an overlay everywhere.
printf '[storage]\ndriver = "vfs"\nrunroot = "/run/containers"\ngraphroot = "/var/lib/containers"\n' >/etc/containers/storage.conf
. "$corpus/box.sh"
podman import --quiet /tmp/box.tar localhost/box:1 >/dev/null
