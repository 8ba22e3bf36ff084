"""Places in the hash tables: topic ids that differ in any single byte are spread (compaction/values.py)."""

from uuid import UUID

import numpy as np
import pytest

from quorum_pipeline.compaction.columns import _partition_place, table
from quorum_pipeline.compiled import Bytes, Table, compiled


@compiled
def place_of(places: Table, data: Bytes, at: int) -> int:
    return _partition_place(places, data, at)


@pytest.mark.parametrize("byte", range(16))
def test_topic_ids_that_differ_in_one_byte_have_different_places(byte: int) -> None:
    made = table(100_000, 20)
    places = set()
    for value in range(64):
        topic_id = UUID(int=(0x5EED << 80 | 0xBEEF) ^ value << 8 * byte)
        data = np.frombuffer(bytearray(4) + topic_id.bytes, np.uint8)
        places.add(place_of(made, data, 0))
    assert len(places) > 32
