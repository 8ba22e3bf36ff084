"""Records of a log as columns, as in an archive, without an object per record. PURE."""

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from quorum_pipeline.state.log_record import LogRecord

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LogColumns:
    """Records in order of offsets. The value of record i is `data[begins[i]:ends[i]]`; `keys`: keys of control records by offset."""

    data: npt.NDArray[np.uint8]
    keys: dict[int, bytes | None]
    offsets: Numbers
    epochs: Numbers
    timestamps_ms: Numbers
    control: npt.NDArray[np.bool_]
    begins: Numbers
    ends: Numbers

    def __len__(self) -> int:
        return len(self.offsets)

    def each(self) -> Iterator[tuple[int, bytes]]:
        """Yield offset and value of each record."""
        data = self.data.data
        borders = (each.tolist() for each in (self.offsets, self.begins, self.ends))
        for offset, begin, end in zip(*borders, strict=True):
            yield offset, bytes(data[begin:end])

    def record(self, index: int) -> LogRecord:
        """Return one record."""
        offset = int(self.offsets[index])
        return LogRecord(
            offset,
            int(self.epochs[index]),
            int(self.timestamps_ms[index]),
            bool(self.control[index]),
            self.keys.get(offset),
            self.data[self.begins[index] : self.ends[index]].tobytes(),
        )

    def some(self, wanted: slice | npt.NDArray[np.bool_]) -> "LogColumns":
        """Return the wanted records."""
        columns = [getattr(self, each.name)[wanted] for each in fields(self)[2:]]
        return LogColumns(self.data, self.keys, *columns)

    def from_offset(self, offset: int) -> "LogColumns":
        """Return the records from this offset on."""
        return self.some(slice(int(np.searchsorted(self.offsets, offset)), None))

    def before_offset(self, offset: int) -> "LogColumns":
        """Return the records before this offset."""
        return self.some(slice(int(np.searchsorted(self.offsets, offset))))

    def up_to_time(self, time_ms: int) -> "LogColumns":
        """Return the records before the first one with a later timestamp."""
        late = np.flatnonzero(self.timestamps_ms > time_ms)
        return self.some(slice(int(late[0]))) if len(late) else self

    def first_wrong(self, start: int) -> int | None:
        """Return the index of the first record whose offset does not continue the sequence from `start`, or None."""
        return first_wrong(self.offsets, start)


def first_wrong(offsets: Numbers, start: int) -> int | None:
    """See LogColumns."""
    wrong = np.flatnonzero(offsets != np.arange(start, start + len(offsets)))
    return int(wrong[0]) if len(wrong) else None
