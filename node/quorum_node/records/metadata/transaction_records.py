"""The boundaries of a metadata transaction.

Owns declarations only. Source: KIP-868.
"""

from quorum_node.records.metadata.record import MetadataMessage, metadata_record
from quorum_node.schema.schema import STRING, wire


@metadata_record(number=23)
class BeginTransactionRecord(MetadataMessage):
    """Start of a transaction: the records after it take effect at its end, or never."""

    name: str | None = wire(STRING, tag=0, nullable_since=0, default=None)


@metadata_record(number=24)
class EndTransactionRecord(MetadataMessage):
    """The records since the start take effect."""


@metadata_record(number=25)
class AbortTransactionRecord(MetadataMessage):
    """The records since the start are discarded."""

    reason: str | None = wire(STRING, tag=0, nullable_since=0, default=None)
