"""Metadata transactions: records that take effect together, when their end is committed, or never. PURE.

Controllers of stock Kafka write what does not fit into one batch between a BeginTransaction and an
EndTransaction record; whoever takes over in between writes an AbortTransaction (KIP-868). Our own
leader writes single batches and needs none. Owns holding back; knows nothing of what records mean.
"""

from collections.abc import Sequence

from quorum_node.records.metadata import (
    ABORT_TRANSACTION,
    BEGIN_TRANSACTION,
    END_TRANSACTION,
    MetadataRecord,
    UnknownMetadata,
)

AnyRecord = MetadataRecord | UnknownMetadata
_BOUNDARIES = (BEGIN_TRANSACTION, END_TRANSACTION, ABORT_TRANSACTION)


class Transactions:
    """At most one transaction is open at a time."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: list[AnyRecord] | None = None

    @property
    def is_open(self) -> bool:
        """Whether a transaction has begun and not ended."""
        return self._held is not None

    def take(self, record: AnyRecord) -> Sequence[AnyRecord]:
        """What takes effect by this record, in order."""
        kind = record.type if isinstance(record, UnknownMetadata) else None
        if kind not in _BOUNDARIES:
            if self._held is None:
                return (record,)
            self._held.append(record)
            return ()
        held, self._held = self._held, [] if kind == BEGIN_TRANSACTION else None
        return held or () if kind == END_TRANSACTION else ()
