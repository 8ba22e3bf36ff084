"""Outputs of a coordinator: responses, and records for its log. PURE."""

from collections.abc import Collection
from dataclasses import dataclass

from quorum_node.coordinator.requests import Answer, Transaction
from quorum_node.records.group_records import GroupRecord, OffsetRecord


@dataclass(frozen=True, slots=True)
class Reply:
    """Respond to a request; exactly once for each."""

    request_id: int
    answer: Answer


@dataclass(frozen=True, slots=True)
class Append:
    """Write these records as one batch, replicated to the ISR; `GroupShard.appended` follows, in the order of appends.

    All are of one group. `transaction`: the batch belongs to it.
    """

    append_id: int
    records: Collection[OffsetRecord | GroupRecord]
    transaction: Transaction | None = None


Output = Reply | Append
