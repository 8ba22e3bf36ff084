"""Ports for the servers that tests start: each process of tests has a block of its own.

A port that the kernel names is free only until somebody else asks it for one, and between the choice and the server's
bind lies a process's start. So blocks are claimed, and lie below the ports that outgoing connections take.
"""

import itertools
import socket
from collections.abc import Iterator
from functools import cache

_FIRST, _BLOCK, _BLOCKS = 10_000, 400, 50


def free_ports(count: int) -> list[int]:
    """Ports of this process's block that nobody listens on now; a port comes again after all others.

    Raises RuntimeError when there are not so many.
    """
    candidates = itertools.islice(
        _ports(), _BLOCK
    )  # each once: no port is given out twice in a call
    found = list(itertools.islice(filter(_is_free, candidates), count))
    if len(found) < count:
        raise RuntimeError(f"of this process's {_BLOCK} ports fewer than {count} are free")
    return found


@cache
def _ports() -> Iterator[int]:
    first = _claimed_block()
    return itertools.cycle(range(first, first + _BLOCK))


@cache
def _claim() -> socket.socket:
    return socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)


def _claimed_block() -> int:
    """The first port of a block that is this process's until it ends: the claim is a name that only one can have."""
    for first in range(_FIRST, _FIRST + _BLOCK * _BLOCKS, _BLOCK):
        try:
            _claim().bind(f"\0metadataquorum-test-ports-{first}")
        except OSError:
            continue
        return first
    raise RuntimeError(f"{_BLOCKS} processes of tests run already")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do: what is left of connections that a server closed itself keeps nobody from listening.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
