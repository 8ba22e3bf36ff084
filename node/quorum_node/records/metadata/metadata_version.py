"""The version of each record type by the finalized level of metadata.version.

Owns the levels that change a format or enable a record. Must not know how levels are finalized.
Source: KIP-584, KIP-778; the levels and record versions of Kafka 4.3 (3.3-IV3 is 7, 4.3-IV0 is 30).
"""

from typing import Final

from quorum_node.records.metadata.broker_records import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
)
from quorum_node.records.metadata.record import MetadataMessage
from quorum_node.records.metadata.topic_records import PartitionChangeRecord, PartitionRecord

METADATA_VERSION: Final = "metadata.version"
"""Name of the feature."""

LOWEST_LEVEL: Final = 7
"""3.3-IV3: the lowest level that Kafka 4.x reads."""
LATEST_LEVEL: Final = 30
"""4.3-IV0: the latest production level of Kafka 4.3."""

SCRAM_LEVEL: Final = 11
"""3.5-IV2."""
ISR_SHRINK_KEEPS_LEADER_EPOCH_LEVEL: Final = 12
"""3.6-IV0."""
TRANSACTIONS_LEVEL: Final = 13
"""3.6-IV1."""
DELEGATION_TOKENS_LEVEL: Final = 14
"""3.6-IV2."""
CONTROLLER_REGISTRATION_LEVEL: Final = 15
"""3.7-IV0."""
DIRECTORIES_LEVEL: Final = 17
"""3.7-IV2."""
ELIGIBLE_LEADER_REPLICAS_LEVEL: Final = 23
"""4.0-IV1."""
CORDONED_DIRECTORIES_LEVEL: Final = 30
"""4.3-IV0."""

_SINCE: dict[type[MetadataMessage], tuple[tuple[int, int], ...]] = {
    RegisterBrokerRecord: ((CORDONED_DIRECTORIES_LEVEL, 4), (DIRECTORIES_LEVEL, 3), (8, 2), (0, 1)),
    BrokerRegistrationChangeRecord: (
        (CORDONED_DIRECTORIES_LEVEL, 3),
        (DIRECTORIES_LEVEL, 2),
        (0, 1),
    ),
    PartitionRecord: ((ELIGIBLE_LEADER_REPLICAS_LEVEL, 2), (DIRECTORIES_LEVEL, 1), (0, 0)),
    PartitionChangeRecord: ((ELIGIBLE_LEADER_REPLICAS_LEVEL, 2), (DIRECTORIES_LEVEL, 1), (0, 0)),
}
"""Record version from a level on, newest first. All other records have version 0 only."""


def record_version(kind: type[MetadataMessage], metadata_version: int) -> int:
    """The record version for a finalized level."""
    for level, version in _SINCE.get(kind, ()):
        if metadata_version >= level:
            return version
    return 0
