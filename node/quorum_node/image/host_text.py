"""Canonical text form of addresses. PURE.

An entry has the host in the form that its author wrote: `::1`, `0:0:0:0:0:0:0:1` (Java's form) or `::ffff:10.0.0.1`
(an IPv4 client on a dual-stack socket). With a comparison of texts a deny entry could miss.
"""

import ipaddress
from functools import lru_cache


@lru_cache(maxsize=4096)
def host_text(host: str) -> str:
    """The shortest form of an address; any other text unchanged."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)
