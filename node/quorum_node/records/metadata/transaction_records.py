"""The boundaries of a metadata transaction.

Owns declarations only. Source: KIP-868.
"""

from quorum_node.records.metadata.record import MetadataMessage, metadata_record
from quorum_node.schema.schema import STRING, wire


@metadata_record(number=23)
class BeginTransactionRecord(MetadataMessage):
    """What follows takes effect at the end of the transaction, or never."""

    name: str | None = wire(STRING, tag=0, nullable_since=0, default=None)


@metadata_record(number=24)
class EndTransactionRecord(MetadataMessage):
    """What came since the beginning takes effect."""


@metadata_record(number=25)
class AbortTransactionRecord(MetadataMessage):
    """What came since the beginning never happened."""

    reason: str | None = wire(STRING, tag=0, nullable_since=0, default=None)
