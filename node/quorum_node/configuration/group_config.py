"""Configuration of consumer groups on a broker. Must not know files."""

from dataclasses import dataclass

from quorum_node.configuration.keys import groups
from quorum_node.configuration.properties import Properties
from quorum_node.coordinator.settings import GroupSettings

_MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """`partitions`, `replication_factor` and `segment_bytes`: of `__consumer_offsets`, when it is created."""

    settings: GroupSettings
    commit_timeout_ms: int
    partitions: int
    replication_factor: int
    segment_bytes: int


def read_group_config(properties: Properties) -> GroupConfig:
    """Read the configuration of groups. Raises ConfigError."""
    shortest, longest = properties.get(groups.SESSION_MIN), properties.get(groups.SESSION_MAX)
    if shortest > longest:
        raise properties.wrong(
            groups.SESSION_MIN, f"is more than {groups.SESSION_MAX.name}={longest}"
        )
    return GroupConfig(
        settings=GroupSettings(
            min_session_timeout_ms=shortest,
            max_session_timeout_ms=longest,
            initial_rebalance_delay_ms=properties.get(groups.INITIAL_DELAY),
            max_size=properties.get(groups.MAX_SIZE),
            offset_metadata_max_bytes=properties.get(groups.METADATA_BYTES),
            offsets_retention_ms=properties.get(groups.OFFSETS_RETENTION) * _MINUTE_MS,
            retention_check_ms=properties.get(groups.OFFSETS_CHECK),
        ),
        commit_timeout_ms=properties.get(groups.COMMIT_TIMEOUT),
        partitions=properties.get(groups.OFFSETS_PARTITIONS),
        replication_factor=properties.get(groups.OFFSETS_FACTOR),
        segment_bytes=properties.get(groups.OFFSETS_SEGMENT_BYTES),
    )
