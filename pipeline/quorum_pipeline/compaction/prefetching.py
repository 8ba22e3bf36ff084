"""Prefetches the rows that the next records change. PURE, compiled.

Memory accesses of several records then overlap instead of waiting one by one.
"""

from quorum_node.records import metadata as md
from quorum_pipeline.canonical_encoding import int64
from quorum_pipeline.compaction.columns import PARTITION_KEY_BYTES, prefetch_row
from quorum_pipeline.compaction.frames import HEAD_BYTES
from quorum_pipeline.compaction.internal_records import COMBINED_CHANGE
from quorum_pipeline.compiled import Bytes, Numbers, Table, inner

PREFETCH_RECORDS = 64
"""Number of records to prefetch for; their rows stay in the nearest cache until they are changed."""
_PARTITION_CHANGE = md.PartitionChangeRecord.RECORD_TYPE


@inner
def prefetch_rows(
    data: Bytes, begins: Numbers, ends: Numbers, kinds: Bytes, first: int, partitions: Table
) -> int:
    """Prefetch. The return value has no meaning but must be used, so that the compiler does not remove the accesses."""
    found = int64(0)
    for index in range(first, min(first + PREFETCH_RECORDS, len(begins))):
        at = begins[index] + HEAD_BYTES
        changes = kinds[index] == _PARTITION_CHANGE or kinds[index] == COMBINED_CHANGE
        if changes and at + PARTITION_KEY_BYTES <= ends[index]:
            found += prefetch_row(partitions, data, at)
    return found
