#!/bin/sh
# Installs @PROGRAM@ from a release, or removes it: see usage below. In a folder or at a URL with all files of a release, it selects the
# tarball for this machine and runs the install.sh in it, which installs the files next to it. Needs a POSIX shell and the usual small
# programs, of which those of busybox are enough.
set -eu
# Programs of init systems are there, and not every user has them in PATH.
PATH=$PATH:/usr/sbin:/sbin

# The build next to this script. The install.sh at the top of a release has no build, and no target here.
own_package='@NAME@' own_target='@TARGET@' version='@VERSION@' applets='@APPLETS@' daemons='@DAEMONS@'

usage() {
	cat <<'END'
install.sh: install @PROGRAM@ from a release, or remove it

  install.sh [OPTIONS]                install from the folder of this script, or from PINCH_RELEASE (a folder or URL)
  install.sh --uninstall [--prefix DIR]   remove what it has installed

  --prefix DIR     install below DIR (default /usr/local); ~/.local does not need root, but then there are no services
  --master         install the build with a master
  --core           install the build for very small devices
  --target TRIPLE  install the build for this target (default: that of this machine)
  --init NAME      install the services for systemd, openrc, runit, sysvinit or procd, or `none` (default: the running one)
  --no-links       do not make the links salt-call and so on
  --root DIR       install below DIR, which is the root of another system, and run nothing there
  --no-record      do not write the list of files that --uninstall needs: for packages, which have their own list

The services are not enabled, except that systemd continues runs after a reboot. /etc/salt, /srv and their contents are not changed.

Exit status: 0 done, 64 wrong usage, 65 a file of the release is damaged, 69 the release or a program is not available, 73 a file cannot be
written, 77 not permitted. If it is not 0, nothing was changed, except where a message says otherwise.
END
}

fail() {
	code=$1
	shift
	echo "install.sh: $*" >&2
	exit "$code"
}

has() {
	command -v "$1" >/dev/null 2>&1
}

main() {
	prefix=/usr/local root='' package='' target='' init='' links=yes record=yes action=install
	parse "$@"
	case $prefix in
	/*) ;;
	*) fail 64 "--prefix needs an absolute path, not '$prefix'" ;;
	esac
	prefix=${prefix%/} root=${root%/}
	case $prefix in
	*[!A-Za-z0-9._/+-]* | */../* | */..) fail 64 "--prefix may only contain letters, digits and . _ / + -, not '$prefix'" ;;
	esac
	case $init in
	'' | systemd | openrc | runit | sysvinit | procd | none) ;;
	*) fail 64 "unknown init system '$init'; known are systemd, openrc, runit, sysvinit, procd and none" ;;
	esac
	list=$prefix/share/@PROGRAM@/installed
	# Where a script comes from a pipe, it has no folder.
	here=$(dirname "$0")
	began='' finished=''
	work=${TMPDIR:-/tmp}/@PROGRAM@-install.$$
	check_writable
	error=$(umask 077 && mkdir "$work" 2>&1) || fail 73 "cannot create $work: $error; set TMPDIR to another folder"
	trap 'end $?' EXIT
	trap 'exit 129' HUP
	trap 'exit 130' INT
	trap 'exit 141' PIPE
	trap 'exit 143' TERM
	: >"$work/folders"
	umask 022
	if [ "$action" = uninstall ]; then
		uninstall
	elif [ -x "$here/bin/@PROGRAM@" ] && [ -e "$here/LICENSE" ]; then
		install_this
	else
		obtain
		finished=yes
		sh "$work/$name/install.sh" "$@" || exit
	fi
	finished=yes
}

parse() {
	while [ $# != 0 ]; do
		case $1 in
		--prefix | --root | --target | --init)
			[ $# != 1 ] || fail 64 "$1 needs a value; see --help"
			set_option "$1" "$2"
			shift
			;;
		--prefix=* | --root=* | --target=* | --init=*) set_option "${1%%=*}" "${1#*=}" ;;
		-h | --help)
			usage
			exit
			;;
		--master) package=pinch-master ;;
		--core) package=pinch-core ;;
		--no-links) links='' ;;
		--no-record) record='' ;;
		--uninstall) action=uninstall ;;
		*) fail 64 "unknown option $1; see --help" ;;
		esac
		shift
	done
}

set_option() {
	case $1 in
	--prefix) prefix=$2 ;;
	--root) root=$2 ;;
	--target) target=$2 ;;
	--init) init=$2 ;;
	esac
}

# Removes what an interrupted or failed installation has left, and the temporary folder.
end() {
	trap '' HUP INT PIPE TERM
	if [ "$1" != 0 ] && [ -z "$finished" ]; then
		if [ -n "$began" ]; then
			echo "install.sh: some files are already replaced; remove the cause and run it again, or run it with --uninstall" >&2
		else
			if [ -e "$work/files" ]; then
				while read -r _ _ to _; do rm -f "$root$to.@PROGRAM@-new"; done <"$work/files"
			fi
			rm -f "$root$list.@PROGRAM@-new"
			remove_folders "$work/folders"
			[ "$1" = 64 ] || echo "install.sh: nothing was changed" >&2
		fi
	fi
	rm -rf "$work"
}

# Fails if the user cannot write to the prefix, before anything is downloaded.
check_writable() {
	folder=$root$prefix
	while [ -n "$folder" ] && [ ! -d "$folder" ]; do
		[ ! -e "$folder" ] || fail 73 "$folder is not a folder; choose another --prefix"
		folder=${folder%/*}
	done
	folder=${folder:-/}
	[ ! -w "$folder" ] || return 0
	[ "$(id -u)" != 0 ] || fail 73 "cannot write to $folder, whose file system is read-only; choose another --prefix"
	fail 77 "cannot write to $folder: run this as root, or use --prefix \"\$HOME/.local\", which does not need root"
}

# Getting the tarball of this machine from a release.

obtain() {
	base=${PINCH_RELEASE:-}
	if [ -z "$base" ] && [ -e "$here/SHA256SUMS" ]; then base=$here; fi
	base=${base:-@RELEASES@}
	base=${base%/}
	[ -n "$base" ] || fail 64 "there is no release next to this script; set PINCH_RELEASE to the folder or URL of one (it contains SHA256SUMS)"
	package=${package:-pinch}
	[ -n "$target" ] || target=$(target_of_machine)
	fetch SHA256SUMS
	find_tarball
	echo "fetching $name.tar.gz from $base"
	fetch "$name.tar.gz"
	sum=$(sha256 "$work/$name.tar.gz")
	[ "$sum" = "$wanted" ] ||
		fail 65 "$base/$name.tar.gz is damaged: its SHA-256 is $sum, but SHA256SUMS has $wanted; download it again, and if this does not help, ask whoever publishes the release"
	error=$({ gzip -dc "$work/$name.tar.gz" | tar -xf - -C "$work"; } 2>&1) ||
		fail 73 "cannot unpack $name.tar.gz in $work: $error; if the disk is full, set TMPDIR to a folder with 30 MB of free space"
	rm "$work/$name.tar.gz"
}

# Sets `name` to the name of the tarball of this package and target, and `wanted` to its checksum.
find_tarball() {
	name='' wanted='' others=''
	while read -r sum file; do
		file=${file#\*}
		case $file in
		"$package"-[0-9]*-"$target".tar.gz) name=${file%.tar.gz} wanted=$sum ;;
		*/*) ;;
		"$package"-[0-9]*.tar.gz)
			other=${file#"$package"-*-}
			others="$others ${other%.tar.gz}"
			;;
		esac
	done <"$work/SHA256SUMS"
	case $name in
	'') fail 69 "$base has no $package for $target; it has:${others:- no $package at all}" ;;
	*/*) fail 65 "$base/SHA256SUMS names a path, not a file: $name" ;;
	esac
}

# Copies a file of the release to the temporary folder.
fetch() {
	case $base in
	https://*) only='=https' ;;
	*) only='=http,https,file' ;;
	esac
	case $base in
	*://*)
		if has curl; then
			error=$(curl -fsSL --retry 3 --connect-timeout 30 --max-time 1800 --proto "$only" --proto-redir "$only" -o "$work/$1" "$base/$1" 2>&1) && return
		elif has wget; then
			# Its own limit is 900 s without data. That of busybox 1.35 crashes with the option -T.
			error=$(wget -q -O "$work/$1" "$base/$1" 2>&1) && return
		else
			fail 69 "cannot download $base/$1: neither curl nor wget is installed; install one of them, or copy the release to this machine and run the install.sh in it"
		fi
		fail 69 "cannot download $base/$1: ${error:-the server has no such file, or does not answer}; check the address and the network, and for wget of busybox that it supports https"
		;;
	*)
		[ -e "$base/$1" ] || fail 69 "there is no $1 in $base; it is not the folder of a release, or not complete"
		error=$(cp "$base/$1" "$work/$1" 2>&1) || fail 73 "cannot copy $base/$1 to $work: $error; if the disk is full, set TMPDIR to another folder"
		;;
	esac
}

sha256() {
	if has sha256sum; then
		sum=$(sha256sum "$1")
	elif has shasum; then
		sum=$(shasum -a 256 "$1")
	elif has openssl; then
		sum=$(openssl dgst -sha256 -r "$1")
	else
		fail 69 "cannot compute checksums: install sha256sum, shasum or openssl"
	fi
	echo "${sum%% *}"
}

# The target of this machine. The programs are static, so only the processor matters, not the C library or its float ABI.
target_of_machine() {
	[ "$(uname -s)" = Linux ] || fail 69 "there are builds for Linux only, and this is $(uname -s)"
	machine=$(uname -m)
	case $machine in
	x86_64 | amd64) echo x86_64-unknown-linux-musl ;;
	i?86 | x86)
		has_feature sse2 || fail 69 "this processor has no SSE2, which the build for i686 needs; build @PROGRAM@ from its source"
		echo i686-unknown-linux-musl
		;;
	aarch64 | arm64) echo aarch64-unknown-linux-musl ;;
	armv7* | armv8*) if has_feature 'vfpv3[a-z0-9]*|vfpv4|neon|asimd'; then echo armv7-unknown-linux-musleabihf; else echo armv5te-unknown-linux-musleabi; fi ;;
	armv6*) if has_feature vfp; then echo arm-unknown-linux-musleabihf; else echo armv5te-unknown-linux-musleabi; fi ;;
	armv5te*) echo armv5te-unknown-linux-musleabi ;;
	riscv64) echo riscv64gc-unknown-linux-musl ;;
	mips | mips64)
		# The name does not contain the byte order. The ELF header of a program does, in its sixth byte.
		case $(dd if=/proc/self/exe bs=1 skip=5 count=1 2>/dev/null | tr '\001\002' lb) in
		l) echo mipsel-unknown-linux-musl ;;
		b) echo mips-unknown-linux-musl ;;
		*) fail 69 "cannot determine the byte order of this processor; use --target mips-unknown-linux-musl or mipsel-unknown-linux-musl" ;;
		esac
		;;
	*) fail 69 "unknown processor $machine: there is no build for it. --target selects one that runs on it; otherwise build @PROGRAM@ from its source" ;;
	esac
}

# Returns whether the processor has a feature, according to the kernel. Where it does not say, the program is tried before it is installed.
has_feature() {
	[ -r /proc/cpuinfo ] || return 0
	grep -qE "^(Features|flags)[[:space:]]*:(.*[[:space:]])?($1)([[:space:]]|\$)" /proc/cpuinfo
}

# Installing the files next to this script.

install_this() {
	[ -z "$package" ] || [ "$package" = "$own_package" ] || fail 64 "this folder contains $own_package, not $package; use the tarball of $package, or the install.sh of the whole release"
	[ -z "$target" ] || [ "$target" = "$own_target" ] || fail 64 "this folder contains a program for $own_target, not $target"
	choose_init
	list_files
	read_record
	check_files
	stage
	try_program
	commit
	finished=yes
	restart
	# Nothing depends on a reader of the report.
	report 2>/dev/null || true
}

# Sets `init` to the init system whose services are installed, and `running` to the one that runs here.
choose_init() {
	running=none
	[ -n "$root" ] || [ "$(id -u)" != 0 ] || running=$(running_init)
	init=${init:-$running}
}

running_init() {
	first=$(cat /proc/1/comm 2>/dev/null || true)
	if [ -d /run/systemd/system ]; then
		echo systemd
	elif [ -d /run/openrc ]; then
		echo openrc
	elif [ "$first" = procd ]; then
		echo procd
	elif [ "$first" = runit ] || [ "$first" = runsvdir ]; then
		echo runit
	elif [ "$first" = init ] && has start-stop-daemon && { has update-rc.d || has chkconfig; }; then
		echo sysvinit
	else
		echo none
	fi
}

# Writes the list of files to install: kind, mode, path and source. `settings` are files that the user may change.
list_files() {
	{
		echo "file 755 $prefix/bin/@PROGRAM@ $here/bin/@PROGRAM@"
		(cd "$here" && find share -type f) | sort | while read -r file; do echo "file 644 $prefix/$file $here/$file"; done
		echo "file 644 $prefix/share/licenses/$own_package/LICENSE $here/LICENSE"
		[ -z "$record" ] || echo "file 755 $prefix/share/@PROGRAM@/install.sh $here/install.sh"
	} >"$work/files"
	: >"$work/services"
	case $prefix in
	/usr) units=/usr/lib/systemd/system ;;
	/usr/local) units=/usr/local/lib/systemd/system ;;
	*) units=/etc/systemd/system ;;
	esac
	for folder in "$here"/services/*; do
		# A package without services has no such folder.
		[ -d "$folder" ] || continue
		service=${folder##*/}
		case $init in
		systemd)
			service_file file 644 systemd.service "$units/$service.service"
			service_file file 644 systemd.timer "$units/$service.timer"
			service_file file 644 systemd.wants "$units/multi-user.target.d/$service.conf"
			service_file settings 644 default "/etc/default/$service"
			;;
		openrc)
			service_file file 755 openrc "/etc/init.d/$service"
			[ ! -e "$folder/openrc" ] || service_file settings 644 default "/etc/conf.d/$service"
			;;
		procd) service_file file 755 procd "/etc/init.d/$service" ;;
		sysvinit)
			service_file file 755 sysvinit "/etc/init.d/$service"
			service_file settings 644 default "/etc/default/$service"
			;;
		runit)
			service_file file 755 runit "/etc/sv/$service/run"
			service_file settings 644 default "/etc/default/$service"
			;;
		esac
	done
}

# Adds a file of the service to the list, if the service has one of this kind. It then names the program in the prefix.
service_file() {
	[ -e "$folder/$3" ] || return 0
	mkdir -p "$work/rendered/$service"
	sed "s|/usr/bin/@PROGRAM@|$prefix/bin/@PROGRAM@|g" "$folder/$3" >"$work/rendered/$service/$3"
	echo "$1 $2 $4 $work/rendered/$service/$3" >>"$work/files"
	[ "$1" = settings ] || grep -qxF "service $init $service" "$work/services" || echo "service $init $service" >>"$work/services"
}

# Reads the record of an earlier installation below this prefix.
read_record() {
	: >"$work/old"
	[ -z "$record" ] || [ ! -e "$root$list" ] || cp "$root$list" "$work/old"
	: >"$work/record"
	grep '^folder ' "$work/old" >>"$work/record" || true
	cat "$work/services" >>"$work/record"
}

# Fails if a path belongs to something else, and completes the record.
check_files() {
	: >"$work/kept"
	while read -r kind _ to from; do
		path=$root$to
		[ ! -d "$path" ] || fail 73 "$path is a folder; move it away, or choose another --prefix"
		if [ "$kind" = settings ]; then
			check_settings
		else
			[ -z "$record" ] || grep -qxF "file $to" "$work/old" || { [ ! -e "$path" ] && [ ! -L "$path" ]; } ||
				fail 73 "$path exists, and install.sh has not installed it. If it belongs to a package, use the package manager; otherwise remove it, or choose another --prefix"
			echo "file $to" >>"$work/record"
		fi
	done <"$work/files"
	if [ -s "$work/kept" ]; then
		grep -vxFf "$work/kept" "$work/files" >"$work/rest"
		mv "$work/rest" "$work/files"
	fi
	check_links
}

# Keeps a settings file that the user has changed or written.
check_settings() {
	if [ -e "$path" ] && ! grep -qxF "settings $(sha256 "$path") $to" "$work/old"; then
		echo "$kind 644 $to $from" >>"$work/kept"
		grep "^settings [0-9a-f]* $to\$" "$work/old" >>"$work/record" || true
	else
		echo "settings $(sha256 "$from") $to" >>"$work/record"
	fi
}

# Lists the links that can be made, with their targets, and the names that belong to other programs.
check_links() {
	: >"$work/links"
	taken='' made=''
	[ -n "$links" ] || return 0
	for applet in $applets; do
		link="$prefix/bin/$applet $prefix/bin/@PROGRAM@"
		if is_free "${link% *}" "${link#* }"; then
			made="$made $applet"
			echo "link $link" >>"$work/links"
			for link in "$prefix/share/bash-completion/completions/$applet $prefix/share/bash-completion/completions/@PROGRAM@" \
				"$prefix/share/fish/vendor_completions.d/$applet.fish $prefix/share/fish/vendor_completions.d/@PROGRAM@.fish" \
				"$prefix/share/man/man1/$applet.1 $prefix/share/man/man1/@PROGRAM@-$applet.1"; do
				! is_free "${link% *}" "${link#* }" || echo "link $link" >>"$work/links"
			done
		else
			taken="$taken $prefix/bin/$applet"
		fi
	done
	cat "$work/links" >>"$work/record"
}

# Returns whether a path does not exist, or is a link to this target.
is_free() {
	if [ -L "$root$1" ]; then
		[ "$(readlink "$root$1")" = "$2" ]
	else
		[ ! -e "$root$1" ]
	fi
}

# Creates a folder and its missing parents, and records them.
make_folder() {
	[ -n "$1" ] && [ ! -d "$root$1" ] || return 0
	make_folder "${1%/*}"
	error=$(mkdir "$root$1" 2>&1) || fail 73 "cannot create $root$1: $error"
	echo "folder $1" >>"$work/folders"
}

# Copies every file to a new name in its folder. A full disk is noticed here, when nothing has been replaced.
stage() {
	[ -z "$root" ] || mkdir -p "$root" || fail 73 "cannot create $root"
	while read -r _ mode to from; do
		make_folder "${to%/*}"
		put "$from" "$to" "$mode"
	done <"$work/files"
	while read -r _ to _; do make_folder "${to%/*}"; done <"$work/links"
	[ -n "$record" ] || return 0
	cat "$work/folders" >>"$work/record"
	{
		echo "# What install.sh has installed, for install.sh --uninstall: $own_package $version for $own_target"
		sort -u "$work/record"
	} >"$work/complete"
	# Until the end, the record also contains the files of the earlier installation.
	sort -u "$work/record" "$work/old" >"$work/union"
	put "$work/union" "$list" 644
}

put() {
	error=$(cp "$1" "$root$2.@PROGRAM@-new" 2>&1 && chmod "$3" "$root$2.@PROGRAM@-new" 2>&1) ||
		fail 73 "cannot write $root$2: $error; if the disk is full, free 20 MB or choose another --prefix"
}

# Starts the program under its new name, unless it is for another system.
try_program() {
	[ -z "$root" ] || return 0
	error=$("$prefix/bin/@PROGRAM@.@PROGRAM@-new" --version 2>&1) ||
		fail 69 "the program for $own_target does not run on this machine ($(uname -m)): $error; --target selects another build"
}

# Gives the new files their names.
commit() {
	trap '' HUP INT PIPE TERM
	began=yes
	[ -z "$record" ] || rename "$list"
	while read -r _ _ to _; do rename "$to"; done <"$work/files"
	while read -r _ link to; do
		[ -L "$root$link" ] || ln -s "$to" "$root$link" || fail 73 "cannot make the link $root$link"
	done <"$work/links"
	if [ -n "$record" ]; then
		remove_old
		# If the disk is full now, the record of both installations is enough.
		{ cp "$work/complete" "$root$list.@PROGRAM@-new" && mv -f "$root$list.@PROGRAM@-new" "$root$list"; } 2>/dev/null || rm -f "$root$list.@PROGRAM@-new"
	fi
	began=''
}

rename() {
	error=$(mv -f "$root$1.@PROGRAM@-new" "$root$1" 2>&1) || fail 73 "cannot rename $root$1.@PROGRAM@-new to $root$1: $error"
}

# Removes what only the earlier installation had.
remove_old() {
	grep -vxFf "$work/record" "$work/old" >"$work/gone" || true
	while read -r kind one two; do
		if [ "$kind" = settings ] && grep -q "^settings [0-9a-f]* $two\$" "$work/record"; then continue; fi
		remove_one "$kind" "$one" "$two"
	done <"$work/gone"
	[ ! -s "$work/gone" ] || remove_folders "$work/old"
}

# Removes what a line of a record names.
remove_one() {
	case $1 in
	file) rm -f "$root$2" ;;
	link) [ "$(readlink "$root$2" 2>/dev/null)" != "$3" ] || rm -f "$root$2" ;;
	settings)
		[ -e "$root$3" ] || return 0
		if [ "$(sha256 "$root$3")" = "$2" ]; then rm -f "$root$3"; else echo "not removed: $root$3, which has been changed"; fi
		;;
	service) stop_service "$2" "$3" ;;
	esac
}

# Removes the folders of a record that are empty, the inner ones first.
remove_folders() {
	grep '^folder ' "$1" | sort -r | while read -r _ folder; do rmdir "$root$folder" 2>/dev/null || true; done
}

# Lets the init system read the new services, and restarts the daemons that run.
restart() {
	[ "$init" = "$running" ] || return 0
	case $init in
	systemd)
		systemctl daemon-reload || echo "install.sh: systemctl daemon-reload failed; run it again" >&2
		[ ! -s "$work/old" ] || restart_daemons
		;;
	esac
}

restart_daemons() {
	for daemon in $daemons; do
		systemctl try-restart "$daemon" || echo "install.sh: $daemon could not be restarted and may still run the old program" >&2
	done
}

report() {
	[ -n "$record" ] || return 0
	echo "installed $own_package $version for $own_target: $root$prefix/bin/@PROGRAM@"
	[ -z "$made" ] || echo "links to it in $root$prefix/bin:$made"
	for link in $taken; do
		echo "not replaced: $root$link, which belongs to another program; use \`@PROGRAM@ ${link##*/}\` instead"
	done
	if [ -s "$work/services" ]; then
		echo "services for $init, which you can enable:$(while read -r _ _ service; do printf ' %s' "$service"; done <"$work/services")"
	elif [ "$(id -u)" != 0 ]; then
		echo "no services, because they need root"
	elif [ -n "$root" ]; then
		echo "no services; --init NAME installs those of an init system"
	else
		echo "no services, because no known init system runs here; --init NAME installs those of one"
	fi
	while read -r _ _ to _; do echo "not replaced: $root$to, which has been changed"; done <"$work/kept"
	echo "to remove it: sh $root$prefix/share/@PROGRAM@/install.sh --uninstall --prefix $prefix${root:+ --root $root}"
	[ -z "$root" ] || return 0
	case :$PATH: in
	*":$prefix/bin:"*) ;;
	*) echo "$prefix/bin is not in PATH: run \`export PATH=$prefix/bin:\$PATH\`, and add it to your profile" ;;
	esac
	echo
	echo "next:"
	next_commands
}

# Prints the next three commands. Without the links, each is called through the program. A user cannot write to /etc and /srv.
next_commands() {
	call='' folder='' config=''
	[ -n "$links" ] && [ -z "$taken" ] || call='@PROGRAM@ '
	[ "$(id -u)" = 0 ] || folder=' ~/salt' config=' -c ~/salt/etc'
	if [ "$own_package" != pinch-master ]; then
		echo "  @PROGRAM@ init$folder    # writes a first configuration, state and pillar"
		echo "  @PROGRAM@ plan$config highstate    # shows what would change"
		echo "  ${call}salt-call$config state.apply    # changes it"
	else
		if [ "$running" = systemd ]; then echo "  systemctl enable --now pinch-master"; else echo "  ${call}salt-master -d"; fi
		echo "  ${call}salt-key -L    # the keys of minions; -a ID accepts one"
		echo "  ${call}salt '*' test.ping"
	fi
}

# Removing.

uninstall() {
	[ -e "$root$list" ] ||
		fail 69 "nothing was installed by install.sh below $root$prefix: $root$list does not exist. --prefix names another folder; a package is removed with the package manager"
	error=$(cp "$root$list" "$work/old" 2>&1) || fail 73 "cannot read $root$list: $error"
	running=none
	[ -n "$root" ] || [ "$(id -u)" != 0 ] || running=$(running_init)
	began=yes
	grep '^service ' "$work/old" | while read -r kind one two; do remove_one "$kind" "$one" "$two"; done
	grep -v '^service ' "$work/old" | while read -r kind one two; do remove_one "$kind" "$one" "$two"; done
	rm -f "$root$list" || fail 73 "cannot remove $root$list"
	remove_folders "$work/old"
	began=''
	[ "$running" != systemd ] || systemctl daemon-reload || true
	echo "removed what install.sh had installed below $root$prefix"
	for folder in /etc/salt /var/cache/salt /var/log/salt; do
		[ ! -d "$root$folder" ] || echo "not removed: $root$folder, with your configuration, run records or logs"
	done
}

# Stops and disables a service before its files are removed. A service that is neither running nor enabled is not an error.
stop_service() {
	[ "$1" = "$running" ] || return 0
	case $1 in
	systemd)
		for unit in "$2.timer" "$2.service"; do
			! grep -q "/$unit\$" "$work/old" || systemctl disable --now "$unit" || true
		done
		;;
	openrc)
		rc-service "$2" stop || true
		rc-update -a del "$2" || true
		;;
	procd)
		"/etc/init.d/$2" disable || true
		"/etc/init.d/$2" stop || true
		;;
	sysvinit)
		"/etc/init.d/$2" stop || true
		if has update-rc.d; then update-rc.d -f "$2" remove; elif has chkconfig; then chkconfig --del "$2"; fi || true
		;;
	runit)
		for folder in /etc/service /var/service /etc/runit/runsvdir/default; do
			[ "$(readlink "$folder/$2" 2>/dev/null)" = "/etc/sv/$2" ] || continue
			sv -w 60 force-stop "$folder/$2" || true
			rm -f "$folder/$2"
		done
		rm -rf "/etc/sv/$2/supervise"
		;;
	esac >/dev/null 2>&1
}

main "$@"
