"""Whether one flipped bit is all that is wrong with data that has a CRC-32C.

Pure. A CRC is linear: what it differs by depends on which bits are wrong, not on the others. One wrong bit differs by
a value of its own, for any message that fits into memory.
"""

_REFLECTED_POLYNOMIAL = 0x82F63B78
"""Castagnoli's, as RFC 3720 has it."""


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
"""What a flipped bit of the last byte makes of the CRC."""


def is_crc_of_one_flipped_bit(difference: int, size_bytes: int) -> bool:
    """Whether the CRC-32C of `size_bytes` bytes with one bit flipped differs from the right one by `difference`."""
    for _ in range(size_bytes):
        if difference in _LAST_BYTE:
            return True
        # Take one byte away from the end: the CRC before it, which led to this one.
        index = _INDEX_OF_TOP_BYTE[difference >> 24]
        difference = (difference ^ _TABLE[index]) << 8 & 0xFFFFFFFF | index
    return False
