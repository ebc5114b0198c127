#!/bin/sh
# apt.sh: sets up a dpkg with no installed packages, and an apt with one repository, /srv/repo, in a throw-away root. For the `prepare` of
# cases, which can then install packages, and add more with `package NAME VERSION [FIELD...]` and `index`.
set -eu
export SOURCE_DATE_EPOCH=0 # makes the packages reproducible
repo=/srv/repo
mkdir -p "$repo"

# package NAME VERSION [FIELD...]: builds a package with the file /usr/share/NAME/version and the conffile /etc/NAME.conf.
package() {
    name=$1 version=$2
    shift 2
    build=$(mktemp -d)
    chmod 755 "$build"
    mkdir -p "$build/DEBIAN" "$build/usr/share/$name" "$build/etc"
    echo "$version" >"$build/usr/share/$name/version"
    echo "# $name" >"$build/etc/$name.conf"
    echo "/etc/$name.conf" >"$build/DEBIAN/conffiles"
    {
        printf 'Package: %s\nVersion: %s\nArchitecture: all\nMaintainer: Nobody <nobody@example.com>\n' "$name" "$version"
        printf 'Section: misc\nPriority: optional\nDescription: the package %s\n for tests\n' "$name"
        for field; do echo "$field"; done
    } >"$build/DEBIAN/control"
    [ ! -e "${postinst-}" ] || cp "$postinst" "$build/DEBIAN/postinst"
    dpkg-deb -Znone --build "$build" "$repo/${name}_${version#*:}_all.deb" >/dev/null
    rm -r "$build"
}

# index: writes the repository's list of packages.
index() (
    cd "$repo"
    for deb in *.deb; do
        dpkg-deb -f "$deb"
        printf 'Filename: ./%s\nSize: %s\nSHA256: %s\n\n' "$deb" "$(wc -c <"$deb")" "$(sha256sum <"$deb" | cut -d' ' -f1)"
    done >Packages
)

rm -rf /var/lib/dpkg/info /var/lib/dpkg/triggers /var/lib/dpkg/updates /var/lib/apt/lists /var/lib/apt/extended_states
rm -rf /etc/apt/sources.list.d /etc/apt/apt.conf.d /etc/apt/preferences.d /etc/dpkg/dpkg.cfg.d
mkdir -p /var/lib/dpkg/info /var/lib/dpkg/triggers /var/lib/dpkg/updates /var/lib/apt/lists/partial
mkdir -p /etc/apt/apt.conf.d /etc/apt/sources.list.d /etc/apt/preferences.d /var/cache/apt/archives/partial
mkdir -p /etc/dpkg/dpkg.cfg.d
echo force-unsafe-io >/etc/dpkg/dpkg.cfg.d/quick
: >/var/lib/dpkg/status
: >/var/lib/dpkg/diversions
: >/var/lib/dpkg/statoverride
echo "deb [trusted=yes] file:$repo ./" >/etc/apt/sources.list
echo 'APT::Sandbox::User "root"; Acquire::Languages "none"; Dpkg::Use-Pty "0";' >/etc/apt/apt.conf

package demo 1.0
package demo 1.1
package demo 2:2.0-1
package extra 1.0
package tool 0.9 'Depends: extra'
package broken 1.0 'Depends: nothing-of-the-kind'
index
