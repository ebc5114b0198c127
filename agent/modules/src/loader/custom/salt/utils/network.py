"""Addresses and interfaces."""
import ipaddress
import random
import socket

from salt import _pinch


def _is(kind, value):
    try:
        kind(value)
        return True
    except ValueError:
        return False


def is_ip(ip_addr):
    return _is(ipaddress.ip_address, ip_addr)


def is_ipv4(ip_addr):
    return _is(ipaddress.IPv4Address, ip_addr)


def is_ipv6(ip_addr):
    return _is(ipaddress.IPv6Address, ip_addr)


def is_subnet(cidr):
    return isinstance(cidr, str) and "/" in cidr and _is(ipaddress.ip_network, cidr)


is_ipv4_subnet = lambda cidr: "/" in cidr and _is(ipaddress.IPv4Network, cidr)  # noqa: E731
is_ipv6_subnet = lambda cidr: "/" in cidr and _is(ipaddress.IPv6Network, cidr)  # noqa: E731


def is_loopback(ip_addr):
    return ipaddress.ip_address(ip_addr).is_loopback


def get_net_size(mask):
    return len("".join(format(int(part), "08b") for part in mask.split(".")).rstrip("0"))


def get_net_start(ipaddr, netmask):
    return str(ipaddress.ip_network("{}/{}".format(ipaddr, netmask), strict=False).network_address)


def calc_net(ip_addr, netmask=None):
    if netmask is not None:
        ip_addr = "{}/{}".format(ip_addr, netmask)
    return str(ipaddress.ip_network(ip_addr, strict=False))


def cidr_to_ipv4_netmask(cidr_bits):
    try:
        return str(ipaddress.ip_network("0.0.0.0/%d" % int(cidr_bits)).netmask) if int(cidr_bits) else ""
    except ValueError:
        return ""


def natural_ipv4_netmask(ip_addr, fmt="prefixlen"):
    first = int(ip_addr.split(".")[0])
    bits = 8 if first < 128 else 16 if first < 192 else 24
    return cidr_to_ipv4_netmask(bits) if fmt == "netmask" else "/%d" % bits


def in_subnet(cidr, addr=None):
    try:
        net = ipaddress.ip_network(cidr)
    except ValueError:
        return False
    addrs = ip_addrs() + ip_addrs6() if addr is None else addr if isinstance(addr, (list, tuple)) else [addr]
    return any(ipaddress.ip_address(one) in net for one in addrs)


def interfaces():
    return _pinch.call("network.interfaces")


def _addrs(kind, key, interface, include_loopback, data):
    found = set()
    for name, details in (data or interfaces()).items():
        if interface in (None, name):
            for entry in details.get(kind, []):
                address = entry.get("address")
                if address and (include_loopback or not is_loopback(address.split("%")[0])):
                    found.add(address)
    return sorted(found, key=lambda text: int(ipaddress.ip_address(text.split("%")[0])))


def ip_addrs(interface=None, include_loopback=False, interface_data=None):
    return _addrs("inet", "address", interface, include_loopback, interface_data)


def ip_addrs6(interface=None, include_loopback=False, interface_data=None):
    return _addrs("inet6", "address", interface, include_loopback, interface_data)


def hw_addr(iface):
    return interfaces().get(iface, {}).get("hwaddr", "")


def subnets(interfaces=None):
    return _pinch.call("network.subnets", interfaces)


def get_fqhostname():
    return socket.getfqdn()


def host_to_ips(host):
    try:
        return list(dict.fromkeys(info[4][0] for info in socket.getaddrinfo(host, None, 0, socket.SOCK_STREAM)))
    except OSError:
        return None


def sanitize_host(hostname, underscore_ok=False):
    return "".join(char for char in hostname if char < "\x80" and (char.isalnum() or char in ("-._" if underscore_ok else "-.")))


def is_reachable_host(entity_name):
    return bool(host_to_ips(entity_name))


def parse_host_port(host_port):
    if host_port.startswith("["):
        host, _, rest = host_port[1:].partition("]")
        port = rest.lstrip(":")
    elif host_port.count(":") == 1:
        host, port = host_port.split(":")
    else:
        host, port = host_port, ""
    if not host or (port and not port.isdigit()):
        raise ValueError('"{}" is not a valid host and port'.format(host_port))
    return host, int(port) if port else None


def ip_bracket(addr, strip=False):
    addr = addr.strip("[]")
    return "[{}]".format(addr) if is_ipv6(addr) and not strip else addr


def mac2eui64(mac, prefix=None):
    digits = "".join(char for char in mac if char in "0123456789abcdefABCDEF").lower()
    eui64 = digits[:6] + "fffe" + digits[6:]
    eui64 = "%02x" % (int(eui64[:2], 16) ^ 2) + eui64[2:]
    if prefix is None:
        return ":".join(eui64[at : at + 4] for at in range(0, 16, 4))
    net = ipaddress.ip_network(prefix, strict=False)
    return "{}/{}".format(net[int(eui64, 16)], net.prefixlen)


def gen_mac(prefix="AC:DE:48"):
    return "{}:{}".format(prefix, ":".join("%02X" % random.randint(0, 255) for _ in range(3)))
