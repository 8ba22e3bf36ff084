"""Rows that the next records change, fetched together. PURE, compiled.

One by one, each record would wait for the memory; so they wait together.
"""

from quorum_node.records import metadata as md
from quorum_pipeline.compaction.columns import PARTITION_KEY_BYTES, foreseen
from quorum_pipeline.compaction.frames import HEAD_BYTES
from quorum_pipeline.compaction.sums import SUM
from quorum_pipeline.compiled import Bytes, Numbers, Table, inner
from quorum_pipeline.plain_form import int64

AHEAD = 64
"""Records whose partitions are fetched together: they stay in the nearest cache until they are changed."""
_PARTITION_CHANGE = md.PartitionChangeRecord.RECORD_TYPE


@inner
def look_ahead(
    data: Bytes, begins: Numbers, ends: Numbers, kinds: Bytes, first: int, partitions: Table
) -> int:
    """What it returns says nothing: it has to be used, or looking ahead is optimized away."""
    found = int64(0)
    for index in range(first, min(first + AHEAD, len(begins))):
        at = begins[index] + HEAD_BYTES
        changes = kinds[index] == _PARTITION_CHANGE or kinds[index] == SUM
        if changes and at + PARTITION_KEY_BYTES <= ends[index]:
            found += foreseen(partitions, data, at)
    return found
