"""Keys of a broker (`process.roles=broker`).

Names and defaults are Kafka's, except `unstable.broker.role.enable`.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from quorum_node.configuration.key import Key
from quorum_node.configuration.keys import listeners
from quorum_node.configuration.value_kinds import (
    HOUR_MS,
    MANY,
    AbsolutePaths,
    Boolean,
    Integer,
    Listeners,
    Text,
)
from quorum_node.host_port import ListenerAddress

ENABLED = Key(
    "unstable.broker.role.enable",
    Boolean(),
    False,
    "ours: enables `process.roles=broker`, which is in development: its behaviour and its file formats can still change",
)
LOG_DIRS: Key[tuple[Path, ...] | None] = Key(
    "log.dirs",
    AbsolutePaths(),
    None,
    "of a broker: directories of the partitions of topics, one for each disk, separate from each other and from `metadata.log.dir`",
)
DIRECTORY_FAILURE_TIMEOUT = Key(
    "log.dir.failure.timeout.ms",
    Integer(1, HOUR_MS),
    30_000,
    "of a broker: if no controller could be informed of a failed log directory within this time, the process ends",
)
BETWEEN_BROKERS: Key[str | None] = Key(
    "inter.broker.listener.name",
    Text("a name in `listeners`"),
    None,
    "of a broker: the listener on which brokers fetch from each other; PLAINTEXT or SSL. Default: the first of `listeners`",
)
RACK: Key[str | None] = Key(
    "broker.rack",
    Text("any text"),
    None,
    "of a broker: its rack, for the placement of replicas",
)
HEARTBEAT_INTERVAL = Key(
    "broker.heartbeat.interval.ms",
    Integer(50, HOUR_MS),
    2000,
    "of a broker: interval of its heartbeats to the active controller",
)
REPLICA_LAG_TIME = Key(
    "replica.lag.time.max.ms",
    Integer(100, HOUR_MS),
    30_000,
    "of a broker: time after which a follower that has not caught up is removed from the ISR of partitions that this broker leads",
)
FETCH_WAIT = Key(
    "replica.fetch.wait.max.ms",
    Integer(1, HOUR_MS),
    500,
    "of a broker: how long a leader may wait for new records before it responds to a fetch of this broker",
)
FETCH_MAX_BYTES = Key(
    "replica.fetch.response.max.bytes",
    Integer(1 << 10, 32 << 20),
    10 << 20,
    "of a broker: maximum bytes of records in one fetch response of a leader",
    shown="10 MiB",
)
PARTITION_MAX_BYTES = Key(
    "replica.fetch.max.bytes",
    Integer(1 << 10, 32 << 20),
    1 << 20,
    "of a broker: the same for one partition",
    shown="1 MiB",
)
SHUTDOWN_TIMEOUT = Key(
    "quorum.broker.shutdown.timeout.ms",
    Integer(0, MANY),
    30_000,
    "ours, of a broker: how long a controlled shutdown waits until the active controller has moved its leaders to other brokers",
)
RETENTION_CHECK = Key(
    "log.retention.check.interval.ms",
    Integer(100, MANY),
    300_000,
    "of a broker: interval of the check for segments to delete by retention.ms and retention.bytes",
)
REPLICA_LAG_BYTES = Key(
    "quorum.replica.lag.max.bytes",
    Integer(0, 1 << 50),
    0,
    "ours, of a broker: a follower that is more bytes behind than this for two fetches or half a second is removed from the ISR; 0: no limit",
)
CLEANER_ENABLED = Key(
    "log.cleaner.enable",
    Boolean(),
    True,
    "of a broker: whether topics with `cleanup.policy=compact` are compacted. This and the other keys of the cleaner are static values; dynamic configs of brokers precede them",
)
CLEANER_BACKOFF = Key(
    "log.cleaner.backoff.ms",
    Integer(0, HOUR_MS),
    15_000,
    "of a broker: pause between two compaction rounds",
)
CLEANER_IO = Key(
    "log.cleaner.io.max.bytes.per.second",
    Integer(1, 1 << 50),
    1 << 50,
    "of a broker: maximum bytes that compaction reads and writes per second",
    shown="no limit",
)
CLEANER_BUFFER = Key(
    "log.cleaner.dedupe.buffer.size",
    Integer(1 << 20, 1 << 40),
    128 << 20,
    "of a broker: memory for the newest offset of each key, about 200 bytes a key",
    shown="128 MiB",
)
PRODUCER_EXPIRATION = Key(
    "producer.id.expiration.ms",
    Integer(1, MANY),
    24 * HOUR_MS,
    "of a broker: time after which a partition forgets an idle idempotent producer that has no open transaction. A static value, too",
)
PRODUCER_CHECK = Key(
    "producer.id.expiration.check.interval.ms",
    Integer(1, MANY),
    600_000,
    "of a broker: interval of the check for such producers",
)
CORDONED_LOG_DIRS = Key(
    "cordoned.log.dirs",
    Text("`*`, or paths in `log.dirs`, separated by commas"),
    "",
    "of a broker: directories that get no new replicas, `*` for all; the ones that they have stay. A static value; a dynamic config of this broker precedes it",
)
DYNAMIC: tuple[Key[Any], ...] = (
    CLEANER_ENABLED,
    CLEANER_BACKOFF,
    CLEANER_IO,
    CLEANER_BUFFER,
    PRODUCER_EXPIRATION,
    CORDONED_LOG_DIRS,
)
"""Keys whose values dynamic configs of brokers precede."""
LISTENER: Key[tuple[ListenerAddress, ...]] = replace(
    listeners.LISTENER,
    kind=Listeners(None),
    default=(ListenerAddress("PLAINTEXT", "0.0.0.0", 9092),),
)
"""`listeners` of a broker, whose default for members of the quorum has no port."""
ADVERTISED: Key[tuple[ListenerAddress, ...] | None] = replace(
    listeners.ADVERTISED, kind=Listeners(None)
)
"""The same for `advertised.listeners`."""

SECTIONS: Mapping[str, tuple[Key[Any], ...]] = {
    "The broker (in development)": (
        ENABLED,
        LOG_DIRS,
        DIRECTORY_FAILURE_TIMEOUT,
        BETWEEN_BROKERS,
        RACK,
        HEARTBEAT_INTERVAL,
        REPLICA_LAG_TIME,
        FETCH_WAIT,
        FETCH_MAX_BYTES,
        PARTITION_MAX_BYTES,
        SHUTDOWN_TIMEOUT,
        RETENTION_CHECK,
        REPLICA_LAG_BYTES,
        *DYNAMIC,
        PRODUCER_CHECK,
    ),
}
