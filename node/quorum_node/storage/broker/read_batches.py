"""The result of a read of a log."""

from typing import NamedTuple


class ReadBatches(NamedTuple):
    """Whole batches, in one piece. `end_offset`: of the last one, exclusive; where the read began if there is none."""

    data: bytes
    end_offset: int
    batch_count: int
