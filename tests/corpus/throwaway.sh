#!/bin/sh
# throwaway.sh DIR PROGRAM [WORD...]: runs PROGRAM in a throw-away copy of this machine's root, without a network. Only DIR is the real folder;
# all other changes are stored in DIR/over/changed, the upper layer of an overlay. If boot.sh has started an init system for DIR, PROGRAM
# runs under it. The clock cannot be set. All signals have their default action, also those that nohup or another program ignores, because
# a daemon that PROGRAM starts could not trap an ignored signal. Needs root.
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
