# A package of an OpenWrt feed. It packages @TARBALL@, which must be in the folder dl of the build.
include $(TOPDIR)/rules.mk

PKG_NAME:=@NAME@
PKG_VERSION:=@VERSION@
PKG_RELEASE:=1
PKG_SOURCE:=@TARBALL@
PKG_HASH:=@SHA256@
PKG_BUILD_DIR:=$(BUILD_DIR)/@NAME@-@VERSION@-@TARGET@
PKG_LICENSE:=@LICENSE@
PKG_LICENSE_FILES:=LICENSE
PKG_MAINTAINER:=@MAINTAINER@

include $(INCLUDE_DIR)/package.mk

# The binary is prebuilt and static, so it needs no library of the image.
RSTRIP:=:
STRIP:=:

define Package/@NAME@
  SECTION:=admin
  CATEGORY:=Administration
  TITLE:=@SUMMARY@
  DEPENDS:=@(@IPK_CPU@)
@OPENWRT_REPLACES@endef

define Package/@NAME@/description
@DESCRIPTION@
endef

define Build/Configure
endef

define Build/Compile
endef

define Package/@NAME@/install
	$(INSTALL_DIR) $(1)/usr/bin
	$(INSTALL_BIN) $(PKG_BUILD_DIR)/bin/@PROGRAM@ $(1)/usr/bin/
	$(INSTALL_DIR) $(1)/usr/share/licenses/@NAME@
	$(INSTALL_DATA) $(PKG_BUILD_DIR)/share/licenses/@NAME@/THIRD-PARTY.gz $(1)/usr/share/licenses/@NAME@/
@INSTALL_PROCD@
endef

define Package/@NAME@/prerm
@PRERM@
endef

$(eval $(call BuildPackage,@NAME@))
