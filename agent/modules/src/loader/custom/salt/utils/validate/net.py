"""Checks of addresses."""
import ipaddress
import re


def _is(kind, value):
    try:
        kind(str(value), strict=False)
        return True
    except ValueError:
        return False


def mac(addr):
    return bool(re.match(r"^([0-9a-f]{2}([:-])[0-9a-f]{2}(\2[0-9a-f]{2}){4})$", addr, re.I))


def ipv4_addr(addr):
    return _is(ipaddress.IPv4Network, addr)


def ipv6_addr(addr):
    return _is(ipaddress.IPv6Network, addr)


def ip_addr(addr):
    return ipv4_addr(addr) or ipv6_addr(addr)


def netmask(mask):
    return isinstance(mask, str) and mask.count(".") == 3 and _is(ipaddress.IPv4Network, "0.0.0.0/" + mask)
