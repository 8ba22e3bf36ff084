"""Ports for the servers that tests start: each test process has a block of its own.

A free port that the kernel chooses can be given to another process before the server binds it. So blocks are claimed, below the range of
ports for outgoing connections.
"""

import atexit
import itertools
import socket
from collections.abc import Iterator
from functools import cache

_FIRST, _BLOCK, _BLOCKS = 10_000, 400, 50


def free_ports(count: int) -> list[int]:
    """Ports of this process's block without a listener; a port is used again only after all others.

    Raises RuntimeError when there are not enough.
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
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    atexit.register(claim.close)
    return claim


def _claimed_block() -> int:
    """The first port of a block that is this process's until it ends: the claim is an abstract socket name."""
    for first in range(_FIRST, _FIRST + _BLOCK * _BLOCKS, _BLOCK):
        try:
            _claim().bind(f"\0metadataquorum-test-ports-{first}")
        except OSError:
            continue
        return first
    raise RuntimeError(f"{_BLOCKS} processes of tests run already")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # With SO_REUSEADDR, like servers: closed connections of a server do not prevent a new listener.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
