"""Writes a metadata log of any length, like that of a busy cluster, with the node's own storage.

Owns the mix of records: topics of ten partitions are created, changed and deleted; ISRs shrink and grow, leaders change; brokers are
fenced, unfenced and registered again; configs change. From a million records on the cluster has the same size in logs of every length, so
a reader's state does not grow with the log. The same number of records gives the same log.
"""

import random
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from uuid import UUID

from quorum_node.image.resource_types import TOPIC
from quorum_node.records import metadata as md
from quorum_node.records.batches import encode_batch, encode_values
from quorum_node.records.control import KRaftVersion, LeaderChange, VotersRecord, encode_control
from quorum_node.records.identity import Endpoint, ReplicaKey, Voter
from quorum_node.storage.log import SegmentedLog

BROKERS, PARTITIONS_A_TOPIC = 100, 10
MOST_TOPICS = 10_000
SEGMENT_BYTES = 64 << 20
"""The default of a node of ours."""
EPOCH = 7
_CONFIGS = ("retention.ms", "cleanup.policy", "segment.bytes", "min.insync.replicas")
_BATCHES, _BATCH_WEIGHTS = (1, 5, 20, 100, 1000), (30, 30, 20, 15, 5)
"""Records in a batch: one heartbeat's doing, a new topic, a broker that fails."""
_BEGAN_MS = 1_700_000_000_000


@dataclass(frozen=True, slots=True)
class WrittenLog:
    """`directory`: contains the segments. `kinds`: number of records by type."""

    directory: Path
    records: int
    size_bytes: int
    kinds: dict[str, int]


@dataclass(slots=True)
class _Topic:
    name: str
    id: UUID
    replicas: list[tuple[int, ...]]


class _Cluster:
    """The existing objects; changes refer only to these."""

    def __init__(self, topics: int, brokers: int = BROKERS) -> None:
        self._brokers = range(brokers)
        self._chance = random.Random(631)
        self._topics: deque[_Topic] = deque()
        self._wanted = topics
        self._made = 0

    def begun(self) -> Iterator[md.MetadataMessage]:
        """Records of the brokers and the first topics."""
        yield md.FeatureLevelRecord(name=md.METADATA_VERSION, feature_level=md.LATEST_LEVEL)
        for broker in self._brokers:
            yield self._registered(broker)
        while len(self._topics) < self._wanted:
            yield from self._created()

    def records(self) -> Iterator[md.MetadataMessage]:
        """An endless sequence of records."""
        yield from self.begun()
        while True:
            what = self._chance.random()
            if what < 0.86:
                yield self._change()
            elif what < 0.955:
                yield self._config()
            elif what < 0.965:
                yield md.RemoveTopicRecord(topic_id=self._topics.popleft().id)
                yield from self._created()
            else:
                yield from self._broker()

    def _created(self) -> Iterator[md.MetadataMessage]:
        number, chance = self._made, self._chance
        self._made += 1
        topic = _Topic(
            f"tenant-{number % 97}.events-{number}", UUID(int=chance.getrandbits(128)), []
        )
        yield md.TopicRecord(name=topic.name, topic_id=topic.id)
        for key in range(2):
            yield _config_of(topic, _CONFIGS[key], str(number))
        for partition in range(PARTITIONS_A_TOPIC):
            replicas = tuple(chance.sample(self._brokers, 3))
            topic.replicas.append(replicas)
            yield md.PartitionRecord(
                partition_id=partition,
                topic_id=topic.id,
                replicas=replicas,
                isr=replicas,
                leader=replicas[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=tuple(_directory(each) for each in replicas),
            )
        self._topics.append(topic)

    def _change(self) -> md.MetadataMessage:
        chance = self._chance
        topic = self._topics[int(chance.random() * len(self._topics))]
        number = int(chance.random() * PARTITIONS_A_TOPIC)
        first, second, third = topic.replicas[number]
        what = chance.random()
        if what < 0.4:
            return md.PartitionChangeRecord(
                partition_id=number, topic_id=topic.id, isr=(first, second)
            )
        if what < 0.7:
            return md.PartitionChangeRecord(
                partition_id=number, topic_id=topic.id, isr=(first, second, third)
            )
        return md.PartitionChangeRecord(
            partition_id=number, topic_id=topic.id, isr=(second, third), leader=second
        )

    def _config(self) -> md.MetadataMessage:
        topic = self._topics[int(self._chance.random() * len(self._topics))]
        value = str(int(self._chance.random() * 1_000_000_000))
        return _config_of(topic, self._chance.choice(_CONFIGS), value)

    def _broker(self) -> Iterator[md.MetadataMessage]:
        broker = self._chance.choice(self._brokers)
        if self._chance.random() < 0.2:
            yield self._registered(broker)
        for fenced in (1, -1):
            yield md.BrokerRegistrationChangeRecord(
                broker_id=broker, broker_epoch=broker, fenced=fenced
            )
        yield md.ProducerIdsRecord(broker_id=broker, broker_epoch=broker, next_producer_id=broker)

    def _registered(self, broker: int) -> md.MetadataMessage:
        endpoint = md.NodeEndpoint(
            name="PLAINTEXT", host=f"broker-{broker}.kafka", port=9092, security_protocol=0
        )
        feature = md.SupportedFeature(
            name=md.METADATA_VERSION,
            min_supported_version=md.LOWEST_LEVEL,
            max_supported_version=md.LATEST_LEVEL,
        )
        return md.RegisterBrokerRecord(
            broker_id=broker,
            incarnation_id=UUID(int=self._chance.getrandbits(128)),
            broker_epoch=broker,
            end_points=(endpoint,),
            features=(feature,),
            rack=f"rack-{broker % 12}",
            fenced=False,
            log_dirs=(_directory(broker),),
        )


def _config_of(topic: _Topic, name: str, value: str) -> md.ConfigRecord:
    return md.ConfigRecord(resource_type=TOPIC, resource_name=topic.name, name=name, value=value)


def _directory(broker: int) -> UUID:
    return UUID(int=1000 + broker)


def write(directory: Path, records: int) -> WrittenLog:
    """Write a log with that many records, control records included, to a new directory."""
    cluster = _Cluster(min(MOST_TOPICS, max(1, records // 100)))
    return _written(directory, cluster.records(), records)


def write_topics(directory: Path, partitions: int, brokers: int) -> WrittenLog:
    """Write a log that only creates that many partitions."""
    cluster = _Cluster(partitions // PARTITIONS_A_TOPIC, brokers)
    return _written(directory, cluster.begun(), 1 << 40)


def _written(
    directory: Path, source: Iterator[md.MetadataMessage], most_records: int
) -> WrittenLog:
    directory.mkdir(parents=True)
    log = SegmentedLog(directory, segment_bytes=SEGMENT_BYTES)
    head, end_offset = _control_batch()
    log.append(head, 0, end_offset, EPOCH)
    chance = random.Random(595)
    versions = {cls: md.record_version(cls, md.LATEST_LEVEL) for cls in md.RECORDS_BY_TYPE.values()}
    kinds: Counter[type] = Counter()
    while True:
        (wanted,) = chance.choices(_BATCHES, _BATCH_WEIGHTS)
        found = list(islice(source, min(wanted, most_records - end_offset)))
        if not found:
            break
        kinds.update(map(type, found))
        data = encode_values(
            base_offset=end_offset,
            leader_epoch=EPOCH,
            timestamp_ms=_BEGAN_MS + end_offset,
            values=[md.encode_metadata(each, versions[type(each)]) for each in found],
        )
        log.append(data, end_offset, end_offset + len(found), EPOCH)
        end_offset += len(found)
    log.flush()
    log.close()
    size_bytes = sum(file.stat().st_size for file in directory.glob("*.log"))
    named = {kind.__name__: count for kind, count in kinds.most_common()}
    return WrittenLog(directory, end_offset, size_bytes, named)


def _control_batch() -> tuple[bytes, int]:
    """The control records at the start of a log: leader and voters."""
    keys = [ReplicaKey(number, UUID(int=100 + number)) for number in (1, 2, 3)]
    voters = tuple(Voter(key, (Endpoint("CONTROLLER", f"host-{key.id}", 9093),)) for key in keys)
    records = [
        encode_control(LeaderChange(1, tuple(keys), tuple(keys[:2]))),
        encode_control(KRaftVersion(1)),
        encode_control(VotersRecord(voters, "bench")),
    ]
    data = encode_batch(
        base_offset=0, leader_epoch=EPOCH, timestamp_ms=_BEGAN_MS, records=records, control=True
    )
    return data, len(records)
