#!/bin/sh
# install.sh [--prefix DIR] [--root DIR] [--links] [--remove]: install the files next to this script to DIR (/usr/local), or remove them.
# --root DIR   install below DIR, which is the root of another system
# --links      also make links for @APPLETS@, if these names are free
# Needs a POSIX shell, cp, mkdir, mv, chmod, rm, ln, readlink and dirname. /etc/salt is not changed.
set -eu

prefix=/usr/local root= links= remove=
while [ $# != 0 ]; do
	case $1 in
	--prefix) prefix=${2?--prefix requires a folder} && shift ;;
	--prefix=*) prefix=${1#*=} ;;
	--root) root=${2?--root requires a folder} && shift ;;
	--root=*) root=${1#*=} ;;
	--links) links=yes ;;
	--remove) remove=yes ;;
	-h | --help)
		sed -n '2,5s/^# //p' "$0"
		exit
		;;
	*)
		echo "install.sh: unknown option $1; see --help" >&2
		exit 64
		;;
	esac
	shift
done
here=$(dirname "$0")
to=$root$prefix

files() {
	echo bin/@PROGRAM@ 755
	echo share/man/man1/@PROGRAM@.1 644
	for applet in @APPLETS@; do echo "share/man/man1/@PROGRAM@-$applet.1 644"; done
	echo share/bash-completion/completions/@PROGRAM@ 644
	echo share/zsh/site-functions/_@PROGRAM@ 644
	echo share/fish/vendor_completions.d/@PROGRAM@.fish 644
	echo share/licenses/@NAME@/THIRD-PARTY.gz 644
	for schema in @SCHEMAS@; do echo "share/@PROGRAM@/$schema 644"; done
}

is_ours() {
	[ "$(readlink "$1")" = "$prefix/bin/@PROGRAM@" ]
}

if [ -n "$remove" ]; then
	files | while read -r file _; do rm -f "$to/$file"; done
	rmdir "$to/share/licenses/@NAME@" "$to/share/@PROGRAM@" 2>/dev/null || true
	for applet in @APPLETS@; do
		! is_ours "$to/bin/$applet" || rm "$to/bin/$applet"
	done
	exit
fi

# Check for links that must not be replaced before copying anything.
if [ -n "$links" ]; then
	for applet in @APPLETS@; do
		link=$to/bin/$applet
		if { [ -e "$link" ] || [ -L "$link" ]; } && ! is_ours "$link"; then
			echo "install.sh: cannot replace $link, which belongs to another program; omit --links, or choose another --prefix" >&2
			exit 73
		fi
	done
fi
files | while read -r file mode; do
	mkdir -p "$(dirname "$to/$file")"
	# Copy to a new name and rename: a running program cannot be overwritten.
	cp "$here/$file" "$to/$file.new"
	chmod "$mode" "$to/$file.new"
	mv "$to/$file.new" "$to/$file"
done
[ -z "$links" ] || for applet in @APPLETS@; do
	is_ours "$to/bin/$applet" || ln -s "$prefix/bin/@PROGRAM@" "$to/bin/$applet"
done
