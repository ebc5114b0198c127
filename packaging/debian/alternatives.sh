#!/bin/sh
# The common part of postinst and prerm: which names the program may use, and how it releases them.
set -eu
# Prints each link of an applet with the name of its alternative and its target; the first one is the applet itself.
links() {
	echo "/usr/bin/$1 $1 /usr/bin/@PROGRAM@"
	echo "/usr/share/man/man1/$1.1.gz $1.1.gz /usr/share/man/man1/@PROGRAM@-$1.1.gz"
	echo "/usr/share/bash-completion/completions/$1 $1.bash /usr/share/bash-completion/completions/@PROGRAM@"
	echo "/usr/share/fish/vendor_completions.d/$1.fish $1.fish /usr/share/fish/vendor_completions.d/@PROGRAM@.fish"
}

# Succeeds if LINK does not exist or leads to this program. Files and links of other programs are not changed.
ours() {
	case $(readlink "$1") in
	"/etc/alternatives/$2" | "$3") return 0 ;;
	esac
	[ ! -e "$1" ] && [ ! -L "$1" ]
}

# Releases the names of APPLET. update-alternatives would remove any link at these paths, so links of others are moved aside meanwhile.
withdraw() {
	update-alternatives --query "$1" >/dev/null 2>&1 || return 0
	links "$1" | while read -r link name target; do
		ours "$link" "$name" "$target" || mv "$link" "$link.not-@NAME@"
	done
	update-alternatives --remove "$1" /usr/bin/@PROGRAM@
	links "$1" | while read -r link name target; do
		[ ! -L "$link.not-@NAME@" ] && [ ! -e "$link.not-@NAME@" ] || mv "$link.not-@NAME@" "$link"
	done
}
