# Appends its input, which may be compressed, to a partial file, checks it, and gives it its name. It becomes one line, as probe.sh. Meanwhile the partial file has a
# name that no other transfer uses.
umask 077;
p="@PART@";
q="$p.$$";
if [ @FROM@ -gt 0 ]; then mv "$p" "$q" || exit 13; else rm -f "$q"; fi;
[ @FROM@ -eq 0 ] || [ "$(wc -c <"$q")" -eq @FROM@ ] || { mv "$q" "$p"; exit 13; };
@UNPACK@cat >>"$q" || { rm -f "$q"; exit 11; };
s=$(wc -c <"$q");
[ "$s" -ge @SIZE@ ] || { mv "$q" "$p"; exit 11; };
h=$(sha256sum <"$q" 2>/dev/null) || h=;
case "$h" in
  @HASH@*) ;;
  "") [ "$s" -eq @SIZE@ ] || { rm -f "$q"; exit 12; } ;;
  *) rm -f "$q"; exit 12 ;;
esac;
chmod 700 "$q" && sync && mv -f "$q" "@PATH@" || { rm -f "$q"; exit 11; }
