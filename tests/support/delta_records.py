"""Records in any order, also sequences that no controller writes, with few ids and names so that they collide; and the node's own replay of
them.

`support.metadata_histories` has sequences that a controller could have written.
"""

from dataclasses import dataclass
from uuid import UUID

from hypothesis import strategies as st

from quorum_node.image.cluster_image import ClusterImage
from quorum_node.image.committed import CommittedImage
from quorum_node.image.resource_types import BROKER, TOPIC
from quorum_node.records import metadata as md
from quorum_node.schema.primitives import MalformedRecord
from support.metadata_histories import histories

_IDS = st.integers(1, 2).map(lambda number: UUID(int=number))
_NAMES = st.sampled_from(["a", "b"])
_BROKERS = st.lists(st.integers(1, 4), min_size=1, max_size=2, unique=True).map(tuple)
_ELR = st.sampled_from([None, None, (), (1,), (2,)])
_DIRECTORIES = st.sampled_from(
    [None, None, (), (UUID(int=7),), (UUID(int=7), UUID(int=8)), (UUID(int=0),) * 2]
)
_TAGS = st.sampled_from([(), (), (), ((900, b"newer"),)])
_SMALL = st.integers(0, 1)

_PARTITION = st.builds(
    md.PartitionRecord, partition_id=_SMALL, topic_id=_IDS, replicas=_BROKERS, isr=_BROKERS,
    removing_replicas=st.just(()), adding_replicas=st.just(()), leader=st.integers(-1, 2),
    leader_recovery_state=_SMALL, leader_epoch=_SMALL, partition_epoch=_SMALL,
    directories=_DIRECTORIES.map(lambda each: each or ()), eligible_leader_replicas=_ELR,
    last_known_elr=_ELR, tagged_fields=_TAGS,
)  # fmt: skip
_CHANGE = st.builds(
    md.PartitionChangeRecord, partition_id=_SMALL, topic_id=_IDS, isr=st.none() | _BROKERS,
    leader=st.integers(-2, 2), replicas=st.none() | _BROKERS, removing_replicas=st.none() | _BROKERS,
    adding_replicas=st.none() | _BROKERS, leader_recovery_state=st.integers(-1, 1),
    directories=_DIRECTORIES, eligible_leader_replicas=_ELR, last_known_elr=_ELR, tagged_fields=_TAGS,
)  # fmt: skip
_TOPIC = st.builds(md.TopicRecord, name=_NAMES, topic_id=_IDS, tagged_fields=_TAGS)
_BROKER = st.one_of(
    st.builds(
        md.RegisterBrokerRecord, broker_id=_SMALL, incarnation_id=_IDS, broker_epoch=_SMALL,
        end_points=st.just(()), features=st.just(()), rack=st.none() | _NAMES, fenced=st.booleans(),
        in_controlled_shutdown=st.booleans(), tagged_fields=_TAGS,
    ),
    st.builds(md.UnregisterBrokerRecord, broker_id=_SMALL, broker_epoch=_SMALL),
    st.builds(md.FenceBrokerRecord, id=_SMALL, epoch=_SMALL),
    st.builds(md.UnfenceBrokerRecord, id=_SMALL, epoch=_SMALL),
    st.builds(
        md.BrokerRegistrationChangeRecord, broker_id=_SMALL, broker_epoch=_SMALL,
        fenced=st.integers(-1, 1), in_controlled_shutdown=_SMALL,
        log_dirs=st.sampled_from([(), (UUID(int=7),)]), cordoned_log_dirs=st.sampled_from([None, (), (UUID(int=7),)]),
    ),
)  # fmt: skip
_CONFIG = st.builds(
    md.ConfigRecord, resource_type=st.sampled_from([TOPIC, BROKER]), resource_name=_NAMES,
    name=_NAMES, value=st.none() | _NAMES, tagged_fields=_TAGS,
)  # fmt: skip
_OTHERS = st.one_of(
    st.builds(md.FeatureLevelRecord, name=_NAMES, feature_level=_SMALL),
    st.builds(
        md.ClientQuotaRecord,
        entity=st.permutations(["user", "client-id"]).map(
            lambda kinds: tuple(md.QuotaEntity(entity_type=each, entity_name=None) for each in kinds)
        ),
        key=_NAMES, value=st.sampled_from([0.0, 1.5]), remove=st.booleans(),
    ),
    st.builds(md.ProducerIdsRecord, broker_id=_SMALL, broker_epoch=_SMALL, next_producer_id=_SMALL),
    st.builds(
        md.AccessControlEntryRecord, id=_IDS, resource_type=st.just(2), resource_name=_NAMES,
        pattern_type=st.just(3), principal=st.just("User:a"), host=st.just("*"), operation=st.just(2),
        permission_type=st.just(3), tagged_fields=_TAGS,
    ),
    st.builds(md.RemoveAccessControlEntryRecord, id=_IDS),
    st.builds(
        md.UserScramCredentialRecord, name=_NAMES, mechanism=st.integers(1, 2), salt=st.just(b"s"),
        stored_key=st.just(b"k"), server_key=st.just(b"k"), iterations=st.integers(4096, 4097),
    ),
    st.builds(md.RemoveUserScramCredentialRecord, name=_NAMES, mechanism=st.integers(1, 2)),
    st.builds(
        md.DelegationTokenRecord, owner=_NAMES, requester=_NAMES, renewers=st.just(()),
        issue_timestamp=_SMALL, max_timestamp=_SMALL, expiration_timestamp=_SMALL, token_id=_NAMES,
    ),
    st.builds(md.RemoveDelegationTokenRecord, token_id=_NAMES),
    st.builds(
        md.RegisterControllerRecord, controller_id=_SMALL, incarnation_id=_IDS,
        zk_migration_ready=st.booleans(), end_points=st.just(()), features=st.just(()), tagged_fields=_TAGS,
    ),
    st.builds(md.NoOpRecord, tagged_fields=_TAGS),
    st.builds(md.ZkMigrationStateRecord, zk_migration_state=_SMALL),
    st.builds(md.UnknownMetadata, type=st.integers(900, 901), version=_SMALL, payload=st.just(b"?")),
)  # fmt: skip
_BOUNDARY = st.sampled_from(
    [md.BeginTransactionRecord(name=None), md.EndTransactionRecord(), md.AbortTransactionRecord(reason=None)]
)  # fmt: skip
_CLEAR = st.builds(md.ClearElrRecord, topic_name=st.sampled_from(["", "a", "b"]))
_MALFORMED = b"\x01\x03\x00"


def _encoded(record: md.AnyMetadata) -> bytes:
    return md.encode_metadata(record, getattr(record, "HIGHEST_VERSION", 0))


ABOUT_PARTITIONS = st.one_of(
    _TOPIC, _PARTITION, _PARTITION, _CHANGE, _CHANGE, _CHANGE, _CLEAR, _BOUNDARY,
    st.builds(md.RemoveTopicRecord, topic_id=_IDS),
).map(_encoded)  # fmt: skip
ABOUT_NAMES = st.one_of(
    _TOPIC, st.builds(md.RemoveTopicRecord, topic_id=_IDS), _CONFIG, _BOUNDARY,
).map(_encoded)  # fmt: skip
ABOUT_BROKERS = _BROKER.map(_encoded)
ANY_RECORD = st.one_of(
    _TOPIC, _PARTITION, _CHANGE, _CLEAR, _BOUNDARY, _BROKER, _CONFIG, _OTHERS,
    st.builds(md.RemoveTopicRecord, topic_id=_IDS),
).map(_encoded) | st.just(_MALFORMED)  # fmt: skip
ABOUT_ELR = st.one_of(
    _CLEAR,
    _CLEAR,
    st.builds(
        md.PartitionChangeRecord, partition_id=st.just(0), topic_id=_IDS, eligible_leader_replicas=_ELR,
        last_known_elr=_ELR,
    ),
).map(_encoded)  # fmt: skip
BEGUN = [
    _encoded(md.TopicRecord(name=name, topic_id=UUID(int=number)))
    for number, name in ((1, "a"), (2, "b"))
] + [
    _encoded(
        md.PartitionRecord(
            partition_id=partition_id, topic_id=UUID(int=number), replicas=(1, 2), isr=(1,), leader=1,
            leader_epoch=0, partition_epoch=0, directories=(UUID(int=7), UUID(int=partition_id)),
            eligible_leader_replicas=(2,),
        )
    )
    for number in (1, 2)
    for partition_id in (0, 1)
]  # fmt: skip
"""Two topics with two partitions each: what is said of them may well be right."""


def _begun(records: st.SearchStrategy[bytes], size: int) -> st.SearchStrategy[list[bytes]]:
    return st.tuples(st.booleans(), st.lists(records, min_size=4, max_size=size)).map(
        lambda drawn: (BEGUN if drawn[0] else []) + drawn[1]
    )


LOGS = st.one_of(
    histories(max_size=60),
    _begun(ABOUT_PARTITIONS, 24),
    _begun(ABOUT_NAMES, 24),
    _begun(ABOUT_ELR, 16),
    st.lists(ABOUT_BROKERS, min_size=4, max_size=24),
    _begun(ANY_RECORD, 30),
)
"""Values of a log: consistent histories, and arbitrary ones."""
_CHANGE_OF_ELR = st.builds(
    md.PartitionChangeRecord, partition_id=_SMALL, topic_id=_IDS, eligible_leader_replicas=_ELR,
)  # fmt: skip
SHARDED_LOGS = st.one_of(
    LOGS,
    st.lists(ABOUT_PARTITIONS, max_size=24).map(lambda values: BEGUN + values),
    st.lists((_CLEAR | _CHANGE_OF_ELR).map(_encoded), max_size=12).map(
        lambda values: BEGUN + values
    ),
)
"""The same, more of them about several partitions of a topic, which may be in different shards."""


@dataclass(frozen=True, slots=True)
class NodeState:
    """The state of a node after a log; `wrong_at`: the offset of the record that it can't replay."""

    wrong_at: int | None
    image: ClusterImage
    in_transaction: bool


def node_state(values: list[bytes]) -> NodeState:
    """Record by record, as a node does it."""
    committed = CommittedImage()
    for offset, value in enumerate(values):
        try:
            committed.replay([md.decode_metadata(value)])
        except (MalformedRecord, ValueError):
            return NodeState(offset, committed.image, committed.in_transaction)
    return NodeState(None, committed.image, committed.in_transaction)
