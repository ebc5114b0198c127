#!/bin/sh
# rabbitmq.sh: defines `rabbitmq_servers HOST [NODE...]`, which starts RabbitMQ servers on the loopback of a throw-away root: rabbit@HOST, which
# rabbitmqctl uses, and other@HOST, unless other nodes are named. For roots that boot.sh started, which have their own network. Missing programs come from the packages
# that tests/run keeps.
if [ ! -x /usr/lib/rabbitmq/bin/rabbitmq-server ]; then
    for part in usr etc; do cp -asn /var/cache/pinch-tests/rabbitmq/root/$part/. /$part/; done
    if [ -d /var/cache/pinch-tests/rabbitmq/root/lib ]; then cp -asn /var/cache/pinch-tests/rabbitmq/root/lib/. /usr/lib/; fi
    ldconfig
fi
ip link set lo up
id rabbitmq >/dev/null 2>&1 || useradd --system --home-dir /var/lib/rabbitmq --shell /usr/sbin/nologin rabbitmq
install -d -o rabbitmq -g rabbitmq /etc/rabbitmq /var/lib/rabbitmq /var/log/rabbitmq /run/rabbitmq
# A handshake between nodes may take longer than Erlang's default of 7 seconds on a machine that is busy.
cat >/etc/rabbitmq/rabbitmq-env.conf <<'END'
ERL_EPMD_ADDRESS=127.0.0.1
CTL_ERL_ARGS='-kernel net_setuptime 120'
SERVER_ADDITIONAL_ERL_ARGS='-kernel net_setuptime 120'
END
printf 'throwaway' >/var/lib/rabbitmq/.erlang.cookie
chmod 400 /var/lib/rabbitmq/.erlang.cookie
chown rabbitmq: /var/lib/rabbitmq/.erlang.cookie
rabbitmq_servers() {
    local host=$1 port=5672 node
    shift
    [ $# -gt 0 ] || set -- rabbit other
    printf '127.0.0.1 localhost %s\n' "$host" >/etc/hosts
    hostname "$host"
    # With the default limit of open files, Erlang allocates tables of hundreds of megabytes.
    ulimit -n 4096
    # Otherwise several servers would start it at the same time.
    epmd -daemon -address 127.0.0.1
    for node; do
        RABBITMQ_NODE_PORT=$port RABBITMQ_DIST_PORT=$((port + 20000)) start "$node@$host"
        port=$((port + 1))
    done
    for node; do
        # await_startup waits for a node that is starting, but fails for one that does not exist yet.
        for _ in $(seq 60); do
            (cd / && rabbitmqctl --quiet --node "$node@$host" await_startup --timeout 120) 2>/dev/null && break
            sleep 0.5
        done
    done
}
start() {
    (cd / && RABBITMQ_NODENAME=$1 exec setsid rabbitmq-server >"/var/log/rabbitmq/$1.out" 2>&1 </dev/null) &
}
