"""Random histories of a cluster's metadata that a controller could have written: every record type, few names.

Owns what may follow what (a partition needs its topic, a change its partition); levels of metadata.version only rise,
and each record is written at the version that the level asks for.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

from hypothesis import strategies as st

from quorum_node.image.resource_types import BROKER, TOPIC
from quorum_node.records import metadata as md
from quorum_node.records.metadata.metadata_version import (
    CONTROLLER_REGISTRATION_LEVEL,
    CORDONED_DIRECTORIES_LEVEL,
    DELEGATION_TOKENS_LEVEL,
    DIRECTORIES_LEVEL,
    ELIGIBLE_LEADER_REPLICAS_LEVEL,
    SCRAM_LEVEL,
    TRANSACTIONS_LEVEL,
)
from quorum_node.schema.primitives import TaggedFields

BROKERS = st.integers(1, 4)
SOME_BROKERS = st.lists(BROKERS, max_size=3, unique=True).map(tuple)
REPLICAS = st.lists(BROKERS, min_size=1, max_size=3, unique=True).map(tuple)
UUIDS = st.integers(0, 5).map(lambda number: UUID(int=number))
NAMES = st.sampled_from(["", "a", "b", "é"])
EPOCHS = st.integers(0, 3)
TAGS: st.SearchStrategy[TaggedFields] = st.sampled_from([(), (), ((900, b"newer"),)])
NO_TAGS: st.SearchStrategy[TaggedFields] = st.just(())
ENDPOINTS = st.lists(
    st.builds(
        md.NodeEndpoint, name=st.sampled_from(["A", "B"]), host=NAMES, port=st.integers(0, 65535),
        security_protocol=st.integers(0, 3),
    ),
    max_size=2,
    unique_by=lambda each: each.name,
).map(tuple)  # fmt: skip
FEATURES = st.lists(
    st.builds(
        md.SupportedFeature,
        name=NAMES,
        min_supported_version=st.just(0),
        max_supported_version=EPOCHS,
    ),
    max_size=2,
    unique_by=lambda each: each.name,
).map(tuple)


@dataclass
class Writer:
    """Draws one record after another. `tags`: what a newer version has told beside the known fields."""

    draw: st.DrawFn
    level: int
    tags: st.SearchStrategy[TaggedFields] = TAGS
    topics: dict[int, set[int]] = field(default_factory=dict)
    replicas: dict[tuple[int, int], int] = field(default_factory=dict)
    """How many replicas a partition has."""
    credentials: set[tuple[int, str]] = field(default_factory=set)
    in_transaction: bool = False

    def next(self) -> md.MetadataMessage:
        """One more record that makes sense now."""
        makers: list[Callable[[], md.MetadataMessage]] = [
            self.feature, self.config, self.broker, self.broker_change, self.broker_end,
            self.topic, self.topic, self.quota, self.producer_ids, self.acl,
            self.acl_end, self.elr_end,
        ]  # fmt: skip
        if self.topics:
            makers += [self.partition] * 4 + [self.topic_end]
        if self.replicas:
            makers += [self.partition_change] * 8
        if self.level >= CONTROLLER_REGISTRATION_LEVEL:
            makers.append(self.controller)
        if self.level >= SCRAM_LEVEL:
            makers.append(self.scram)
        if self.credentials:
            makers.append(self.scram_end)
        if self.level >= DELEGATION_TOKENS_LEVEL:
            makers += [self.token, self.token_end]
        return self.draw(st.sampled_from(makers))()

    def feature(self) -> md.MetadataMessage:
        if self.draw(st.booleans()):
            return md.FeatureLevelRecord(name="other", feature_level=self.draw(EPOCHS))
        self.level = self.draw(st.sampled_from([each for each in (7, 8, 11, 14, 17, 23, 29, 30) if each >= self.level]))  # fmt: skip
        return md.FeatureLevelRecord(name=md.METADATA_VERSION, feature_level=self.level)

    def config(self) -> md.MetadataMessage:
        return md.ConfigRecord(
            resource_type=self.draw(st.sampled_from([TOPIC, BROKER])),
            resource_name=self.draw(NAMES),
            name=self.draw(NAMES),
            value=self.draw(st.none() | NAMES),
        )

    def broker(self) -> md.MetadataMessage:
        return md.RegisterBrokerRecord(
            broker_id=self.draw(BROKERS),
            is_migrating_zk_broker=self.level >= 8 and self.draw(st.booleans()),
            incarnation_id=self.draw(UUIDS),
            broker_epoch=self.draw(EPOCHS),
            end_points=self.draw(ENDPOINTS),
            features=self.draw(FEATURES),
            rack=self.draw(st.none() | NAMES),
            fenced=self.draw(st.booleans()),
            in_controlled_shutdown=self.draw(st.booleans()),
            log_dirs=self.directories(2),
            cordoned_log_dirs=self.cordoned(),
            tagged_fields=self.draw(self.tags),
        )

    def broker_change(self) -> md.MetadataMessage:
        kind = self.draw(st.sampled_from([md.FenceBrokerRecord, md.UnfenceBrokerRecord, None]))
        if kind is not None:
            return kind(id=self.draw(BROKERS), epoch=self.draw(EPOCHS))
        return md.BrokerRegistrationChangeRecord(
            broker_id=self.draw(BROKERS),
            broker_epoch=self.draw(EPOCHS),
            fenced=self.draw(st.integers(-1, 1)),
            in_controlled_shutdown=self.draw(st.integers(0, 1)),
            log_dirs=self.directories(2),
            cordoned_log_dirs=self.cordoned(),
        )

    def broker_end(self) -> md.MetadataMessage:
        return md.UnregisterBrokerRecord(
            broker_id=self.draw(BROKERS), broker_epoch=self.draw(EPOCHS)
        )

    def controller(self) -> md.MetadataMessage:
        return md.RegisterControllerRecord(
            controller_id=self.draw(BROKERS),
            incarnation_id=self.draw(UUIDS),
            end_points=self.draw(ENDPOINTS),
            features=self.draw(FEATURES),
            tagged_fields=self.draw(self.tags),
        )

    def topic(self) -> md.MetadataMessage:
        free = [number for number in range(1, 6) if number not in self.topics]
        if not free:
            return self.topic_end()
        number = self.draw(st.sampled_from(free))
        self.topics[number] = set()
        return md.TopicRecord(
            name=f"t{number}", topic_id=UUID(int=number), tagged_fields=self.draw(self.tags)
        )

    def topic_end(self) -> md.MetadataMessage:
        number = self.draw(st.sampled_from(sorted(self.topics)))
        for partition_id in self.topics.pop(number):
            del self.replicas[number, partition_id]
        return md.RemoveTopicRecord(topic_id=UUID(int=number))

    def partition(self) -> md.MetadataMessage:
        number, partition_id = self.draw(st.sampled_from(sorted(self.topics))), self.draw(EPOCHS)
        replicas = self.draw(REPLICAS)
        self.topics[number].add(partition_id)
        self.replicas[number, partition_id] = len(replicas)
        return md.PartitionRecord(
            partition_id=partition_id,
            topic_id=UUID(int=number),
            replicas=replicas,
            isr=self.draw(SOME_BROKERS),
            removing_replicas=self.draw(SOME_BROKERS),
            adding_replicas=self.draw(SOME_BROKERS),
            leader=self.draw(st.integers(-1, 4)),
            leader_recovery_state=self.draw(st.integers(0, 1)),
            leader_epoch=self.draw(EPOCHS),
            partition_epoch=self.draw(EPOCHS),
            directories=self.directories(len(replicas)),
            eligible_leader_replicas=self.electable(),
            last_known_elr=self.electable(),
            tagged_fields=self.draw(self.tags),
        )

    def partition_change(self) -> md.MetadataMessage:
        number, partition_id = self.draw(st.sampled_from(sorted(self.replicas)))
        maybe = st.none() | SOME_BROKERS
        replicas = self.draw(st.none() | REPLICAS)
        if replicas is not None:
            self.replicas[number, partition_id] = len(replicas)
        directories = None
        if self.level >= DIRECTORIES_LEVEL and (replicas is not None or self.draw(st.booleans())):
            directories = self.directories(self.replicas[number, partition_id])
        return md.PartitionChangeRecord(
            partition_id=partition_id,
            topic_id=UUID(int=number),
            isr=self.draw(maybe),
            leader=self.draw(st.integers(-2, 4)),
            replicas=replicas,
            removing_replicas=self.draw(maybe),
            adding_replicas=self.draw(maybe),
            leader_recovery_state=self.draw(st.integers(-1, 1)),
            directories=directories,
            eligible_leader_replicas=self.electable(),
            last_known_elr=self.electable(),
        )

    def elr_end(self) -> md.MetadataMessage:
        if not self.topics or self.draw(st.booleans()):
            return md.ClearElrRecord(topic_name="")
        return md.ClearElrRecord(topic_name=f"t{self.draw(st.sampled_from(sorted(self.topics)))}")

    def quota(self) -> md.MetadataMessage:
        kinds = self.draw(
            st.lists(st.sampled_from(["user", "client-id"]), min_size=1, max_size=2, unique=True)
        )
        parts = [
            md.QuotaEntity(entity_type=kind, entity_name=self.draw(st.none() | NAMES))
            for kind in kinds
        ]
        return md.ClientQuotaRecord(
            entity=tuple(parts),
            key=self.draw(st.sampled_from(["producer_byte_rate", "consumer_byte_rate"])),
            value=self.draw(st.sampled_from([0.0, 1.5, 1e9])),
            remove=self.draw(st.booleans()),
        )

    def producer_ids(self) -> md.MetadataMessage:
        return md.ProducerIdsRecord(
            broker_id=self.draw(BROKERS),
            broker_epoch=self.draw(EPOCHS),
            next_producer_id=1000 * self.draw(EPOCHS),
        )

    def acl(self) -> md.MetadataMessage:
        return md.AccessControlEntryRecord(
            id=self.draw(UUIDS), resource_type=2, resource_name=self.draw(NAMES), pattern_type=3,
            principal="User:a", host="*", operation=self.draw(st.integers(2, 4)),
            permission_type=3, tagged_fields=self.draw(self.tags),
        )  # fmt: skip

    def acl_end(self) -> md.MetadataMessage:
        return md.RemoveAccessControlEntryRecord(id=self.draw(UUIDS))

    def scram(self) -> md.MetadataMessage:
        mechanism, name = self.draw(st.integers(1, 2)), self.draw(NAMES)
        self.credentials.add((mechanism, name))
        return md.UserScramCredentialRecord(
            name=name, mechanism=mechanism, salt=b"salt",
            stored_key=b"stored", server_key=b"server", iterations=4096 + self.draw(EPOCHS),
            tagged_fields=self.draw(self.tags),
        )  # fmt: skip

    def scram_end(self) -> md.MetadataMessage:
        """Of an existing one: for a missing one stock Kafka's replay drops other entries."""
        mechanism, name = self.draw(st.sampled_from(sorted(self.credentials)))
        self.credentials.discard((mechanism, name))
        return md.RemoveUserScramCredentialRecord(name=name, mechanism=mechanism)

    def token(self) -> md.MetadataMessage:
        return md.DelegationTokenRecord(
            owner="User:a", requester="User:a", renewers=("User:b",), issue_timestamp=1,
            max_timestamp=9, expiration_timestamp=self.draw(EPOCHS), token_id=self.draw(NAMES),
            tagged_fields=self.draw(self.tags),
        )  # fmt: skip

    def token_end(self) -> md.MetadataMessage:
        return md.RemoveDelegationTokenRecord(token_id=self.draw(NAMES))

    def directories(self, count: int) -> tuple[UUID, ...]:
        if self.level < DIRECTORIES_LEVEL:
            return ()
        return tuple(self.draw(UUIDS) for _ in range(count))

    def cordoned(self) -> tuple[UUID, ...] | None:
        if self.level < CORDONED_DIRECTORIES_LEVEL:
            return None
        return self.draw(st.sampled_from([None, (), (UUID(int=4),)]))

    def electable(self) -> tuple[int, ...] | None:
        if self.level < ELIGIBLE_LEADER_REPLICAS_LEVEL:
            return None
        return self.draw(st.none() | SOME_BROKERS)


@st.composite
def histories(
    draw: st.DrawFn, max_size: int = 40, transactions: bool = True, newer: bool = True
) -> list[bytes]:
    """Values of a log; the first ones finalize levels, as in every log that a controller begins."""
    level = draw(st.sampled_from([7, 14, 17, 23, 30]))
    writer = Writer(draw, level=level, tags=TAGS if newer else NO_TAGS)
    levels = {md.METADATA_VERSION: level, "eligible.leader.replicas.version": 1}
    values = [
        md.encode_metadata(md.FeatureLevelRecord(name=name, feature_level=each))
        for name, each in levels.items()
    ]
    for _ in range(draw(st.integers(0, max_size))):
        if transactions and writer.level >= TRANSACTIONS_LEVEL and draw(st.integers(0, 9)) == 0:
            record: md.MetadataMessage = md.BeginTransactionRecord(name="n")
            if writer.in_transaction:
                record = md.EndTransactionRecord()
            writer.in_transaction = not writer.in_transaction
        else:
            record = writer.next()
        values.append(md.encode_metadata(record, md.record_version(type(record), writer.level)))
    return values
