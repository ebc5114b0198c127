#!/bin/sh
# postfix.sh: starts Postfix in a throw-away root. It listens on 127.0.0.1:25, demands STARTTLS with the certificate $dir/www.crt and its key
# $dir/www.key, and delivers each message for example.com into the folder $dir/mail/new. Missing programs come from the packages that tests/run
# keeps. `stop_postfix` ends it.
if [ ! -x /usr/sbin/postfix ]; then
    cp -asn /var/cache/pinch-tests/postfix/root/usr/. /usr/
    cp -a --no-clobber /var/cache/pinch-tests/postfix/root/etc/postfix /etc/
    ldconfig
fi
id postfix >/dev/null 2>&1 || useradd --system --home-dir /var/spool/postfix --shell /usr/sbin/nologin postfix
getent group postdrop >/dev/null || groupadd --system postdrop
mkdir -p /var/spool/postfix /var/lib/postfix "$dir/mail"
chown postfix /var/lib/postfix "$dir/mail"
chmod 711 "$dir"
sed -E '/^[a-z]/s/^(([^ ]+ +){4})y/\1n/' /usr/share/postfix/master.cf.dist >/etc/postfix/master.cf
cp /usr/share/postfix/dynamicmaps.cf /etc/postfix/
cat >/etc/postfix/main.cf <<END
compatibility_level = 3.6
queue_directory = /var/spool/postfix
command_directory = /usr/sbin
daemon_directory = /usr/lib/postfix/sbin
data_directory = /var/lib/postfix
shlib_directory = /usr/lib/postfix
mail_owner = postfix
setgid_group = postdrop
myhostname = mail.example.org
mydestination =
inet_interfaces = loopback-only
inet_protocols = ipv4
maillog_file = /var/log/postfix.log
smtpd_tls_cert_file = $dir/www.crt
smtpd_tls_key_file = $dir/www.key
smtpd_tls_security_level = encrypt
smtpd_tls_received_header = yes
virtual_mailbox_domains = example.com
virtual_mailbox_base = $dir
virtual_mailbox_maps = static:mail/
virtual_uid_maps = static:$(id -u postfix)
virtual_gid_maps = static:$(id -g postfix)
END
postfix start >/dev/null 2>&1
stop_postfix() { postfix stop >/dev/null 2>&1; }
