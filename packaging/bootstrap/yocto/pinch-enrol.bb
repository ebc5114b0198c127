# Enrols a device at its first boot, with the token on its boot partition. The image also needs pinch.
SUMMARY = "Enrols a device with its Salt master at the first boot"
LICENSE = "Apache-2.0"
LIC_FILES_CHKSUM = "file://${COMMON_LICENSE_DIR}/Apache-2.0;md5=89aea4e17d99a7cacdbeed46a0096b10"

SRC_URI = "file://pinch-enrol file://pinch-enrol.service"
S = "${WORKDIR}"
RDEPENDS:${PN} = "pinch"

inherit allarch systemd
SYSTEMD_SERVICE:${PN} = "pinch-enrol.service"

do_install() {
    install -D -m 0755 ${WORKDIR}/pinch-enrol ${D}${libexecdir}/pinch-enrol
    install -D -m 0644 ${WORKDIR}/pinch-enrol.service ${D}${systemd_system_unitdir}/pinch-enrol.service
    sed -i 's|/usr/libexec|${libexecdir}|' ${D}${systemd_system_unitdir}/pinch-enrol.service
}
