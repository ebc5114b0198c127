#!/bin/sh
# The part that postinst and prerm have in common: which names the program may take, and how it gives them back.
set -eu
# Each link with the name of its alternative and what it leads to; the first one is the applet itself.
links() {
	echo "/usr/bin/$1 $1 /usr/bin/@NAME@"
	echo "/usr/share/man/man1/$1.1.gz $1.1.gz /usr/share/man/man1/@NAME@-$1.1.gz"
	echo "/usr/share/bash-completion/completions/$1 $1.bash /usr/share/bash-completion/completions/@NAME@"
	echo "/usr/share/fish/vendor_completions.d/$1.fish $1.fish /usr/share/fish/vendor_completions.d/@NAME@.fish"
}

# Whether nothing stands at LINK but what leads to us. Another program's stays, and that may be a link too.
ours() {
	case $(readlink "$1") in
	"/etc/alternatives/$2" | "$3") return 0 ;;
	esac
	[ ! -e "$1" ] && [ ! -L "$1" ]
}

# Gives the names of APPLET back. update-alternatives would remove any link that stands there: others' are put aside meanwhile.
withdraw() {
	update-alternatives --query "$1" >/dev/null 2>&1 || return 0
	links "$1" | while read -r link name target; do
		ours "$link" "$name" "$target" || mv "$link" "$link.not-@NAME@"
	done
	update-alternatives --remove "$1" /usr/bin/@NAME@
	links "$1" | while read -r link name target; do
		[ ! -L "$link.not-@NAME@" ] && [ ! -e "$link.not-@NAME@" ] || mv "$link.not-@NAME@" "$link"
	done
}
