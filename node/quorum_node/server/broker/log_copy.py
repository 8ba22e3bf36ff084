"""The copy of a replica's log in another directory of log.dirs, until it takes the place of the log (KIP-113).

Owns the copying of batches, and what has to be equal at the end: batches, leader epochs and the start of the log. It is in a directory
`TOPIC-PARTITION.ID-future`, as that of a stock broker, which a start removes. `advance` and `flush` may run on another thread.
"""

from uuid import UUID

from quorum_node.server.broker.data_log import DataLog
from quorum_node.server.broker.fetched_batches import fetched_batches
from quorum_node.storage.broker.log_directory import LogDirectory
from quorum_node.storage.broker.log_settings import LogSettings

PIECE_BYTES = 256 << 10
"""Bytes that are copied in one step."""


class FutureLog:
    """The `LogCopy` in one directory. Every method raises StorageFailure, DiskFull or CorruptBatch."""

    def __init__(
        self,
        directory: LogDirectory,
        replica: tuple[str, int],
        topic_id: UUID,
        settings: LogSettings,
        source: DataLog,
    ) -> None:
        self._directory = directory
        self._replica = replica
        self._topic_id = topic_id
        self._settings = settings
        self._source = source
        self._cuts = source.cuts
        self._is_begun = False
        self._log = directory.open_future(replica, topic_id, settings)
        self.end_offset = source.start_offset

    @property
    def size_bytes(self) -> int:
        """See `LogCopy`."""
        return self._log.size_bytes

    @property
    def is_void(self) -> bool:
        """See `LogCopy`."""
        return self._source.cuts != self._cuts

    def advance(self, end_offset: int) -> int:
        """See `LogCopy`."""
        data = bytes(self._source.read(self.end_offset, end_offset, PIECE_BYTES))
        batches = fetched_batches(data)
        if not batches or self.is_void:
            return 0
        if not self._is_begun:
            # Its first batch may begin before the log does, and after compaction much later.
            self._log.restart_at(batches[0].base_offset)
            self._is_begun = True
        self._log.append(batches)
        self.end_offset = batches[-1].end_offset
        return len(data)

    def flush(self) -> None:
        """See `LogCopy`."""
        self._log.flush()

    def promote(self) -> None:
        """See `LogCopy`."""
        found = self._source.opened()
        if not self._is_begun or self._log.end_offset < found.start_offset:
            # There are no records, or those that were copied have expired meanwhile.
            self._log.restart_at(found.end_offset)
        elif self._log.end_offset < found.end_offset:
            # The last records were compacted away, as tombstones are in the end.
            self._log.roll(found.end_offset)
        self._log.delete_records_below(found.start_offset)
        self._directory.promote(self._replica, self._log)

    def drop(self) -> None:
        """See `LogCopy`."""
        self._directory.drop_future(self._log)
