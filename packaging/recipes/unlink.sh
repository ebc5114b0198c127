# Links that `@NAME@ install-links` has made go with the program that they lead to.
for applet in @APPLETS@; do
	[ "$(readlink "/usr/bin/$applet")" != /usr/bin/@NAME@ ] || rm "/usr/bin/$applet"
done
