#!/bin/bash
# openstack_services.sh install: unpacks Debian's packages of Keystone, Glance, Placement, Nova and Neutron, with the packages they need and
# this machine lacks. They must not be installed on it. RabbitMQ and MariaDB are those that tests/run keeps. Needs root.
#
# openstack_services.sh serve DIR: starts these services in a throw-away root, as tests/corpus/throwaway.sh does, with their own processes
# and loopback, which is also the network of the process of this script. Nova's machines are simulated by its driver `fake`. Prints the line
# of openstack_setup.py when all is ready, and ends with its input. The messages of the services are in DIR/log.
#
# The script calls itself: each step enters another layer of namespaces around the services.
set -euo pipefail
cache=${PINCH_OPENSTACK:-/var/cache/pinch-tests/openstack}
program=$(realpath "$0")
repository=$(dirname "$program")/../../..
password=throwaway-0123456789
# The maximum number of seconds of a step, and until a service answers.
step_max=900

# Unpacks the packages without their documentation and translations, and without newer versions of the machine's own services.
unpack() {
    if [ -e "$cache/complete" ]; then return; fi
    for folder in mariadb rabbitmq; do
        if [ ! -e "/var/cache/pinch-tests/$folder/complete" ]; then
            echo "openstack_services.sh: tests/run must unpack $folder first" >&2
            exit 1
        fi
    done
    rm -rf "$cache"
    mkdir -p "$cache"/root/usr/{bin,sbin,lib,lib64} "$cache/debs/partial"
    for folder in bin sbin lib lib64; do ln -s "usr/$folder" "$cache/root/$folder"; done
    local get=(apt-get install -qy --download-only --no-install-recommends -o DPkg::Lock::Timeout=600 -o "Dir::Cache::archives=$cache/debs"
        keystone glance-api placement-api nova-api nova-conductor nova-scheduler neutron-api uwsgi-plugin-python3)
    "${get[@]}" || { apt-get update -q && "${get[@]}"; }
    # A dependency of this package is a hypervisor.
    (cd "$cache/debs" && apt-get download -q nova-compute)
    rm -f "$cache"/debs/{systemd,libsystemd,libnss-systemd,libpam-systemd,libudev1,udev,sudo}*.deb
    for package in "$cache"/debs/*.deb; do
        dpkg-deb --fsys-tarfile "$package" | tar --extract --keep-directory-symlink --directory="$cache/root" \
            --exclude='./usr/share/doc/*' --exclude='./usr/share/man/*' --exclude='./usr/share/locale/*'
    done
    rm -r "$cache/debs"
    touch "$cache/complete"
}

# Starts a service, with its messages in a file of its name.
begin() {
    local name=$1
    shift
    "$@" >"$dir/log/$name" 2>&1 </dev/null &
}

# Starts a service of the web, as its package does. Nova and Neutron have their own servers: in threads of this one their requests may hang.
begin_web() {
    local name=$1 port=$2 file=$3
    begin "$name" uwsgi-core --plugin python311 --http-socket "127.0.0.1:$port" --master --processes 1 --threads 8 --lazy-apps --die-on-term \
        --buffer-size 65535 --rem-header Content-Length --wsgi-file "/usr/bin/$file"
}

# Runs a program, and prints its messages only if it fails.
quietly() {
    timeout "$step_max" "$@" >>"$dir/log/$1" 2>&1 </dev/null || {
        tail -n 20 "$dir/log/$1" >&2
        exit 1
    }
}

# Waits until a service answers, with any status.
wait_for() {
    local end=$((SECONDS + step_max))
    while ((SECONDS < end)); do
        if curl --silent --max-time 60 --output /dev/null "http://127.0.0.1:$1/"; then return; fi
        sleep 0.2
    done
    tail -n 20 "$dir"/log/* >&2
    exit 1
}

connection() { echo "connection = mysql+pymysql://root@127.0.0.1/$1"; }

# The settings of a client of other services.
client() {
    cat <<END
[$1]
auth_url = http://127.0.0.1:5000/v3
auth_type = password
username = admin
password = $password
project_name = admin
user_domain_id = default
project_domain_id = default
region_name = RegionOne
END
}

# The settings of a service, which asks Keystone if a token is valid.
service() {
    client keystone_authtoken
    cat <<END
www_authenticate_uri = http://127.0.0.1:5000/v3
service_token_roles = admin
service_token_roles_required = true
END
}

# Writes the settings of the services. A page of a list has one item, so that the driver asks for several pages.
configure() {
    cp /usr/share/glance-common/{glance-api-paste.ini,schema-image.json} /etc/glance/
    cp /usr/share/nova-common/api-paste.ini /etc/nova/
    cp /usr/share/neutron-common/api-paste.ini /etc/neutron/
    mkdir -p /var/lib/glance/images
    mkdir -m 700 /etc/keystone/fernet-keys
    printf '[database]\n%s\n[token]\nprovider = fernet\n' "$(connection keystone)" >/etc/keystone/keystone.conf
    cat >/etc/glance/glance-api.conf <<END
[DEFAULT]
api_limit_max = 1
bind_host = 127.0.0.1
limit_param_default = 1
workers = 0
[database]
$(connection glance)
[glance_store]
filesystem_store_datadir = /var/lib/glance/images
[paste_deploy]
flavor = keystone
$(service)
END
    printf '[placement_database]\n%s\n%s\n' "$(connection placement)" "$(service)" >/etc/placement/placement.conf
    cat >/etc/nova/nova.conf <<END
[DEFAULT]
compute_driver = fake.FakeDriver
enabled_apis = osapi_compute
my_ip = 127.0.0.1
osapi_compute_listen = 127.0.0.1
osapi_compute_workers = 1
state_path = /var/lib/nova
transport_url = rabbit://guest:guest@127.0.0.1:5672/
[api]
max_limit = 1
[api_database]
$(connection nova_api)
[database]
$(connection nova)
[conductor]
workers = 1
[scheduler]
discover_hosts_in_cells_interval = 3
workers = 1
[oslo_concurrency]
lock_path = /var/lib/nova/locks
$(client glance)
$(client neutron)
$(client placement)
$(service)
END
    cat >/etc/neutron/neutron.conf <<END
[DEFAULT]
api_workers = 0
bind_host = 127.0.0.1
core_plugin = ml2
notify_nova_on_port_data_changes = false
notify_nova_on_port_status_changes = false
rpc_workers = 0
transport_url = rabbit://guest:guest@127.0.0.1:5672/
[database]
$(connection neutron)
[ml2]
mechanism_drivers = openvswitch
tenant_network_types = local
type_drivers = local
[oslo_concurrency]
lock_path = /var/lib/neutron/locks
$(service)
END
}

# The databases are in memory, because their tables are made by thousands of synchronized writes.
databases() {
    mkdir -p /var/lib/mysql "$dir/run"
    mount -t tmpfs tmpfs /var/lib/mysql
    local network=--bind-address=127.0.0.1
    # shellcheck source=tests/corpus/mariadb.sh
    . "$repository/tests/corpus/mariadb.sh"
    for name in keystone glance placement nova nova_api nova_cell0 neutron; do
        sql --execute "CREATE DATABASE $name CHARACTER SET utf8mb3"
    done
}

bus() {
    # shellcheck source=tests/corpus/rabbitmq.sh
    . "$repository/tests/corpus/rabbitmq.sh"
    rabbitmq_servers openstack rabbit
}

identity() {
    quietly keystone-manage db_sync
    quietly keystone-manage fernet_setup --keystone-user root --keystone-group root
    quietly keystone-manage bootstrap --bootstrap-password "$password" --bootstrap-region-id RegionOne --bootstrap-admin-url http://127.0.0.1:5000/v3 \
        --bootstrap-internal-url http://127.0.0.1:5000/v3 --bootstrap-public-url http://127.0.0.1:5000/v3
}

tables() {
    quietly nova-manage api_db sync
    quietly nova-manage cell_v2 map_cell0
    quietly nova-manage cell_v2 create_cell --name cell1
    quietly nova-manage db sync
    quietly glance-manage db_sync
    quietly placement-manage db sync
    quietly neutron-db-manage --config-file /etc/neutron/neutron.conf upgrade heads
}

set_up() { python3 "$repository/tests/e2e/cloud/openstack_setup.py" "$password" "$1"; }

serve() {
    configure
    databases
    bus &
    local bus=$!
    tables &
    local tables=$!
    identity
    begin_web keystone 5000 keystone-wsgi-public
    wait_for 5000
    set_up catalog
    wait "$tables"
    begin_web placement 8778 placement-api
    begin glance-api glance-api
    wait "$bus"
    begin neutron-server neutron-server --config-file /etc/neutron/neutron.conf
    begin nova-api nova-api
    begin nova-conductor nova-conductor
    begin nova-scheduler nova-scheduler
    begin nova-compute nova-compute
    for port in 8778 8774 9292 9696; do wait_for "$port"; done
    set_up project
    cat >/dev/null
}

case $1 in
install)
    unpack
    ;;
serve)
    dir=$2
    mkdir -p "$dir"/over/{changed,work,machine,changed-machine,work-machine,root} "$dir/log"
    exec env --default-signal setpriv --bounding-set=-sys_time unshare --mount --net --uts --ipc "$program" network "$dir"
    ;;
network)
    ip link set lo up
    exec unshare --pid --fork --kill-child "$program" root "$2"
    ;;
root)
    dir=$2 root=$2/over/root
    # An overlay cannot have a folder and one inside it as its layers, but it can have an overlay of the outer one.
    mount -t overlay overlay -o "lowerdir=/,upperdir=$dir/over/changed-machine,workdir=$dir/over/work-machine" "$dir/over/machine"
    mount -t overlay overlay -o "lowerdir=$cache/root:$dir/over/machine,upperdir=$dir/over/changed,workdir=$dir/over/work" "$root"
    mount -t proc proc "$root/proc"
    for folder in dev sys; do mount --rbind "/$folder" "$root/$folder"; done
    mount -t tmpfs -o mode=755 tmpfs "$root/run"
    mount --bind "$dir" "$root$dir"
    # The shell is process 1: all processes end with it.
    exec env -i HOME=/root LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$root" "$program" inside "$dir"
    ;;
inside)
    dir=$2
    cd /
    ldconfig
    serve
    ;;
*)
    echo "openstack_services.sh: unknown step $1" >&2
    exit 64
    ;;
esac
