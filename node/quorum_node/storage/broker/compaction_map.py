"""The newest offset of each key in a part of a log, in bounded memory.

Owns the map. A key is known by a digest of 16 bytes, whatever its length, as in stock Kafka: two keys with one digest are so
unlikely that a disk loses a record sooner.
"""

from hashlib import blake2b

_BYTES_A_KEY = 200
"""A digest, an integer and their place in a dictionary, measured."""


class CompactionMap:
    """`end_offset`: behind the last record that was looked at. `limit_bytes`: see log.cleaner.dedupe.buffer.size."""

    __slots__ = ("_most", "_newest", "end_offset")

    def __init__(self, limit_bytes: int) -> None:
        self._most = max(limit_bytes // _BYTES_A_KEY, 1)
        self._newest: dict[bytes, int] = {}
        self.end_offset = 0

    @property
    def is_full(self) -> bool:
        """Whether no further batch should be looked at."""
        return len(self._newest) >= self._most

    def put(self, key: bytes, offset: int) -> None:
        """The key is at `offset`, which is behind all that were put before."""
        self._newest[_digest(key)] = offset

    def is_newest(self, key: bytes, offset: int) -> bool:
        """Whether nothing newer is known of the key."""
        return offset >= self._newest.get(_digest(key), -1)


def _digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=16).digest()
