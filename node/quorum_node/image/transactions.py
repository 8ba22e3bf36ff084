"""Metadata transactions: records that take effect together at the committed end, or never. PURE.

A controller writes records that do not fit into one batch between a BeginTransaction and an EndTransaction record. A
controller that takes over in between writes an AbortTransaction (KIP-868). Owns holding records back. Must not know
their meaning.
"""

from collections.abc import Sequence

from quorum_node.records.metadata import (
    AbortTransactionRecord,
    AnyMetadata,
    BeginTransactionRecord,
    EndTransactionRecord,
)

BOUNDARIES: frozenset[type] = frozenset(
    (BeginTransactionRecord, EndTransactionRecord, AbortTransactionRecord)
)
"""Records that `take` must process even outside of a transaction."""


class Transactions:
    """At most one transaction is open at a time."""

    __slots__ = ("_held", "is_open")

    def __init__(self) -> None:
        self._held: list[AnyMetadata] = []
        self.is_open = False

    def take(self, record: AnyMetadata) -> Sequence[AnyMetadata]:
        """The records that take effect now, in order."""
        kind = type(record)
        if kind not in BOUNDARIES:
            if not self.is_open:
                return (record,)
            self._held.append(record)
            return ()
        held, self._held = self._held, []
        self.is_open = kind is BeginTransactionRecord
        return held if kind is EndTransactionRecord else ()
