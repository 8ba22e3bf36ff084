"""A log with many aborted transactions, read by consumers with isolation level read_committed."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from quorum_node.storage.broker.log_settings import LogSettings
from quorum_node.storage.broker.partition_log import PartitionLog
from quorum_node.storage.broker.transaction_index import AbortedTransaction
from support.data_batches import data_batch


class Counted(list[AbortedTransaction]):
    """Counts how many entries are read."""

    read = 0

    def __getitem__(self, at: Any) -> Any:
        self.read += 1
        return super().__getitem__(at)

    def __iter__(self) -> Iterator[AbortedTransaction]:
        for each in super().__iter__():
            self.read += 1
            yield each


def test_reader_at_the_end_examines_few_of_many_aborted_transactions(tmp_path: Path) -> None:
    """A stock broker reads all entries of the segment's index, on one of many threads."""
    log = PartitionLog.open(tmp_path, LogSettings())
    count = 1_000
    entries = Counted(AbortedTransaction(7, 2 * n, 2 * n + 1, 2 * n + 2) for n in range(count))
    log.append([data_batch(0, 2 * count)])
    log.segments[0].aborted._aborted = entries
    assert log.aborted_transactions(2 * count - 1, 2 * count) == [entries[-1]]
    assert entries.read < 20
    for offset in range(0, 2 * count, 99):
        found = log.aborted_transactions(offset, offset + 5)
        expected = [
            each
            for each in entries
            if each.last_offset >= offset and each.first_offset < offset + 5
        ]
        assert found == expected
