"""Reads a span of a segment with as many batches at a time as possible.

Uses runs (`rows/runs.py`) where possible, and single batches (`log_span.py`) elsewhere.
"""

from collections.abc import Iterator
from dataclasses import replace
from io import BufferedReader
from pathlib import Path

import numpy as np

from quorum_node.records.batches import HEADER_BYTES
from quorum_pipeline.files.log_directory import LogSpan
from quorum_pipeline.files.log_span import PIECE_BYTES, Damage, PlacedBatch, read_span
from quorum_pipeline.rows.loops import READ_AHEAD_BYTES
from quorum_pipeline.rows.runs import BatchRun, first_run

RUN_BYTES = 8 << 20
"""Bytes that are read and decoded together: about a hundred thousand records."""


def read_runs(
    span: LogSpan, start_offset: int, end_offset: int
) -> Iterator[BatchRun | PlacedBatch | Damage]:
    """Read a span like `read_span`, but in runs where all batches are within `start_offset` and `end_offset`. Raises OSError."""
    position, offset = span.position, span.base_offset
    with Path(span.path).open("rb") as file:
        while True:
            run = _run(file, position, span.end_position, offset)
            if run is not None:
                if start_offset <= run.base_offset <= run.end_offset <= end_offset:
                    yield run
                else:
                    yield from (PlacedBatch(*run.batch(number)) for number in range(len(run)))
                position, offset = run.end_position, run.end_offset
                continue
            rest = replace(span, position=position, base_offset=offset)
            for found in read_span(rest):
                yield found
                if isinstance(found, PlacedBatch):
                    header = found.batch.header
                    position, offset = found.position + header.size_bytes, header.end_offset
                    # More such batches may follow, and searching for a run takes longer than
                    # reading one of them.
                    if position - rest.position >= PIECE_BYTES:
                        break
            else:
                return


def _run(file: BufferedReader, position: int, end_position: int, offset: int) -> BatchRun | None:
    size = min(RUN_BYTES, end_position - position)
    if size < HEADER_BYTES:
        return None
    data = np.empty(size + READ_AHEAD_BYTES, np.uint8)
    file.seek(position)
    found = file.readinto(data[:size].data)
    data[found:] = 0
    # Read-only, like data from the network: the loops are compiled for one of the two types.
    data.flags.writeable = False
    return first_run(data, found, position, offset)
