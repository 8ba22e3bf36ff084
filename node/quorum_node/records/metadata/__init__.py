"""Metadata records of the controller's log, as Kafka 4.3 ships them (pure).

One class per record with all its versions; undeclared records are kept as `UnknownMetadata`.
"""

from quorum_node.records.metadata.access_records import (
    AccessControlEntryRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from quorum_node.records.metadata.broker_records import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    NodeEndpoint,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    SupportedFeature,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from quorum_node.records.metadata.config_records import (
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    NoOpRecord,
    ProducerIdsRecord,
    QuotaEntity,
    ZkMigrationStateRecord,
)
from quorum_node.records.metadata.frame import (
    FRAME_VERSION,
    decode_metadata,
    encode_metadata,
    metadata_encoder,
)
from quorum_node.records.metadata.metadata_version import (
    LATEST_LEVEL,
    LOWEST_LEVEL,
    METADATA_VERSION,
    record_version,
)
from quorum_node.records.metadata.record import (
    RECORDS_BY_TYPE,
    AnyMetadata,
    MetadataMessage,
    UnknownMetadata,
    record_type_name,
)
from quorum_node.records.metadata.topic_records import (
    LEADER_UNCHANGED,
    LOST,
    MIGRATING,
    NO_LEADER,
    RECOVERED,
    RECOVERING,
    RECOVERY_UNCHANGED,
    UNASSIGNED,
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from quorum_node.records.metadata.transaction_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)

__all__ = [
    "FRAME_VERSION",
    "LATEST_LEVEL",
    "LEADER_UNCHANGED",
    "LOST",
    "LOWEST_LEVEL",
    "METADATA_VERSION",
    "MIGRATING",
    "NO_LEADER",
    "RECORDS_BY_TYPE",
    "RECOVERED",
    "RECOVERING",
    "RECOVERY_UNCHANGED",
    "UNASSIGNED",
    "AbortTransactionRecord",
    "AccessControlEntryRecord",
    "AnyMetadata",
    "BeginTransactionRecord",
    "BrokerRegistrationChangeRecord",
    "ClearElrRecord",
    "ClientQuotaRecord",
    "ConfigRecord",
    "DelegationTokenRecord",
    "EndTransactionRecord",
    "FeatureLevelRecord",
    "FenceBrokerRecord",
    "MetadataMessage",
    "NoOpRecord",
    "NodeEndpoint",
    "PartitionChangeRecord",
    "PartitionRecord",
    "ProducerIdsRecord",
    "QuotaEntity",
    "RegisterBrokerRecord",
    "RegisterControllerRecord",
    "RemoveAccessControlEntryRecord",
    "RemoveDelegationTokenRecord",
    "RemoveTopicRecord",
    "RemoveUserScramCredentialRecord",
    "SupportedFeature",
    "TopicRecord",
    "UnfenceBrokerRecord",
    "UnknownMetadata",
    "UnregisterBrokerRecord",
    "UserScramCredentialRecord",
    "ZkMigrationStateRecord",
    "decode_metadata",
    "encode_metadata",
    "metadata_encoder",
    "record_type_name",
    "record_version",
]
