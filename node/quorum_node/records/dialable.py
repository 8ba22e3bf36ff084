"""Validates the addresses that a replica announces for itself.

Owns the syntax of hosts and ports in voters records. Must not know the network: nothing is resolved
here.
Source: RFC 1123, 2.1 and RFC 952 (host names; underscores as in Kafka), RFC 4291 (IPv6 addresses).
"""

import re
from collections.abc import Iterable
from ipaddress import AddressValueError, IPv4Address, IPv6Address

from quorum_node.records.identity import Endpoint

MAX_LISTENERS = 16
MAX_NAME_LENGTH = 100
_MAX_HOST_LENGTH = 253
_DOTTED_QUAD = re.compile(r"[0-9]+(\.[0-9]+){3}")
_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_NAME = re.compile(r"[A-Za-z0-9_.-]+")


def why_unusable(endpoints: Iterable[Endpoint]) -> str | None:
    """Why the listeners of a voter are invalid; None: they are valid."""
    names: set[str] = set()
    for endpoint in endpoints:
        name = endpoint.name.upper()
        if len(name) > MAX_NAME_LENGTH or not _NAME.fullmatch(name):
            return f"{_shown(endpoint.name)} is not a valid listener name"
        if name in names:
            return f"two listeners are named {name}"
        names.add(name)
        if len(names) > MAX_LISTENERS:
            return f"more than {MAX_LISTENERS} listeners"
        if (why := why_undialable(endpoint.host, endpoint.port)) is not None:
            return f"listener {name}: {why}"
    return None


def why_undialable(host: str, port: int) -> str | None:
    """Why `host`:`port` is invalid; None: it is valid."""
    if not 0 < port <= 0xFFFF:
        return f"{port} is not a port from 1 to 65535"
    if not 0 < len(host) <= _MAX_HOST_LENGTH:
        return f"a host has 1 to {_MAX_HOST_LENGTH} characters, this one has {len(host)}"
    try:
        if ":" in host:
            return _why_no_peer(IPv6Address(host))
        if _DOTTED_QUAD.fullmatch(host):
            return _why_no_peer(IPv4Address(host))
    except AddressValueError:
        return f"{_shown(host)} is not an IP address"
    labels = host.removesuffix(".").split(".")
    if not all(_LABEL.fullmatch(label) for label in labels):
        return f"{_shown(host)} is not a host name"
    return None


def _why_no_peer(address: IPv4Address | IPv6Address) -> str | None:
    if address.is_unspecified or address.is_multicast or address == IPv4Address("255.255.255.255"):
        return f"{address} is not the address of one host"
    return None


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "…")
