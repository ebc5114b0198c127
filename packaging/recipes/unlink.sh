# Remove the links that `@NAME@ install-links` has made, because their target is removed.
for applet in @APPLETS@; do
	[ "$(readlink "/usr/bin/$applet")" != /usr/bin/@NAME@ ] || rm "/usr/bin/$applet"
done
