"""Keys of consumer groups on a broker. Names are Kafka's, and so are the defaults unless stated otherwise."""

from collections.abc import Mapping
from typing import Any

from quorum_node.configuration.key import Key
from quorum_node.configuration.value_kinds import HOUR_MS, MANY, Integer

OFFSETS_PARTITIONS = Key(
    "offsets.topic.num.partitions",
    Integer(1, 10_000),
    50,
    "of a broker: number of partitions of `__consumer_offsets` when it is created",
)
OFFSETS_FACTOR = Key(
    "offsets.topic.replication.factor",
    Integer(1, 100),
    3,
    "of a broker: replication factor of `__consumer_offsets`; it is created when there are so many brokers",
)
OFFSETS_SEGMENT_BYTES = Key(
    "offsets.topic.segment.bytes",
    Integer(1 << 10, 1 << 30),
    100 << 20,
    "of a broker: `segment.bytes` of `__consumer_offsets`, when it is created",
    shown="100 MiB",
)
OFFSETS_RETENTION = Key(
    "offsets.retention.minutes",
    Integer(1, MANY),
    7 * 24 * 60,
    "of a broker: retention of committed offsets after a group has become empty",
)
OFFSETS_CHECK = Key(
    "offsets.retention.check.interval.ms",
    Integer(100, MANY),
    600_000,
    "of a broker: interval of the check for expired offsets",
)
COMMIT_TIMEOUT = Key(
    "offsets.commit.timeout.ms",
    Integer(1, HOUR_MS),
    5_000,
    "of a broker: time limit for replication of an offset commit",
)
METADATA_BYTES = Key(
    "offset.metadata.max.bytes",
    Integer(0, 1 << 20),
    4_096,
    "of a broker: maximum length of the metadata of a committed offset",
)
SESSION_MIN = Key(
    "group.min.session.timeout.ms",
    Integer(1, MANY),
    6_000,
    "of a broker: minimum session timeout of a member",
)
SESSION_MAX = Key(
    "group.max.session.timeout.ms",
    Integer(1, MANY),
    1_800_000,
    "of a broker: maximum session timeout of a member",
)
INITIAL_DELAY = Key(
    "group.initial.rebalance.delay.ms",
    Integer(0, HOUR_MS),
    3_000,
    "of a broker: how long the first rebalance of an empty group waits for more members",
)
MAX_SIZE = Key(
    "group.max.size",
    Integer(1, 1_000_000),
    10_000,
    "of a broker: maximum number of members of a group; Kafka has no limit by default",
)

SECTIONS: Mapping[str, tuple[Key[Any], ...]] = {
    "Consumer groups of a broker": (
        OFFSETS_PARTITIONS,
        OFFSETS_FACTOR,
        OFFSETS_SEGMENT_BYTES,
        OFFSETS_RETENTION,
        OFFSETS_CHECK,
        COMMIT_TIMEOUT,
        METADATA_BYTES,
        SESSION_MIN,
        SESSION_MAX,
        INITIAL_DELAY,
        MAX_SIZE,
    ),
}
