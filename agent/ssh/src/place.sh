# Appends its input to a partial file, checks it, and gives it its name. It becomes one line, as probe.sh.
umask 077;
p="@PART@";
@BEGIN@
cat >>"$p" || exit 11;
s=$(wc -c <"$p");
[ "$s" -lt @SIZE@ ] && exit 11;
h=$(sha256sum <"$p" 2>/dev/null) || h=;
case "$h" in
  @HASH@*) ;;
  "") [ "$s" -eq @SIZE@ ] || { rm -f "$p"; exit 12; } ;;
  *) rm -f "$p"; exit 12 ;;
esac;
chmod 700 "$p" && sync && mv -f "$p" "@PATH@" || exit 11
