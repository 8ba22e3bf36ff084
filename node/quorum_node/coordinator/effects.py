"""Outputs of one step of a coordinator, and continuations for stored records. PURE.

Owns the list of outputs and the continuation of each append. Must not know groups.
"""

from collections.abc import Callable, Collection
from typing import NamedTuple

from quorum_node.coordinator.errors import GroupError
from quorum_node.coordinator.outputs import Append, Output, Reply
from quorum_node.coordinator.requests import Answer, Transaction
from quorum_node.records.group_records import GroupRecord, OffsetRecord


class Now(NamedTuple):
    """`ms`: on the monotonic clock; `time_ms`: since 1970."""

    ms: float
    time_ms: int


Then = Callable[[GroupError, Now], None]
"""Called once the records are stored, or the append has failed."""


class Effects:
    """The outputs and continuations of one coordinator."""

    __slots__ = ("_groups", "_next_id", "_outputs", "_then")

    def __init__(self) -> None:
        self._outputs: list[Output] = []
        self._then: dict[int, Then] = {}
        self._groups: dict[int, str] = {}
        self._next_id = 1

    def reply(self, request_id: int, answer: Answer) -> None:
        """Answer a request."""
        self._outputs.append(Reply(request_id, answer))

    def append(
        self,
        records: Collection[OffsetRecord | GroupRecord],
        then: Then,
        transaction: Transaction | None = None,
    ) -> None:
        """Store records of one group in the log."""
        append_id, self._next_id = self._next_id, self._next_id + 1
        self._then[append_id] = then
        self._groups[append_id] = next(iter(records)).key.group
        self._outputs.append(Append(append_id, records, transaction))

    def appended(self, append_id: int, error: GroupError, now: Now) -> str:
        """The records of an append are stored, or it failed. Returns their group."""
        self._then.pop(append_id)(error, now)
        return self._groups.pop(append_id)

    def take(self) -> list[Output]:
        """The outputs, in order."""
        outputs, self._outputs = self._outputs, []
        return outputs
