#!/bin/sh
# rpm.sh: sets up an rpm in a throw-away root, with only the package `base` installed and one repository, /srv/repo, for dnf and zypper. For
# the `prepare` of cases, which can then install packages, and add more with `package NAME VERSION [LINE...]` and `index`.
set -eu
export SOURCE_DATE_EPOCH=0 # makes the packages reproducible
repo=/srv/repo built=/var/tmp/built
rm -rf /var/lib/rpm "$repo" /etc/yum.repos.d /etc/zypp/repos.d /var/cache/dnf /var/lib/dnf /var/cache/zypp
mkdir -p "$repo" "$built" /var/lib/rpm /etc/rpm /etc/products.d /etc/yum.repos.d /etc/zypp/repos.d /etc/dnf/vars
cat >/etc/rpm/macros <<'END'
%_dbpath /var/lib/rpm
%_topdir /var/tmp/built
%_rpmdir /srv/repo
%_build_name_fmt %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm
%_buildhost localhost
%use_source_date_epoch_as_buildtime 1
%_binary_payload w0.gzdio
%__os_install_post %{nil}
%debug_package %{nil}
END

# package NAME [EPOCH:]VERSION-RELEASE [LINE...]: writes a spec with these lines: first tags, then sections (%pre, exit 1).
package() {
    name=$1 version=${2%-*} release=${2##*-} epoch=0
    case $version in *:*) epoch=${version%%:*} version=${version#*:} ;; esac
    shift 2
    {
        printf 'Name: %s\nEpoch: %s\nVersion: %s\nRelease: %s\n' "$name" "$epoch" "$version" "$release"
        printf 'Summary: the package %s\nLicense: none\nBuildArch: noarch\nAutoReqProv: no\n' "$name"
        for line; do case $line in %*) break ;; *) echo "$line" ;; esac; done
        printf '%%description\nOf the tests.\n%%install\nmkdir -p %%{buildroot}/usr/share/%s %%{buildroot}/etc\n' "$name"
        printf 'echo %s >%%{buildroot}/usr/share/%s/version\necho "# %s" >%%{buildroot}/etc/%s.conf\n' "$version" "$name" "$name" "$name"
        printf '%%files\n%%dir /usr/share/%s\n/usr/share/%s/version\n%%config(noreplace) /etc/%s.conf\n' "$name" "$name" "$name"
        in_section=
        for line; do
            case $line in %*) in_section=1 ;; esac
            [ -z "$in_section" ] || echo "$line"
        done
    } >"$built/$name-$version.spec"
}

# index: builds the packages, and writes the repository's list of packages.
index() {
    rpmbuild --quiet -bb "$built"/*.spec >"$built/log" 2>&1 || { cat "$built/log" >&2; return 1; }
    rm "$built"/*.spec
    createrepo_c --quiet --no-database --simple-md-filenames "$repo"
}

# This debug level omits tables and the age of the metadata, which would differ in each run.
printf '[main]\ngpgcheck=0\ndebuglevel=1\n' >/etc/dnf/dnf.conf
# The plugin that holds packages. Its Debian package conflicts with zypper (see tests/run).
mkdir -p /usr/lib/python3/dist-packages/dnf-plugins
cp -r /usr/local/lib/dnf-plugins-core/usr/lib/python3/dist-packages/dnfpluginscore /usr/lib/python3/dist-packages
cp /usr/local/lib/dnf-plugins-core/usr/lib/python3/dist-packages/dnf-plugins/versionlock.py /usr/lib/python3/dist-packages/dnf-plugins
printf '[main]\nenabled=1\nlocklist=/etc/dnf/plugins/versionlock.list\n' >/etc/dnf/plugins/versionlock.conf
: >/etc/dnf/plugins/versionlock.list
echo 39 >/etc/dnf/vars/releasever
printf '[local]\nname=Local\nbaseurl=file://%s\n' "$repo" >/etc/yum.repos.d/local.repo
printf '[local]\nname=Local\nenabled=1\nautorefresh=0\ngpgcheck=0\nbaseurl=file://%s\n' "$repo" >/etc/zypp/repos.d/local.repo

cat >/etc/products.d/tests.prod <<'END'
<?xml version="1.0" encoding="UTF-8"?>
<product schemeversion="0"><vendor>Nobody</vendor><name>tests</name><version>1</version><release>1</release><arch>noarch</arch></product>
END
ln -s tests.prod /etc/products.d/baseproduct
# Debian's zypper has a list of packages that a system must have, such as glibc. This root has none of them.
rm -rf /etc/zypp/systemCheck /etc/zypp/systemCheck.d

package base 1-1 'Provides: /bin/sh'
package demo 1.0-1
package demo 1.1-1
package demo 2:2.0-1
package extra 1.0-1
package tool 0.9-1 'Requires: extra'
package broken 1.0-1 'Requires: nothing-of-the-kind'
package rival 1.0-1 'Conflicts: demo'
package spoiled 1.0-1 '%pre' 'echo this one cannot be had' 'exit 3'
index
rpm --force-debian -U "$repo/base-1-1.noarch.rpm"
