#!/bin/sh
# podman.sh: sets up Debian's podman in a throw-away root, with the image localhost/box:1, which contains busybox. Set corpus=@CORPUS@
# before. For roots that boot.sh started, which have their own devices and control groups. Missing programs come from the packages that
# tests/run keeps.
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
# Some kernels do not allow an overlay on an overlay, so use plain folders.
printf '[storage]\ndriver = "vfs"\nrunroot = "/run/containers"\ngraphroot = "/var/lib/containers"\n' >/etc/containers/storage.conf
. "$corpus/box.sh"
podman import --quiet /tmp/box.tar localhost/box:1 >/dev/null
