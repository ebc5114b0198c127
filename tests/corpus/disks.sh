#!/bin/sh
# disks.sh: defines functions for the `prepare` of cases in a throw-away root.
# unpack PACKAGE...: unpacks packages that tests/run has downloaded.
set -eu
unpack() {
    for package in "$@"; do
        dpkg-deb --fsys-tarfile "/var/cache/pinch-tests/$package.deb" | tar --extract --keep-directory-symlink --directory=/
    done
}
# lvm_without_mapper PATTERN: sets up LVM for the loop devices with these numbers only, because other cases use others at the same time. The
# kernel of the tests has no device mapper. LVM works without it, so volumes exist but cannot be mounted.
lvm_without_mapper() {
    unpack lvm2 liblvm2cmd2.03 libdevmapper-event1.02.1
    mkdir -p /etc/lvm
    printf 'global { activation = 0 }\ndevices { global_filter = [ "a|^/dev/loop%s$|", "r|.*|" ] }\n' "$1" >/etc/lvm/lvm.conf
}
# disk NUMBER...: a program that attaches a loop device of 64 MB for each number, with its file in /srv.
cat >/usr/local/bin/disk <<'END'
#!/bin/sh
set -eu
for number; do
    [ -e "/dev/loop$number" ] || mknod "/dev/loop$number" b 7 "$number"
    truncate -s 64M "/srv/disk$number"
    losetup --detach "/dev/loop$number" 2>/dev/null || true
    losetup "/dev/loop$number" "/srv/disk$number"
done
END
chmod 755 /usr/local/bin/disk
