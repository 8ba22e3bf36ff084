"""Keys of the metadata log and its snapshots (KIP-630)."""

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
    "ours: free space to keep on the disk; below it appends are refused, and snapshots that would use it are not written",
    shown="64 MiB",
)
SCRUB_BYTES_PER_SECOND = Key(
    "metadata.log.scrub.bytes.per.second",
    Integer(1 << 10, 1 << 40),
    1 << 20,
    "ours: rate of the scrub, which reads and verifies log and snapshots on the disk",
    shown="1 MiB",
)
SNAPSHOT_RECORD_BYTES = Key(
    "metadata.log.max.record.bytes.between.snapshots",
    Integer(1, FAR),
    20 << 20,
    "bytes of new records after which a snapshot is written",
    shown="20 MiB",
)
SNAPSHOT_INTERVAL = Key(
    "metadata.log.max.snapshot.interval.ms",
    Integer(0, FAR),
    HOUR_MS,
    "time after which a snapshot is written if there are new records; 0: never",
)
RETENTION_BYTES = Key(
    "metadata.max.retention.bytes",
    Integer(-1, FAR),
    100 << 20,
    "total size above which older snapshots, and the log before them, are deleted; -1: no limit",
    shown="100 MiB",
)
RETENTION_MS = Key(
    "metadata.max.retention.ms",
    Integer(-1, FAR),
    7 * 24 * HOUR_MS,
    "age above which they are deleted; -1: no limit",
    shown="7 days",
)
SNAPSHOT_HEARTBEAT = Key(
    "quorum.snapshot.heartbeat.interval.ms",
    Integer(10, 60_000),
    2000,
    "interval of the controllers' reports to the active one, which lets one at a time write a snapshot",
)
SNAPSHOT_LAGGING_FACTOR = Key(
    "quorum.snapshot.lagging.factor",
    Integer(1, 1000),
    4,
    "factor for both limits of a snapshot while too many voters are behind",
)
SNAPSHOT_HANDOVER = Key(
    "quorum.snapshot.handover",
    Boolean(),
    True,
    "whether the active controller resigns before it writes a snapshot",
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
