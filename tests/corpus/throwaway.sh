#!/bin/sh
# throwaway.sh DIR PROGRAM [WORD...]: runs PROGRAM in a throw-away copy of this machine's root, without network. Only DIR is
# the real one; what else changes is kept in DIR/over/changed, as an overlay keeps it. Needs root. Where boot.sh has started an
# init system for DIR, PROGRAM runs under that. The clock cannot be set. A signal that nohup or the like ignores is not ignored there: a daemon that PROGRAM
# starts could not trap it.
set -eu
dir=$1
if [ -e "$dir/over/init" ]; then
    shift
    exec env --default-signal setpriv --bounding-set=-sys_time nsenter --target "$(cat "$dir/over/init")" --mount --uts --ipc --net --pid --cgroup --root \
        sh -euc 'cd "$0" && exec "$@"' "$dir" "$@"
fi
mkdir -p "$dir/over/changed" "$dir/over/work" "$dir/over/root"
exec env --default-signal setpriv --bounding-set=-sys_time unshare --mount --net sh -euc '
dir=$1
shift
root=$dir/over/root
mount -t overlay overlay -o "lowerdir=/,upperdir=$dir/over/changed,workdir=$dir/over/work" "$root"
for folder in proc dev sys; do mount --rbind "/$folder" "$root/$folder"; done
mount --bind "$dir" "$root$dir"
exec chroot "$root" sh -euc "cd \"\$0\" && exec \"\$@\"" "$dir" "$@"
' sh "$@"
