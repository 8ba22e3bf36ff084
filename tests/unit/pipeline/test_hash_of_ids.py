"""Slots in the hash tables: topic ids that differ in any single byte are spread (compaction/values.py)."""

from uuid import UUID

import numpy as np
import pytest

from quorum_pipeline.compaction.columns import _partition_slot, table
from quorum_pipeline.compiled import Bytes, Table, compiled


@compiled
def slot_of(hash_table: Table, data: Bytes, at: int) -> int:
    return _partition_slot(hash_table, data, at)


@pytest.mark.parametrize("byte", range(16))
def test_topic_ids_that_differ_in_one_byte_have_different_slots(byte: int) -> None:
    made = table(100_000, 20)
    slots = set()
    for value in range(64):
        topic_id = UUID(int=(0x5EED << 80 | 0xBEEF) ^ value << 8 * byte)
        data = np.frombuffer(bytearray(4) + topic_id.bytes, np.uint8)
        slots.add(slot_of(made, data, 0))
    assert len(slots) > 32
