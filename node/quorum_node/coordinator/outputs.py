"""What a coordinator wants done: answers, and records for its log. PURE."""

from dataclasses import dataclass

from quorum_node.coordinator.requests import Answer, Transaction
from quorum_node.records.group_records import GroupRecord, OffsetRecord


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer a request; each is answered once."""

    request_id: int
    answer: Answer


@dataclass(frozen=True, slots=True)
class Append:
    """Write these records as one batch, replicated to the ISR; `GroupShard.appended` follows, in the order of appends.

    `transaction`: the batch belongs to it.
    """

    append_id: int
    records: tuple[OffsetRecord | GroupRecord, ...]
    transaction: Transaction | None = None


Output = Reply | Append
