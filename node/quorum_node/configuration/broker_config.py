"""Configuration of a broker, in addition to that of every node.

Owns the rules between the keys of a broker. Must not know files.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from quorum_node.configuration.group_config import GroupConfig, read_group_config
from quorum_node.configuration.keys import broker, listeners, node, quorum
from quorum_node.configuration.listener_config import (
    controller_listener_names,
    has_both_roles,
    is_broker,
)
from quorum_node.configuration.properties import ConfigError, Properties
from quorum_node.security.errors import SecuritySettingError
from quorum_node.security.tls.listener_security import ListenerSecurity, read_listeners

ALL_DIRECTORIES = "*"
"""The item of `cordoned.log.dirs` that stands for all directories."""


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """Checked values."""

    log_dirs: tuple[Path, ...]
    directory_failure_timeout_ms: int
    rack: str | None
    heartbeat_interval_ms: int
    lag_time_max_ms: int
    lag_max_bytes: int | None
    fetch_wait_max_ms: int
    fetch_max_bytes: int
    partition_max_bytes: int
    shutdown_timeout_ms: int
    retention_check_ms: int
    producer_check_ms: int
    groups: GroupConfig
    static_configs: Mapping[str, str]
    """Static values of `broker.DYNAMIC`, under Kafka's names."""
    controllers: ListenerSecurity
    """How the broker connects to the controllers."""
    is_member: bool = False
    """Whether the process is a member of the quorum, too (`process.roles=broker,controller`)."""


def check_role(properties: Properties) -> None:
    """Refuse the role of broker unless it is enabled explicitly. Raises ConfigError."""
    if is_broker(properties) and not properties.get(broker.ENABLED):
        raise properties.wrong(
            node.PROCESS_ROLES,
            f"brokers of this software are in development. Set {broker.ENABLED.name}=true to try one, or run"
            " Apache Kafka's brokers, which work with these controllers",
        )


def read_broker_config(properties: Properties) -> BrokerConfig | None:
    """The configuration of the broker; None for a node with another role. Raises ConfigError."""
    if not is_broker(properties):
        return None
    is_member = has_both_roles(properties)
    if not is_member:
        _refuse_what_brokers_lack(properties)
    log_dirs = properties.get(broker.LOG_DIRS)
    if log_dirs is None:
        raise ConfigError(f"{broker.LOG_DIRS.name} is not set; it is required for a broker")
    _refuse_nested(properties, log_dirs)
    _refuse_unknown_cordoned(properties, log_dirs)
    return BrokerConfig(
        log_dirs=log_dirs,
        directory_failure_timeout_ms=properties.get(broker.DIRECTORY_FAILURE_TIMEOUT),
        rack=properties.get(broker.RACK),
        heartbeat_interval_ms=properties.get(broker.HEARTBEAT_INTERVAL),
        lag_time_max_ms=properties.get(broker.REPLICA_LAG_TIME),
        lag_max_bytes=properties.get(broker.REPLICA_LAG_BYTES) or None,
        fetch_wait_max_ms=properties.get(broker.FETCH_WAIT),
        fetch_max_bytes=properties.get(broker.FETCH_MAX_BYTES),
        partition_max_bytes=properties.get(broker.PARTITION_MAX_BYTES),
        shutdown_timeout_ms=properties.get(broker.SHUTDOWN_TIMEOUT),
        retention_check_ms=properties.get(broker.RETENTION_CHECK),
        producer_check_ms=properties.get(broker.PRODUCER_CHECK),
        groups=read_group_config(properties),
        static_configs=_dynamic(properties),
        controllers=_controllers(properties),
        is_member=is_member,
    )


def _refuse_nested(properties: Properties, log_dirs: tuple[Path, ...]) -> None:
    """Refuse directories that contain each other or the directory of the metadata log."""
    metadata_dir = properties.get(node.DATA_DIR)
    for number, each in enumerate(log_dirs):
        if _overlap(each, metadata_dir):
            why = f"must be separate from {node.DATA_DIR.name}={metadata_dir}: neither inside nor a parent of it"
            raise properties.wrong(broker.LOG_DIRS, why)
        for other in log_dirs[:number]:
            if _overlap(each, other):
                why = (
                    f"{each} and {other} must be separate: neither inside nor a parent of the other"
                )
                raise properties.wrong(broker.LOG_DIRS, why)


def _refuse_unknown_cordoned(properties: Properties, log_dirs: tuple[Path, ...]) -> None:
    key = broker.CORDONED_LOG_DIRS
    for each in cordoned_paths(properties.get(key)):
        if each != ALL_DIRECTORIES and Path(each) not in log_dirs:
            raise properties.wrong(key, f"{each} is not in {broker.LOG_DIRS.name}")


def cordoned_paths(text: str) -> tuple[str, ...]:
    """The items of `cordoned.log.dirs`: normalized paths, or `ALL_DIRECTORIES`."""
    items = [each.strip() for each in text.split(",")]
    return tuple(str(Path(each)) for each in items if each)


def _overlap(one: Path, other: Path) -> bool:
    return one == other or one in other.parents or other in one.parents


def _dynamic(properties: Properties) -> dict[str, str]:
    """The configured values. Raises ConfigError for an invalid value."""
    for key in broker.DYNAMIC:
        properties.get(key)
    return {key.name: properties.text(key).strip() for key in broker.DYNAMIC if properties.has(key)}


def _controllers(properties: Properties) -> ListenerSecurity:
    """Connection to the first of `controller.listener.names`, with the broker's own certificate.

    Raises ConfigError.
    """
    names = controller_listener_names(properties)
    raw = dict(properties.raw)
    protocols = properties.get(listeners.PROTOCOL_MAP)
    if protocols and names[0] not in protocols:
        why = f"has no entry for listener {names[0]} of the controllers"
        raise properties.wrong(listeners.PROTOCOL_MAP, why)
    try:
        (found,) = read_listeners(raw, names[:1], names[0])
    except SecuritySettingError as error:
        raise ConfigError(str(error)) from None
    return found


def _refuse_what_brokers_lack(properties: Properties) -> None:
    """Refuse settings that a broker would ignore."""
    for key in (quorum.FOUNDER_ID, quorum.FOUNDER_UUID, quorum.AUTO_JOIN, node.WITNESS):
        if properties.has(key) and properties.text(key) != "false":
            raise properties.wrong(key, "is for members of the quorum only, not for brokers")
    if properties.get(node.PARTITIONS) != 1:
        raise properties.wrong(node.PARTITIONS, "a broker follows the first partition only")
