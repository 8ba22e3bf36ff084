"""When snapshots are due and how long they are kept: Kafka's four properties, and our own ones
about turns.

Must not know how the values are used.
"""

from dataclasses import dataclass

from quorum_node.configuration.keys import log
from quorum_node.configuration.properties import Properties


@dataclass(frozen=True, slots=True)
class SnapshotPolicy:
    """`max_interval_ms` 0: no snapshots by age; retention -1: no limit.

    The others concern turns (KIP-631, `controller/snapshot_turns.py`). `heartbeat_ms`: interval of
    a controller's reports to the active one. `lagging_factor`: factor for both limits while too
    many voters are behind. `handover`: the active controller resigns before it writes a snapshot.
    """

    max_record_bytes: int = log.SNAPSHOT_RECORD_BYTES.default_of()
    max_interval_ms: int = log.SNAPSHOT_INTERVAL.default_of()
    retention_bytes: int = log.RETENTION_BYTES.default_of()
    retention_ms: int = log.RETENTION_MS.default_of()
    heartbeat_ms: int = log.SNAPSHOT_HEARTBEAT.default_of()
    lagging_factor: int = log.SNAPSHOT_LAGGING_FACTOR.default_of()
    handover: bool = log.SNAPSHOT_HANDOVER.default_of()


def read_snapshot_policy(properties: Properties) -> SnapshotPolicy:
    """Read the policy. Raises ConfigError."""
    return SnapshotPolicy(
        max_record_bytes=properties.get(log.SNAPSHOT_RECORD_BYTES),
        max_interval_ms=properties.get(log.SNAPSHOT_INTERVAL),
        retention_bytes=properties.get(log.RETENTION_BYTES),
        retention_ms=properties.get(log.RETENTION_MS),
        heartbeat_ms=properties.get(log.SNAPSHOT_HEARTBEAT),
        lagging_factor=properties.get(log.SNAPSHOT_LAGGING_FACTOR),
        handover=properties.get(log.SNAPSHOT_HANDOVER),
    )
