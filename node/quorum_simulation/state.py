"""What the simulated service replays from the log: a count and a digest of every value, in order.

Owns the fold, and its form in a snapshot. Must not know who replays. Two states are equal only if the
same values came in the same order, so a state says more than a list of what it contains.
"""

from dataclasses import dataclass
from functools import lru_cache

from crc32c import crc32c

from quorum_node.records.batches import Batch, decode_records, split_batches

_FILLERS = 6


@dataclass(frozen=True, slots=True)
class ServiceState:
    """State of all records before `end_offset`."""

    end_offset: int = 0
    count: int = 0
    digest: int = 0

    def after(self, batch: Batch) -> "ServiceState":
        """With one more batch; records before the end are skipped, none may be missing."""
        return _after(self.end_offset, self.count, self.digest, bytes(batch.data))

    def values(self) -> list[bytes]:
        """The records of a snapshot: the state, and some that only make it longer."""
        told = f"{self.count} {self.digest}".encode()
        return [told, *(told * (1 + (self.digest + number) % 4) for number in range(_FILLERS))]


@lru_cache(maxsize=1 << 12)
def _after(end_offset: int, count: int, digest: int, data: bytes) -> ServiceState:
    """With the batch `data`: every replica replays the same ones, and again after each start."""
    batch = split_batches(data)[0][0]
    header = batch.header
    assert header.base_offset <= end_offset, f"a gap before {header}"
    if not header.is_control:
        for record in decode_records(batch):
            if record.offset >= end_offset:
                count, digest = count + 1, crc32c(record.value or b"", digest)
    return ServiceState(max(end_offset, header.end_offset), count, digest)


def read_state(end_offset: int, values: list[bytes]) -> ServiceState:
    """The state in the data records of a snapshot."""
    count, digest = values[0].split()
    state = ServiceState(end_offset, int(count), int(digest))
    assert state.values() == values, f"not a state of the simulated service: {values}"
    return state
