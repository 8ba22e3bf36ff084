"""Settings for the files of one partition. Owns the defaults, which are stock Kafka's.

Source: Kafka's documentation, "Topic Configs" and "Broker Configs".
"""

from dataclasses import dataclass

DAY_MS = 86_400_000
FOREVER = -1
NEVER = (1 << 63) - 1
"""The default of flush.messages and flush.ms."""
NO_LAG_LIMIT = (1 << 63) - 1
"""The default of max.compaction.lag.ms."""


@dataclass(frozen=True, slots=True)
class LogSettings:
    """Each field is the topic config of the same name with dots, except where stated.

    `retention_ms` and `retention_bytes`: FOREVER means no limit. `deletes` and `compacts`: items of
    cleanup.policy.
    """

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * DAY_MS
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    deletes: bool = True
    compacts: bool = False
    retention_ms: int = 7 * DAY_MS
    retention_bytes: int = FOREVER
    file_delete_delay_ms: int = 60_000
    delete_retention_ms: int = DAY_MS
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = NO_LAG_LIMIT
    flush_messages: int = NEVER
    flush_ms: int = NEVER
    producer_id_expiration_ms: int = DAY_MS
    """The broker's producer.id.expiration.ms."""
