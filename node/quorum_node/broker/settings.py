"""Configuration of a partition's replication. PURE."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PartitionSettings:
    """`replica_lag_max_bytes`: None: no follower is removed from the ISR because of bytes."""

    min_insync_replicas: int = 1
    replica_lag_time_max_ms: float = 30_000.0
    replica_lag_max_bytes: int | None = None
