# Finds a folder for the program, and prints what is in it. It becomes one line: each statement ends with a semicolon or a keyword.
umask 077;
u=$(id -u);
n=$(id -un 2>/dev/null) || n=$u;
echo "@MARK@ machine $(uname -m)";
[ "$(dd if=/bin/sh bs=1 skip=5 count=1 2>/dev/null)" = "$(printf "\\001")" ] && echo "@MARK@ little-endian";
case "$(cat /proc/cpuinfo 2>/dev/null)" in *Features*vfp*) ;; *Features*) echo "@MARK@ no-vfp" ;; esac;
command -v gzip >/dev/null 2>&1 && echo "@MARK@ gzip";
for d in @CANDIDATES@; do
  mkdir -p "$d" 2>/dev/null;
  [ -L "$d" ] && continue;
  [ -d "$d" ] || continue;
  set -- $(ls -ldn "$d");
  case "$1 $3" in "drwx------ $u"|"drwx------. $u") ;; *) continue ;; esac;
  t="$d/.try-$$";
  echo "exit 7" >"$t" 2>/dev/null && chmod 700 "$t" && "$t" 2>/dev/null;
  x=$?;
  rm -f "$t";
  [ "$x" = 7 ] || continue;
  echo "@MARK@ folder $d";
  for f in "$d"/pinch-*; do
    [ -f "$f" ] && echo "@MARK@ file $(wc -c <"$f") ${f##*/}";
  done;
  break;
done
