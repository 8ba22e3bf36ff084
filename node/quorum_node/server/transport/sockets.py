"""Listening sockets, and the socket options of the node's Kafka connections."""

import asyncio
import socket
from typing import Any, Protocol

from quorum_node.host_port import HostPort

_MAPPED = "::ffff:"
"""Before the address of an IPv4 client of an IPv6 socket (RFC 4291, section 2.5.5.2)."""


class PeerNamed(Protocol):
    """The method of a transport that is used here."""

    def get_extra_info(self, name: str) -> Any: ...


def prepare_socket(transport: asyncio.BaseTransport) -> None:
    """Disable Nagle's algorithm, and enable keepalive to detect a peer whose host has vanished."""
    sock = transport.get_extra_info("socket")
    if sock is None:
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)


def bind(host: str, port: int) -> socket.socket:
    """A bound, not yet listening socket. Raises OSError."""
    host = host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except OSError:
        sock.close()
        raise
    sock.setblocking(False)
    return sock


def address_of(transport: asyncio.BaseTransport | None) -> str:
    """IP address of the other side; empty if the connection is closed. That of an IPv4 client is the same on all sockets: limits and
    access control entries name it.
    """
    peer = transport.get_extra_info("peername") if transport is not None else None
    address = str(peer[0]) if peer else ""
    return address.removeprefix(_MAPPED) if "." in address else address


def peer_name(transport: PeerNamed | None) -> str:
    """Address and port of the other side, for messages."""
    peer = transport.get_extra_info("peername") if transport is not None else None
    return str(HostPort(peer[0], peer[1])) if peer else "unknown"
