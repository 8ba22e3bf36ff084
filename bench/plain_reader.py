"""One process that decodes every record of a log with the node's own codec, and stores nothing: the baseline for Spark.

python bench/plain_reader.py DIRECTORY
"""

import sys
from collections import Counter
from pathlib import Path

from quorum_node.records.batches import split_batches
from quorum_node.records.metadata import decode_metadata
from quorum_node.records.plain_records import record_values

_PIECE_BYTES = 1 << 20


def count_records(directory: Path) -> Counter[str]:
    """Number of records by type. Raises CorruptBatch, MalformedRecord, OSError."""
    kinds: Counter[str] = Counter()
    for path in sorted(directory.glob("*.log")):
        with path.open("rb") as file:
            rest = b""
            while piece := file.read(_PIECE_BYTES):
                data = rest + piece
                batches, left = split_batches(data)
                rest = data[len(data) - left :]
                for batch in batches:
                    if batch.header.is_control:
                        kinds["control"] += batch.header.record_count
                        continue
                    kinds.update(type(decode_metadata(v)).__name__ for v in record_values(batch))
    return kinds


if __name__ == "__main__":
    print(dict(count_records(Path(sys.argv[1]))))
