# install_tools FORMAT…: installs the programs that write these formats, if this is Debian and the user is root. For build and release.
install_tools() {
    local needs=(python3:python3) packages=() word need
    for word; do
        case $word in
        deb) needs+=(dpkg-deb:dpkg dpkg-shlibdeps:dpkg-dev) ;;
        rpm) needs+=(rpmbuild:rpm) ;;
        apk) needs+=(openssl:openssl) ;;
        arch) needs+=(makepkg:makepkg fakeroot:fakeroot bsdtar:libarchive-tools zstd:zstd) ;;
        esac
    done
    for need in "${needs[@]}"; do
        command -v "${need%%:*}" >/dev/null || packages+=("${need#*:}")
    done
    python3 -c 'import tarfile, tomllib' 2>/dev/null || packages+=(python3)
    if ((!${#packages[@]})); then return; fi
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        echo "packaging/${0##*/}: these packages are missing: ${packages[*]}" >&2
        exit 1
    fi
    apt-get update -q
    DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "${packages[@]}"
}
