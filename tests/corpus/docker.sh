#!/bin/sh
# docker.sh: starts Debian's docker in a throw-away root, with the image localhost/box:1, which contains busybox. Set corpus=@CORPUS@ before.
# For cases with `boot`, which have their own devices and control groups. Missing programs come from the packages that tests/run keeps.
rm -f /usr/local/bin/docker
cp -asn /var/cache/pinch-tests/docker/root/usr/. /usr/
mkdir -p /dev/shm /dev/pts /dev/mqueue /var/lib/docker
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /var/lib/docker
mount -t devpts devpts /dev/pts
mount -t cgroup2 cgroup2 /sys/fs/cgroup
# Remove empty control groups of earlier cases.
find /sys/fs/cgroup/docker -mindepth 1 -depth -type d -exec rmdir {} + 2>/dev/null || true
ip link set lo up
setsid dockerd --storage-driver vfs --exec-opt native.cgroupdriver=cgroupfs >/tmp/dockerd.log 2>&1 </dev/null &
for _ in $(seq 600); do
    if docker version >/dev/null 2>&1; then break; fi
    sleep 0.1
done
. "$corpus/box.sh"
docker import /tmp/box.tar localhost/box:1 >/dev/null
