"""Keys: the log of the metadata and its snapshots (KIP-630)."""

from collections.abc import Mapping
from typing import Any

from quorum_node.configuration.key import Key
from quorum_node.configuration.value_kinds import (
    FAR,
    HOUR_MS,
    Boolean,
    Integer,
)

SEGMENT_BYTES = Key(
    "metadata.log.segment.bytes",
    Integer(1 << 14, 1 << 31),
    64 << 20,
    "size of a segment",
    shown="64 MiB",
)
RESERVE_BYTES = Key(
    "metadata.log.reserve.bytes",
    Integer(0, 1 << 50),
    64 << 20,
    "ours: kept free on the disk; below it appends are refused, and snapshots that would need more are not written",
    shown="64 MiB",
)
SCRUB_BYTES_PER_SECOND = Key(
    "metadata.log.scrub.bytes.per.second",
    Integer(1 << 10, 1 << 40),
    1 << 20,
    "ours: how fast log and snapshots on the disk are read again and checked",
    shown="1 MiB",
)
SNAPSHOT_RECORD_BYTES = Key(
    "metadata.log.max.record.bytes.between.snapshots",
    Integer(1, FAR),
    20 << 20,
    "a snapshot is due after so many bytes of records",
    shown="20 MiB",
)
SNAPSHOT_INTERVAL = Key(
    "metadata.log.max.snapshot.interval.ms",
    Integer(0, FAR),
    HOUR_MS,
    "and after so long, if there are new records; 0: never",
)
RETENTION_BYTES = Key(
    "metadata.max.retention.bytes",
    Integer(-1, FAR),
    100 << 20,
    "older snapshots, and the log before them, go when all is larger than this; -1: no limit",
    shown="100 MiB",
)
RETENTION_MS = Key(
    "metadata.max.retention.ms",
    Integer(-1, FAR),
    7 * 24 * HOUR_MS,
    "or when they are older than this; -1: no limit",
    shown="7 days",
)
SNAPSHOT_HEARTBEAT = Key(
    "quorum.snapshot.heartbeat.interval.ms",
    Integer(10, 60_000),
    2000,
    "between a controller's reports to the active one, which gives out turns",
)
SNAPSHOT_LAGGING_FACTOR = Key(
    "quorum.snapshot.lagging.factor",
    Integer(1, 1000),
    4,
    "both limits of a snapshot are multiplied by it while too many voters are behind",
)
SNAPSHOT_HANDOVER = Key(
    "quorum.snapshot.handover",
    Boolean(),
    True,
    "the active controller resigns before it writes a snapshot",
)

SECTIONS: Mapping[str, tuple[Key[Any], ...]] = {
    "The log and its snapshots": (
        SEGMENT_BYTES,
        RESERVE_BYTES,
        SCRUB_BYTES_PER_SECOND,
        SNAPSHOT_RECORD_BYTES,
        SNAPSHOT_INTERVAL,
        RETENTION_BYTES,
        RETENTION_MS,
        SNAPSHOT_HEARTBEAT,
        SNAPSHOT_LAGGING_FACTOR,
        SNAPSHOT_HANDOVER,
    ),
}
