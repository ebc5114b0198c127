#!/bin/sh
# sshd.sh DIR PORT [box|login|disks|script|servers|uptime|dropbear] [ARCHITECTURE]: runs OpenSSH's server on loopback in a throw-away copy of this
# machine's root, in which only DIR is the real folder. DIR/key.pub may log in as root. With `box`, a login sees a folder that contains
# busybox and the libraries of DIR/pinch alone, or only the busybox of another ARCHITECTURE, which is emulated.
# With `login`, the users `asked` and `free` have the password "pass word"; sudo asks only the first one for it, and a key counts once it is
# in their home. With `disks`, the folder /full has 1 MB and programs in /noexec cannot run. With `script`, the script DIR/host.sh answers
# all logins. With `servers`, haproxy, nginx and socat are unpacked. With `uptime`,
# DIR/uptime is the file from which programs read how long the machine is up. With `dropbear`, the server is dropbear's. DIR/ready appears when the
# server is about to listen. The processes of all logins end with this one. Needs root.
set -eu
dir=$1
mkdir -p "$dir/over/changed" "$dir/over/work" "$dir/over/root"
emulate=
[ -z "${4:-}" ] || emulate=$(realpath "$(dirname "$0")/../../cross/emulate")
export emulate
exec env --default-signal unshare --mount --pid --fork --kill-child sh -euc '
dir=$1 port=$2 box=${3:-} architecture=${4:-}
root=$dir/over/root
mount -t overlay overlay -o "lowerdir=/,upperdir=$dir/over/changed,workdir=$dir/over/work" "$root"
for folder in dev sys; do mount --rbind "/$folder" "$root/$folder"; done
mount -t proc proc "$root/proc"
mkdir -p "$root$dir"
mount --bind "$dir" "$root$dir"
for deb in /var/cache/pinch-tests/ssh/*.deb; do dpkg-deb --fsys-tarfile "$deb" | tar -x --keep-directory-symlink -C "$root"; done
grep -q "^sshd:" "$root/etc/passwd" || echo "sshd:x:74:65534::/run/sshd:/usr/sbin/nologin" >>"$root/etc/passwd"
mkdir -p "$root/run/sshd"
# The files of the user on this machine do not change the PATH of a login.
for file in .bashrc .profile .bash_profile; do : >"$root/root/$file"; done
cat >"$dir/sshd.conf" <<END
Port $port
ListenAddress 127.0.0.1
HostKey $dir/hostkey
AuthorizedKeysFile $dir/key.pub
StrictModes no
UsePAM no
PidFile none
PermitRootLogin yes
MaxStartups 200
Subsystem sftp internal-sftp
END
if [ "$box" = box ]; then
    sed -i "s,^root:.*,root:x:0:0::/root:/bin/sh," "$root/etc/passwd"
    mkdir -p "$root/box/bin" "$root/box/var/tmp" "$root/box/root" "$root/box/dev" "$root/box/proc" "$root/box/etc"
    chmod 755 "$root/box"
    chmod 1777 "$root/box/var/tmp"
    mount --rbind /dev "$root/box/dev"
    mount -t proc proc "$root/box/proc"
    mkdir -p "$dir/busybox"
    dpkg -x "/var/cache/pinch-tests/busybox-static${architecture:+-$architecture}.deb" "$dir/busybox"
    cp "$dir/busybox/bin/busybox" "$root/box/bin/busybox"
    ln -s busybox "$root/box/bin/sh"
    echo "root:x:0:0::/root:/bin/sh" >"$root/box/etc/passwd"
    [ "$architecture" ] || for library in $(ldd "$dir/pinch" 2>/dev/null | grep -o "/[^ ]*" || true); do install -D "$library" "$root/box$library"; done
    echo "ChrootDirectory /box" >>"$dir/sshd.conf"
fi
if [ "$box" = login ]; then
    sed -i "/^AuthorizedKeysFile/d" "$dir/sshd.conf"
    number=4100
    for user in asked free; do
        number=$((number + 1))
        echo "$user:x:$number:$number::/home/$user:/bin/sh" >>"$root/etc/passwd"
        echo "$user:x:$number:" >>"$root/etc/group"
        echo "$user:$(openssl passwd -6 "pass word"):20000:0:99999:7:::" >>"$root/etc/shadow"
        mkdir -p "$root/home/$user"
        chown "$number:$number" "$root/home/$user"
    done
    printf "%s\n" "asked ALL=(ALL) ALL" "free ALL=(ALL) NOPASSWD: ALL" >"$root/etc/sudoers"
    chmod 440 "$root/etc/sudoers"
fi
if [ "$box" = disks ]; then
    mkdir -p "$root/full" "$root/noexec"
    mount -t tmpfs -o size=1m,mode=700 none "$root/full"
    mount -t tmpfs -o noexec,mode=700 none "$root/noexec"
fi
if [ "$box" = uptime ]; then mount --bind "$dir/uptime" "$root/proc/uptime"; fi
if [ "$box" = servers ]; then
    for deb in /var/cache/pinch-tests/servers/*.deb; do dpkg-deb --fsys-tarfile "$deb" | tar -x --keep-directory-symlink -C "$root"; done
    chroot "$root" useradd --system --home-dir /var/lib/haproxy --shell /usr/sbin/nologin haproxy 2>/dev/null || true
fi
[ "$box" != script ] || echo "ForceCommand sh $dir/host.sh" >>"$dir/sshd.conf"
# The emulator finds its processes in the table of this namespace.
[ -z "$emulate" ] || mount -t proc proc /proc
touch "$dir/ready"
if [ "$box" = dropbear ]; then
    mkdir -p "$root/root/.ssh"
    chmod 700 "$root/root" "$root/root/.ssh"
    cp "$dir/key.pub" "$root/root/.ssh/authorized_keys"
    chroot "$root" dropbearconvert openssh dropbear "$dir/hostkey" "$dir/hostkey.dropbear"
    exec chroot "$root" /usr/sbin/dropbear -F -E -p "127.0.0.1:$port" -P "$dir/pid" -r "$dir/hostkey.dropbear"
fi
exec $emulate chroot "$root" /usr/sbin/sshd -D -e -f "$dir/sshd.conf"
' sh "$@"
