"""Metadata transactions: records that take effect together, when their end is committed, or never. PURE.

A controller writes what does not fit into one batch between a BeginTransaction and an EndTransaction record; whoever
takes over in between writes an AbortTransaction (KIP-868). Owns holding back; knows nothing of what records mean.
"""

from collections.abc import Sequence

from quorum_node.records.metadata import (
    AbortTransactionRecord,
    AnyMetadata,
    BeginTransactionRecord,
    EndTransactionRecord,
)

_BOUNDARIES = frozenset((BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord))


class Transactions:
    """At most one transaction is open at a time."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: list[AnyMetadata] | None = None

    @property
    def is_open(self) -> bool:
        """Whether a transaction has begun and not ended."""
        return self._held is not None

    def take(self, record: AnyMetadata) -> Sequence[AnyMetadata]:
        """What takes effect by this record, in order."""
        kind = type(record)
        if kind not in _BOUNDARIES:
            if self._held is None:
                return (record,)
            self._held.append(record)
            return ()
        held, self._held = self._held, [] if kind is BeginTransactionRecord else None
        return held or () if kind is EndTransactionRecord else ()
