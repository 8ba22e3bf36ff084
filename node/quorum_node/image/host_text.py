"""One text for one address, however it was written. PURE.

An entry about a host holds whatever text its author gave: `::1`, `0:0:0:0:0:0:0:1` (as Java writes it) or
`::ffff:10.0.0.1` (as a socket for both families tells an IPv4 client). Compared as text, an entry that denies would miss.
"""

import ipaddress
from functools import lru_cache


@lru_cache(maxsize=4096)
def host_text(host: str) -> str:
    """The shortest form of an address; any other text as it is."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address)
