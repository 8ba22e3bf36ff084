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
        assert batch.header.base_offset <= self.end_offset, f"a gap before {batch.header}"
        count, digest = self.count, self.digest
        if not batch.header.is_control:
            for offset, value in _values(bytes(batch.data)):
                if offset >= self.end_offset:
                    count, digest = count + 1, crc32c(value, digest)
        return ServiceState(max(self.end_offset, batch.header.end_offset), count, digest)

    def values(self) -> list[bytes]:
        """The records of a snapshot: the state, and some that only make it longer."""
        told = f"{self.count} {self.digest}".encode()
        return [told, *(told * (1 + (self.digest + number) % 4) for number in range(_FILLERS))]


@lru_cache(maxsize=256)
def _values(data: bytes) -> tuple[tuple[int, bytes], ...]:
    """The values in a batch: every replica replays the same ones, one after the other."""
    batch = split_batches(data)[0][0]
    return tuple((record.offset, record.value or b"") for record in decode_records(batch))


def read_state(end_offset: int, values: list[bytes]) -> ServiceState:
    """The state in the data records of a snapshot."""
    count, digest = values[0].split()
    state = ServiceState(end_offset, int(count), int(digest))
    assert state.values() == values, f"not a state of the simulated service: {values}"
    return state
