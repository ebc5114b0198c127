# Appends its input, which may be compressed, to a partial file, checks it, and gives it its name. It becomes one line, as probe.sh. Meanwhile the partial file has a
# name that no other transfer uses.
umask 077;
p="@PART@";
q="$p.$$";
if [ @FROM@ -eq 0 ]; then rm -f "$q"; elif [ "@OLD@" = "$p" ]; then mv "$p" "$q" || exit 13; else head -c @FROM@ "@OLD@" >"$q" || { rm -f "$q"; exit 13; }; fi;
[ @FROM@ -eq 0 ] || [ "$(wc -c <"$q")" -eq @FROM@ ] || { mv "$q" "$p"; exit 13; };
@UNPACK@cat >>"$q" || { rm -f "$q"; exit 11; };
s=$(wc -c <"$q");
[ "$s" -ge @SIZE@ ] || { mv "$q" "$p"; exit 11; };
h=$(sha256sum <"$q" 2>/dev/null) || h=;
case "$h" in
  @HASH@*) ;;
  "") [ "$s" -eq @SIZE@ ] || { rm -f "$q" "@OLD@"; exit 12; } ;;
  *) rm -f "$q" "@OLD@"; exit 12 ;;
esac;
chmod 700 "$q" && sync && mv -f "$q" "@PATH@" || { rm -f "$q"; exit 11; };
find "${p%/*}" -name "pinch-*.part*" -mtime +0 -exec rm -f "{}" + 2>/dev/null || true
