#!/bin/sh
# remotes.sh: serves a repository with `git http-backend` behind TLS and a password and with OpenSSH's server, in the throw-away root that
# throwaway.sh has made. For each way to it, `salt-call cp.list_master` is run: its output is written to NAME.out, its errors to NAME.err, and
# the arguments of all programs that it starts to NAME.exec. PINCH is the program; the folder of this script is the first argument.
set -eu
here=$PWD
scripts=$1
ip link set lo up
export HOME=/root GIT_CONFIG_NOSYSTEM=1
for deb in /var/cache/pinch-tests/ssh/*.deb; do dpkg-deb --fsys-tarfile "$deb" | tar -x --keep-directory-symlink -C /; done
grep -q '^sshd:' /etc/passwd || echo 'sshd:x:74:65534::/run/sshd:/usr/sbin/nologin' >>/etc/passwd
rm -rf /root/.ssh /root/.gitconfig /srv/git
mkdir -p /run/sshd /root/.ssh /srv/git
chmod 700 /root/.ssh
git init --quiet --initial-branch=master /srv/git/work
cd /srv/git/work
echo 'web: {test.nop: []}' >web.sls
git add .
git -c user.name=a -c user.email=a@example.org commit --quiet --message first
git clone --quiet --bare /srv/git/work /srv/git/states.git
cd "$here"

# Certificates for localhost: of an authority that this machine trusts, and of another one.
for name in trusted other; do
    openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj "/CN=$name" -addext 'subjectAltName=DNS:localhost' \
        -keyout "$name.key" -out "$name.crt" 2>/dev/null
done
cp trusted.crt /usr/local/share/ca-certificates/pinch-test.crt
update-ca-certificates >/dev/null 2>&1
python3 "$scripts/https.py" 8443 trusted &
python3 "$scripts/https.py" 8444 other &
python3 "$scripts/https.py" 8080 &

for name in hostkey key locked; do
    secret=
    [ "$name" != locked ] || secret=hush-passphrase
    ssh-keygen -q -t ed25519 -N "$secret" -f "$name"
done
cat key.pub locked.pub >/root/.ssh/authorized_keys
for port in 2222 2223; do
    /usr/sbin/sshd -f /dev/null -p "$port" -o ListenAddress=127.0.0.1 -o "HostKey=$here/hostkey" -o StrictModes=no -o UsePAM=no -o PidFile=none \
        -o PermitRootLogin=yes -E "$here/sshd-$port.log"
done
# Only one of the two is known.
echo "[localhost]:2222 $(cut -d ' ' -f 1,2 hostkey.pub)" >/root/.ssh/known_hosts
for port in 8443 8444 8080 2222 2223; do
    until python3 -c "import socket; socket.create_connection(('127.0.0.1', $port), 1)" 2>/dev/null; do sleep 0.05; done
done

# look NAME: lists the files with the configuration on stdin.
look() {
    mkdir -p "$here/$1"
    { printf 'id: m\nfile_client: local\nroot_dir: %s\nlog_level_logfile: all\nfileserver_backend: [gitfs]\ngitfs_update_interval: 0\n' "$here/$1"; cat; } >"$here/$1/minion"
    again "$1"
}
again() {
    code=0
    strace -f -qq -s 4096 -e trace=execve -o "$here/$1.exec" "$PINCH" salt-call -c "$here/$1" --out=json cp.list_master \
        >"$here/$1.out" 2>"$here/$1.err" || code=$?
    echo "$code" >"$here/$1.code"
}
https=https://localhost:8443/states.git
look https <<END
gitfs_remotes: [{'$https': [{user: me}, {password: hush-password}]}]
END
look https_with_the_password_in_the_url <<END
gitfs_remotes: ['https://me:hush-password@localhost:8443/states.git']
END
look https_with_a_global_login <<END
gitfs_remotes: ['$https']
gitfs_user: me
gitfs_password: hush-password
END
look https_with_a_wrong_password <<END
gitfs_remotes: [{'$https': [{user: me}, {password: hush-wrong}]}]
END
look https_without_a_password <<END
gitfs_remotes: ['$https']
END
look https_with_an_unknown_certificate <<END
gitfs_remotes: [{'https://localhost:8444/states.git': [{user: me}, {password: hush-password}]}]
END
look https_that_is_not_verified <<END
gitfs_remotes: [{'https://localhost:8444/states.git': [{user: me}, {password: hush-password}, {ssl_verify: False}]}]
END
look http_with_a_password <<END
gitfs_remotes: [{'http://localhost:8080/states.git': [{user: me}, {password: hush-password}]}]
END
look http_with_insecure_auth <<END
gitfs_remotes: [{'http://localhost:8080/states.git': [{user: me}, {password: hush-password}, {insecure_auth: True}]}]
END
look ssh <<END
gitfs_remotes: [{'ssh://root@localhost:2222/srv/git/states.git': [{privkey: $here/key}]}]
END
look ssh_with_a_passphrase <<END
gitfs_remotes: [{'ssh://root@localhost:2222/srv/git/states.git': [{privkey: $here/locked}, {passphrase: hush-passphrase}]}]
END
look ssh_with_a_wrong_passphrase <<END
gitfs_remotes: [{'ssh://root@localhost:2222/srv/git/states.git': [{privkey: $here/locked}, {passphrase: hush-wrong}]}]
END
look ssh_without_the_passphrase <<END
gitfs_remotes: [{'ssh://root@localhost:2222/srv/git/states.git': [{privkey: $here/locked}]}]
END
look ssh_with_an_unknown_host_key <<END
gitfs_remotes: [{'ssh://root@localhost:2223/srv/git/states.git': [{privkey: $here/key}]}]
END
look a_repository_that_does_not_exist <<END
gitfs_remotes: [{'https://localhost:8443/nosuch.git': [{user: me}, {password: hush-password}]}]
END
mkdir away
cp -r https/. away
mv /srv/git/states.git /srv/git/moved.git
sed -i "s,^root_dir:.*,root_dir: $here/https," away/minion
again away
