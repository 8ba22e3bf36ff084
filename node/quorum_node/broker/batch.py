"""A batch of records, as replication needs it. PURE.

Owns the header fields that decisions depend on. Must not know records, nor bytes: `data` is passed through.
Source: Kafka's documentation, "Record Batch".
"""

from typing import NamedTuple

NO_PRODUCER = -1
SEQUENCES = 1 << 31
"""Sequence numbers wrap around after 2^31 - 1."""


class Marker(NamedTuple):
    """End of a transaction, from a control batch. `transaction_version`: of the coordinator, 0 if unknown.

    `coordinator_epoch`: -1 if compaction has removed the record, and with it the whole transaction.
    """

    is_abort: bool
    coordinator_epoch: int
    transaction_version: int = 0


class Batch(NamedTuple):
    """One whole batch. Base offset and epoch are 0 and -1 until the leader assigns them.

    `marker`: of a control batch. `codec`: of a producer's batch.
    """

    base_offset: int
    end_offset: int
    leader_epoch: int
    size_bytes: int
    data: object
    producer_id: int = NO_PRODUCER
    producer_epoch: int = -1
    base_sequence: int = -1
    max_timestamp_ms: int = -1
    is_transactional: bool = False
    marker: Marker | None = None
    codec: int = 0

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record; meaningless without a producer id."""
        return (self.base_sequence + self.end_offset - self.base_offset - 1) % SEQUENCES

    def placed(self, base_offset: int, leader_epoch: int) -> "Batch":
        """The batch with the offset and the epoch that the leader assigns."""
        count = self.end_offset - self.base_offset
        return self._replace(
            base_offset=base_offset, end_offset=base_offset + count, leader_epoch=leader_epoch
        )
