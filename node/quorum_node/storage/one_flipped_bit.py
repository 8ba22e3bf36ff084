"""Whether a single flipped bit explains a wrong CRC-32C.

Pure. A CRC is linear: the difference depends on the positions of the wrong bits, not on the data.
For any message that fits into memory, each single wrong bit has a unique difference.
"""

_REFLECTED_POLYNOMIAL = 0x82F63B78
"""Castagnoli polynomial, as in RFC 3720."""


def _table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (_REFLECTED_POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _table()
_INDEX_OF_TOP_BYTE = {entry >> 24: index for index, entry in enumerate(_TABLE)}
_LAST_BYTE = frozenset(_TABLE[1 << bit] for bit in range(8))
"""CRC differences of a flipped bit in the last byte."""


def is_crc_of_one_flipped_bit(difference: int, size_bytes: int) -> bool:
    """Whether `difference` is the CRC-32C difference of a single flipped bit in `size_bytes` bytes."""
    for _ in range(size_bytes):
        if difference in _LAST_BYTE:
            return True
        # Remove one byte from the end: the CRC before it.
        index = _INDEX_OF_TOP_BYTE[difference >> 24]
        difference = (difference ^ _TABLE[index]) << 8 & 0xFFFFFFFF | index
    return False
