"""What configuration says about the replication of a partition. PURE."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PartitionSettings:
    """`replica_lag_max_bytes`: None means that a lag in bytes costs no follower its place in the ISR."""

    min_insync_replicas: int = 1
    replica_lag_time_max_ms: float = 30_000.0
    replica_lag_max_bytes: int | None = None
