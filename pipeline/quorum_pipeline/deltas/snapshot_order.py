"""The place of a record in a snapshot, so that records of parts of a state can be sorted together. PURE.

The order is that of `ClusterImage.snapshot_messages`, which needs the complete state.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from quorum_node.image.quotas import entity_of
from quorum_node.records import metadata as md

Place = tuple[Any, ...]


def placed(records: Iterable[md.MetadataMessage]) -> Iterator[tuple[Place, md.MetadataMessage]]:
    """Yield the records of one part in the order of a snapshot, partitions after their topic, with unique places."""
    topic = ""
    for record in records:
        if isinstance(record, md.TopicRecord):
            topic = record.name
        if isinstance(record, md.PartitionRecord):
            yield (_TOPICS, topic, record.partition_id), record
        else:
            yield _place(record), record


_FEATURES, _BROKERS, _CONTROLLERS, _TOPICS, _CONFIGS, _QUOTAS, _PRODUCER_IDS, _ACLS, _SCRAM, _TOKENS = range(10)  # fmt: skip


def _place(record: Any) -> Place:
    match record:
        case md.FeatureLevelRecord():
            return _FEATURES, record.name != md.METADATA_VERSION, record.name
        case md.RegisterBrokerRecord():
            return _BROKERS, record.broker_id
        case md.RegisterControllerRecord():
            return _CONTROLLERS, record.controller_id
        case md.TopicRecord():
            return _TOPICS, record.name, -1 << 32
        case md.ConfigRecord():
            return _CONFIGS, record.resource_type, record.resource_name, record.name
        case md.ClientQuotaRecord():
            parts = tuple((kind, name is not None, name or "") for kind, name in entity_of(record))
            return _QUOTAS, parts, record.key
        case md.ProducerIdsRecord():
            return (_PRODUCER_IDS,)
        case md.AccessControlEntryRecord():
            return _ACLS, record.id.int
        case md.UserScramCredentialRecord():
            return _SCRAM, record.mechanism, record.name
        case md.DelegationTokenRecord():
            return _TOKENS, record.token_id
    raise AssertionError(f"no snapshot has a {type(record).__name__}")
