#!/bin/sh
# slapd.sh: starts OpenLDAP's server in a throw-away root. It listens on 127.0.0.1:389 and, with TLS, on 127.0.0.1:636; its certificate is
# $dir/ldap.crt. Missing programs come from the packages that tests/run keeps. It knows alice, bob (of the group staff) and the account
# `reader`, which may search. `stop_slapd` ends it.
kept=/var/cache/pinch-tests/ldap/root
if [ ! -x /usr/sbin/slapd ] || [ ! -x /usr/bin/ldapwhoami ]; then
    cp -asn "$kept/usr/." /usr/
    ldconfig
fi
schemas=/etc/ldap/schema
[ -e "$schemas/nis.schema" ] || schemas=$kept/etc/ldap/schema
mkdir -p "$dir/ldap" /etc/ldap
openssl req -x509 -newkey rsa:2048 -nodes -keyout "$dir/ldap.key" -out "$dir/ldap.crt" -days 2 -subj /CN=127.0.0.1 \
    -addext subjectAltName=IP:127.0.0.1 2>/dev/null
cat >"$dir/slapd.conf" <<END
include $schemas/core.schema
include $schemas/cosine.schema
include $schemas/nis.schema
include $schemas/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile $dir/slapd.pid
TLSCertificateFile $dir/ldap.crt
TLSCertificateKeyFile $dir/ldap.key
database mdb
maxsize 10485760
suffix dc=example,dc=org
directory $dir/ldap
access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact=cn=reader,dc=example,dc=org read by * none
END
{
    printf 'dn: dc=example,dc=org\nobjectClass: dcObject\nobjectClass: organization\ndc: example\no: example\n\n'
    for unit in People Groups; do printf 'dn: ou=%s,dc=example,dc=org\nobjectClass: organizationalUnit\nou: %s\n\n' $unit $unit; done
    printf 'dn: cn=reader,dc=example,dc=org\nobjectClass: organizationalRole\nobjectClass: simpleSecurityObject\ncn: reader\nuserPassword: reader-horse\n\n'
    for user in alice bob; do
        printf 'dn: uid=%s,ou=People,dc=example,dc=org\nobjectClass: inetOrgPerson\nuid: %s\ncn: %s\nsn: %s\nuserPassword: right-horse\n\n' \
            $user $user $user $user
    done
    printf 'dn: cn=staff,ou=Groups,dc=example,dc=org\nobjectClass: posixGroup\ncn: staff\ngidNumber: 5000\nmemberUid: bob\n'
} >"$dir/entries"
slapadd -f "$dir/slapd.conf" -l "$dir/entries" >/dev/null
rm "$dir/entries"
slapd -f "$dir/slapd.conf" -h 'ldap://127.0.0.1:389 ldaps://127.0.0.1:636'
until [ -e "$dir/slapd.pid" ]; do sleep 0.1; done
stop_slapd() {
    kill "$(cat "$dir/slapd.pid")"
    while [ -e "$dir/slapd.pid" ]; do sleep 0.1; done
}
