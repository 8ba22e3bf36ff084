"""Bits that turn over in the answer to a Fetch, on its way or in the memory of a switch.

Owns which bytes may be hit. Must not know who notices. Not the leader epoch of a batch: Kafka's CRC-32C does not cover
it, so no receiver can tell (docs/explanation/durability.md).
"""

from random import Random

from quorum_node.records.batches import PREFIX_BYTES

_LENGTH_AT = 8
_EPOCH_BYTES = range(PREFIX_BYTES, PREFIX_BYTES + 4)


def with_a_flipped_bit(records: bytes, random: Random) -> bytes:
    """`records`: whole batches, the last one maybe cut short; not empty."""
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
