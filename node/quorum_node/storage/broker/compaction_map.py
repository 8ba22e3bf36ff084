"""The newest offset of each key in a part of a log, in bounded memory.

Owns the map. Keys are identified by a digest of 16 bytes, as in stock Kafka: a collision is less
likely than a disk error.
"""

from hashlib import blake2b

_BYTES_A_KEY = 200
"""Size of an entry: digest, integer and dictionary slot, measured."""


class CompactionMap:
    """`end_offset`: end of the part that was examined. `limit_bytes`: see log.cleaner.dedupe.buffer.size."""

    __slots__ = ("_most", "_newest", "end_offset")

    def __init__(self, limit_bytes: int) -> None:
        self._most = max(limit_bytes // _BYTES_A_KEY, 1)
        self._newest: dict[bytes, int] = {}
        self.end_offset = 0

    @property
    def is_full(self) -> bool:
        """Whether no further batch can be added."""
        return len(self._newest) >= self._most

    def put(self, key: bytes, offset: int) -> None:
        """Add a key at `offset`, which must be higher than all earlier ones."""
        self._newest[_digest(key)] = offset

    def is_newest(self, key: bytes, offset: int) -> bool:
        """Whether the map has no newer offset for the key."""
        return offset >= self._newest.get(_digest(key), -1)


def _digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=16).digest()
