#!/bin/sh
# pacman.sh: sets up a pacman in a throw-away root, with only the package `base` installed and two repositories, /srv/repo/main and
# /srv/repo/older. For the `prepare` of cases, which can then install packages, and add more with
# `package REPOSITORY NAME VERSION [LINE...]` and `index`.
set -eu
repo=/srv/repo
lists=/var/tmp/lists
rm -rf /var/lib/pacman /var/cache/pacman "$repo"
mkdir -p /var/lib/pacman /var/cache/pacman/pkg "$repo/main" "$repo/older"

# package REPOSITORY NAME VERSION [LINE...]: builds a package with these lines in .PKGINFO (depend = x), and with the file $install as its scriptlet.
package() {
    where=$1 name=$2 version=$3 file=$2-$3-any.pkg.tar
    shift 3
    build=$(mktemp -d)
    mkdir -p "$build/usr/share/$name" "$build/etc" "$lists/$where/$name-$version"
    echo "$version" >"$build/usr/share/$name/version"
    echo "# $name" >"$build/etc/$name.conf"
    {
        printf 'pkgname = %s\npkgbase = %s\npkgver = %s\npkgdesc = the package %s\n' "$name" "$name" "$version" "$name"
        printf 'builddate = 0\npackager = Nobody <nobody@example.com>\nsize = 12\narch = any\nbackup = etc/%s.conf\n' "$name"
        for line; do echo "$line"; done
    } >"$build/.PKGINFO"
    [ ! -e "${install-}" ] || cp "$install" "$build/.INSTALL"
    (cd "$build" && tar --mtime=@0 --owner=0 --group=0 -cf "$repo/$where/$file" .[A-Z]* *)
    {
        printf '%%FILENAME%%\n%s\n\n%%NAME%%\n%s\n\n%%VERSION%%\n%s\n\n%%ARCH%%\nany\n\n' "$file" "$name" "$version"
        printf '%%CSIZE%%\n10240\n\n%%ISIZE%%\n12\n\n'
        for line; do
            case $line in
            depend*) printf '%%DEPENDS%%\n%s\n\n' "${line#*= }" ;;
            conflict*) printf '%%CONFLICTS%%\n%s\n\n' "${line#*= }" ;;
            group*) printf '%%GROUPS%%\n%s\n\n' "${line#*= }" ;;
            esac
        done
    } >"$lists/$where/$name-$version/desc"
    rm -r "$build"
}

# index: writes the repositories' lists of packages. Each list is dated a minute later, because pacman detects no change within a second.
minutes=0
index() {
    minutes=$((minutes + 1))
    for where in main older; do
        (cd "$lists/$where" && tar -cf "$repo/$where/$where.db" *)
        touch -d "@$((minutes * 60))" "$repo/$where/$where.db"
    done
}

cat >/etc/pacman.conf <<'END'
[options]
Architecture = x86_64
SigLevel = Never
LocalFileSigLevel = Never
[main]
Server = file:///srv/repo/main
[older]
Server = file:///srv/repo/older
END
package main base 1-1
package main demo 2:2.0-1
package older demo 1.0-1
package main extra 1.0-1
package main tool 0.9-1 'depend = extra'
package main broken 1.0-1 'depend = nothing-of-the-kind'
package main rival 1.0-1 'conflict = demo'
index
pacman -Sy --noconfirm base >/dev/null
