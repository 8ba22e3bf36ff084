"""Configuration of groups. PURE. Names and defaults are Kafka's where it has them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Settings of one coordinator. Units are in the names; `max_members_bytes`: metadata of all members of a group,
    and names of their protocols.
    """

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 10_000
    max_members_bytes: int = 1_000_000
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    retention_check_ms: int = 600_000
