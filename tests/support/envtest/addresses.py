"""Pod addresses in 127.0.0.0/8: each pod has its own address, so that all pods can use the same ports.

Owns the numbering. Every harness on the machine uses a different /16, which a bound socket reserves, so that
parallel test runs never share an address.
"""

import socket

_CLAIM_PORT = 61_999
_FIRST_BLOCK = 16
_LAST_BLOCK = 200


class LoopbackAddresses:
    """Addresses 127.<block>.x.y; one instance never returns an address twice."""

    def __init__(self) -> None:
        self._claim, self._block = _claim_block()
        self._next = 1

    def take(self) -> str:
        number = self._next
        self._next += 1
        if number > 250 * 250:
            raise RuntimeError("this harness has given out all its pod addresses")
        return f"127.{self._block}.{number // 250 + 1}.{number % 250 + 1}"

    def close(self) -> None:
        self._claim.close()


def _claim_block() -> tuple[socket.socket, int]:
    for block in range(_FIRST_BLOCK, _LAST_BLOCK):
        claim = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            claim.bind((f"127.{block}.0.1", _CLAIM_PORT))
        except OSError:
            claim.close()
            continue
        return claim, block
    raise RuntimeError("no free block of loopback addresses")
