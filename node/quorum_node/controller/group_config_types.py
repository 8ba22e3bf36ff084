"""The configs of a group: types, limits, and the properties of a node that they depend on. PURE.

Owns the tables and the checks. Must not know requests. A default or a limit is a property of the
controller's own configuration, as in stock Kafka: a dynamic config of brokers does not change it.
Source: KIP-848 (consumer), KIP-932 (share) and KIP-1071 (streams), as a stock 4.3 controller answers.
"""

from collections.abc import Mapping
from typing import NamedTuple

from quorum_node.controller.java_duration import duration_ns
from quorum_node.controller.topic_config_types import MAX_INT, ConfigType, TopicConfig

_OFFSET_RESET = "share.auto.offset.reset"
_BY_DURATION = "by_duration:"
_JAVA_BLANKS = "".join(map(chr, range(33)))


class NodeNumber(NamedTuple):
    """A property of a node: its default and its own limits, both included."""

    default: int
    least: int
    most: int = MAX_INT


_NODE_DEFAULTS: Mapping[str, NodeNumber] = {
    "consumer.assignment.interval.ms": NodeNumber(1_000, 0),
    "consumer.heartbeat.interval.ms": NodeNumber(5_000, 1),
    "consumer.session.timeout.ms": NodeNumber(45_000, 1),
    "share.assignment.interval.ms": NodeNumber(1_000, 0),
    "share.delivery.count.limit": NodeNumber(5, 2, 10),
    "share.heartbeat.interval.ms": NodeNumber(5_000, 1),
    "share.partition.max.record.locks": NodeNumber(2_000, 100, 10_000),
    "share.record.lock.duration.ms": NodeNumber(30_000, 1_000, 3_600_000),
    "share.session.timeout.ms": NodeNumber(45_000, 1),
    "streams.assignment.interval.ms": NodeNumber(1_000, 0),
    "streams.heartbeat.interval.ms": NodeNumber(5_000, 1),
    "streams.initial.rebalance.delay.ms": NodeNumber(3_000, 0),
    "streams.num.standby.replicas": NodeNumber(0, 0),
    "streams.session.timeout.ms": NodeNumber(45_000, 1),
}
"""Configs of a group whose defaults are properties of a node, named `group.` and the name."""

GROUP_CONFIGS: Mapping[str, TopicConfig] = {
    **{
        name: TopicConfig(
            ConfigType.INT, str(node.default), node.least, broker_names=((f"group.{name}", 1),)
        )
        for name, node in _NODE_DEFAULTS.items()
    },
    _OFFSET_RESET: TopicConfig(ConfigType.STRING, "latest"),
    "share.isolation.level": TopicConfig(
        ConfigType.STRING, "read_uncommitted", words=("read_committed", "read_uncommitted")
    ),
    "share.renew.acknowledge.enable": TopicConfig(ConfigType.BOOLEAN, "true"),
}
"""Every config of a group, by name."""


class _Limit(NamedTuple):
    """Limits of a config of a group: properties of a node."""

    config: str
    least_name: str | None
    most_name: str


def _limit(config: str) -> _Limit:
    kind, rest = config.split(".", 1)
    return _Limit(config, f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest}")


_LIMITS = (
    *(
        _limit(f"{kind}.{rest}")
        for kind in ("consumer", "share", "streams")
        for rest in ("assignment.interval.ms", "heartbeat.interval.ms", "session.timeout.ms")
    ),
    _limit("share.delivery.count.limit"),
    _limit("share.partition.max.record.locks"),
    _limit("share.record.lock.duration.ms"),
    _Limit("streams.num.standby.replicas", None, "group.streams.max.standby.replicas"),
)

_NODE_LIMITS: Mapping[str, NodeNumber] = {
    **{
        f"group.{kind}.{name}": number
        for kind in ("consumer", "share", "streams")
        for name, number in {
            "min.assignment.interval.ms": NodeNumber(0, 0),
            "max.assignment.interval.ms": NodeNumber(15_000, 0),
            "min.heartbeat.interval.ms": NodeNumber(5_000, 1),
            "max.heartbeat.interval.ms": NodeNumber(15_000, 1),
            "min.session.timeout.ms": NodeNumber(45_000, 1),
            "max.session.timeout.ms": NodeNumber(60_000, 1),
        }.items()
    },
    "group.share.min.delivery.count.limit": NodeNumber(2, 2, 5),
    "group.share.max.delivery.count.limit": NodeNumber(10, 5, 25),
    "group.share.min.partition.max.record.locks": NodeNumber(100, 100, 2_000),
    "group.share.max.partition.max.record.locks": NodeNumber(4_000, 2_000, 10_000),
    "group.share.min.record.lock.duration.ms": NodeNumber(15_000, 1_000, 30_000),
    "group.share.max.record.lock.duration.ms": NodeNumber(60_000, 30_000, 3_600_000),
    "group.streams.max.standby.replicas": NodeNumber(2, 0),
}

NODE_NUMBERS: Mapping[str, NodeNumber] = {
    **_NODE_LIMITS,
    **{f"group.{name}": number for name, number in _NODE_DEFAULTS.items()},
}
"""Properties of a node that are limits or defaults of configs of a group."""


def group_configs_fault(configs: Mapping[str, str], static: Mapping[str, str]) -> str | None:
    """Why all configs of a group together are invalid, or None. `static`: valid properties of this node."""
    for name, value in configs.items():
        config = GROUP_CONFIGS.get(name)
        if config is None:
            return f"a group has no config {name}"
        fault = _offset_reset_fault(value) if name == _OFFSET_RESET else config.fault(value)
        if fault is not None:
            return f"{name}={value}: {fault}"
    numbers = {name: _effective(configs, static, name) for name in _NODE_DEFAULTS}
    return _limit_fault(numbers, static) or _session_fault(numbers)


def _offset_reset_fault(value: str) -> str | None:
    value = value.strip(_JAVA_BLANKS)
    if value in ("earliest", "latest"):
        return None
    length_ns = (
        duration_ns(value.removeprefix(_BY_DURATION)) if value.startswith(_BY_DURATION) else None
    )
    if length_ns is None or length_ns < 0:
        return "it has to be earliest, latest, or by_duration: and a duration such as PT1H, not negative"
    return None


def _effective(configs: Mapping[str, str], static: Mapping[str, str], name: str) -> int:
    return int(configs[name]) if name in configs else _of_node(static, f"group.{name}")


def _of_node(static: Mapping[str, str], name: str) -> int:
    return int(static[name]) if name in static else NODE_NUMBERS[name].default


def _limit_fault(numbers: Mapping[str, int], static: Mapping[str, str]) -> str | None:
    for config, least_name, most_name in _LIMITS:
        number = numbers[config]
        if least_name is not None and number < (least := _of_node(static, least_name)):
            return f"{config}={number} is less than {least_name}={least}"
        if number > (most := _of_node(static, most_name)):
            return f"{config}={number} is more than {most_name}={most}"
    return None


def _session_fault(numbers: Mapping[str, int]) -> str | None:
    """A member has to send a heartbeat before its session ends."""
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if numbers[session] <= numbers[heartbeat]:
            return f"{session}={numbers[session]} is not more than {heartbeat}={numbers[heartbeat]}"
    return None
