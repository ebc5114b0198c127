# Packages @TARBALL@, which must be in the folder `files` next to this recipe.
SUMMARY = "@SUMMARY@"
LICENSE = "@LICENSE@"
LIC_FILES_CHKSUM = "file://LICENSE;md5=@LICENSE_MD5@"

SRC_URI = "file://@TARBALL@"
SRC_URI[sha256sum] = "@SHA256@"
S = "${WORKDIR}/@NAME@-@VERSION@-@TARGET@"
COMPATIBLE_HOST = "@YOCTO_ARCH@-.*-linux.*"

inherit systemd
@YOCTO_REPLACES@SYSTEMD_SERVICE:${PN} = "@UNITS@"
SYSTEMD_AUTO_ENABLE = "disable"

do_configure[noexec] = "1"
do_compile[noexec] = "1"

do_install() {
    ${S}/install.sh --root ${D} --prefix ${prefix} --no-links --no-record
    if ${@bb.utils.contains('DISTRO_FEATURES', 'systemd', 'true', 'false', d)}; then
@INSTALL_YOCTO@
    fi
}

CONFFILES:${PN} = "@CONFFILES@"
FILES:${PN} += "${datadir}/bash-completion ${datadir}/zsh ${datadir}/fish ${datadir}/licenses ${datadir}/@PROGRAM@"
# The binary is already static and stripped.
INHIBIT_PACKAGE_STRIP = "1"
INHIBIT_SYSROOT_STRIP = "1"
INHIBIT_PACKAGE_DEBUG_SPLIT = "1"
INSANE_SKIP:${PN} += "already-stripped"
