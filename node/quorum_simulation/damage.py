"""Flipped bits in a Fetch response, on its way or in the memory of a switch.

Owns which bytes may be hit. Must not know how it is detected. Not the leader epoch of a batch: Kafka's CRC-32C does not cover
it, so no receiver can tell (docs/explanation/durability.md).
"""

from random import Random

from quorum_node.records.batches import PREFIX_BYTES

_LENGTH_AT = 8
_EPOCH_BYTES = range(PREFIX_BYTES, PREFIX_BYTES + 4)


def with_a_flipped_bit(records: bytes, random: Random) -> bytes:
    """Return the records with one flipped bit. `records`: not empty; the last batch may be incomplete."""
    position = random.randrange(len(records))
    start = 0
    while start + PREFIX_BYTES <= len(records):
        length = int.from_bytes(records[start + _LENGTH_AT : start + PREFIX_BYTES], "big")
        if position < start + PREFIX_BYTES + length:
            break
        start += PREFIX_BYTES + length
    if position - start in _EPOCH_BYTES:
        position = start
    damaged = bytearray(records)
    damaged[position] ^= 1 << random.randrange(8)
    return bytes(damaged)
