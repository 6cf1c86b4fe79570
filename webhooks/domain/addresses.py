"""Which addresses may be connected to. Our own lists: ``ipaddress.is_global`` lets at least twelve through."""

from __future__ import annotations

import ipaddress
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network

# This network, private, shared (also a cloud's metadata), loopback, link-local (metadata), protocol assignments,
# documentation, AS112, 6to4 relays, benchmarks, multicast, reserved; one cloud's host service.
_IPV4_REFUSED = tuple(
    map(
        IPv4Network,
        (
            *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
            *("192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24"),
            *("192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
            *("224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32"),
        ),
    )
)
# Global unicast, less Teredo and its neighbours, documentation, 6to4 and AS112. NAT64, unique-local, site-local,
# link-local, multicast, compatible and translated forms lie outside of it.
_IPV6_ALLOWED = IPv6Network("2000::/3")
_IPV6_REFUSED = tuple(map(IPv6Network, ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "2620:4f:8000::/48")))


def is_allowed(address: str) -> bool:
    """Say whether an address, as a resolver gives it, lies on the public internet."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(parsed, IPv6Address):
        if parsed.ipv4_mapped is None:
            return _is_allowed_6(parsed)
        parsed = parsed.ipv4_mapped
    return _is_allowed_4(parsed)


def _is_allowed_4(address: IPv4Address) -> bool:
    return not any(address in network for network in _IPV4_REFUSED)


def _is_allowed_6(address: IPv6Address) -> bool:
    if address.scope_id is not None or address not in _IPV6_ALLOWED:
        return False
    return not any(address in network for network in _IPV6_REFUSED)
