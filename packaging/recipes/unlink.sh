# Remove the links that `@PROGRAM@ install-links` has made, because their target is removed.
for applet in @APPLETS@; do
	[ "$(readlink "/usr/bin/$applet")" != /usr/bin/@PROGRAM@ ] || rm "/usr/bin/$applet"
done
