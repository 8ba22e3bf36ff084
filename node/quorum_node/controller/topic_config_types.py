"""The table of topic configs: types, defaults, limits, and names of the same settings on a broker. PURE.

Owns the table and the validation of single values. Must not know where values are kept
(`topic_settings.py`).
Source: Kafka 4.3's documentation, "Topic Configs"; broker names are from its column "Server Default
Property".
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

MAX_INT = (1 << 31) - 1
MAX_LONG = (1 << 63) - 1
_INTEGER = re.compile(r"[+-]?[0-9]{1,40}")
"""Longer numbers are refused, even with leading zeros: Python raises an exception for thousands of digits."""
_DOUBLE = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
"""Every text matches in one way only, so the time is linear in its length."""
_BLANKS = " \t\n\r\f\v"
"""Java removes these around a value, but not the other blanks of Unicode, which are invalid in a number."""


class ConfigType(Enum):
    """Kafka's types of values."""

    BOOLEAN = "boolean"
    STRING = "string"
    INT = "int"
    LONG = "long"
    DOUBLE = "double"
    LIST = "list"


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """One config. `broker_names`: names of the broker-wide default, by decreasing priority.

    The factor converts a broker's value to the unit of the topic config (hours to milliseconds).
    """

    type: ConfigType
    default: str | None
    least: float | None = None
    most: float | None = None
    exceptions: tuple[int, ...] = ()
    words: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None
    broker_names: tuple[tuple[str, int], ...] = ()

    def fault(self, value: str) -> str | None:
        """Why a value is invalid; None if it is valid."""
        return _FAULTS[self.type](self, value.strip(_BLANKS))


def _boolean_fault(config: TopicConfig, value: str) -> str | None:
    return None if value.lower() in ("true", "false") else "it has to be true or false"


def _word_fault(config: TopicConfig, value: str) -> str | None:
    if not config.words or value in config.words:
        return None
    return f"it has to be one of {', '.join(config.words)}"


def _number_fault(config: TopicConfig, value: str) -> str | None:
    most = MAX_INT if config.type is ConfigType.INT else MAX_LONG
    if not _INTEGER.fullmatch(value) or not -most - 1 <= int(value) <= most:
        return f"it has to be an integer of type {config.type.value}"
    return _range_fault(config, int(value))


def _double_fault(config: TopicConfig, value: str) -> str | None:
    if not _DOUBLE.fullmatch(value):
        return "it has to be a number"
    return _range_fault(config, float(value))


def _plain(limit: float) -> str:
    """The limit with all its digits."""
    return str(int(limit)) if limit == int(limit) else str(limit)


def _range_fault(config: TopicConfig, number: float) -> str | None:
    if number in config.exceptions:
        return None
    if config.least is not None and not number >= config.least:
        return f"it has to be at least {_plain(config.least)}"
    if config.most is not None and not number <= config.most:
        return f"it has to be at most {_plain(config.most)}"
    return None


def _list_fault(config: TopicConfig, value: str) -> str | None:
    items = [item.strip() for item in value.split(",")] if value else []
    if len(set(items)) < len(items) or "" in items:
        return "items of the list have to be unique and not empty"
    if config.words:
        # No item is valid as well: with an empty cleanup.policy segments are kept for ever, as in Kafka 4.3.
        wrong = [item for item in items if item not in config.words]
        return f"its items have to be among: {', '.join(config.words)}" if wrong else None
    if config.pattern is not None and value != "*":
        wrong = [item for item in items if not config.pattern.fullmatch(item)]
        return "it has to be *, or a list of partition:broker" if wrong else None
    return None


_FAULTS: Mapping[ConfigType, Callable[[TopicConfig, str], str | None]] = {
    ConfigType.BOOLEAN: _boolean_fault,
    ConfigType.STRING: _word_fault,
    ConfigType.INT: _number_fault,
    ConfigType.LONG: _number_fault,
    ConfigType.DOUBLE: _double_fault,
    ConfigType.LIST: _list_fault,
}


def _number(
    kind: ConfigType,
    default: int,
    least: float | None,
    *broker_names: str | tuple[str, int],
    most: float | None = None,
    exceptions: tuple[int, ...] = (),
) -> TopicConfig:
    names = tuple((each, 1) if isinstance(each, str) else each for each in broker_names)
    return TopicConfig(kind, str(default), least, most, exceptions, broker_names=names)


def _switch(*broker_names: str) -> TopicConfig:
    names = tuple((each, 1) for each in broker_names)
    return TopicConfig(ConfigType.BOOLEAN, "false", broker_names=names)


def _words(default: str, broker_name: str, *words: str) -> TopicConfig:
    return TopicConfig(ConfigType.STRING, default, words=words, broker_names=((broker_name, 1),))


_HOUR_MS = 3_600_000
_MINUTE_MS = 60_000
_THROTTLED = TopicConfig(ConfigType.LIST, "", pattern=re.compile(r"\d+:\d+", re.ASCII))
_INT, _LONG = ConfigType.INT, ConfigType.LONG

TOPIC_CONFIGS: Mapping[str, TopicConfig] = {
    "cleanup.policy": TopicConfig(
        ConfigType.LIST,
        "delete",
        words=("compact", "delete"),
        broker_names=(("log.cleanup.policy", 1),),
    ),
    "compression.gzip.level": _number(
        _INT, -1, 1, "compression.gzip.level", most=9, exceptions=(-1,)
    ),
    "compression.lz4.level": _number(_INT, 9, 1, "compression.lz4.level", most=17),
    "compression.type": _words(
        "producer", "compression.type", "uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"
    ),
    "compression.zstd.level": _number(_INT, 3, -131072, "compression.zstd.level", most=22),
    "delete.retention.ms": _number(_LONG, 86_400_000, 0, "log.cleaner.delete.retention.ms"),
    "file.delete.delay.ms": _number(_LONG, 60_000, 0, "log.segment.delete.delay.ms"),
    "flush.messages": _number(_LONG, MAX_LONG, 1, "log.flush.interval.messages"),
    "flush.ms": _number(
        _LONG, MAX_LONG, 0, "log.flush.interval.ms", "log.flush.scheduler.interval.ms"
    ),
    "follower.replication.throttled.replicas": _THROTTLED,
    "index.interval.bytes": _number(_INT, 4096, 0, "log.index.interval.bytes"),
    "internal.segment.bytes": TopicConfig(_INT, None),
    "leader.replication.throttled.replicas": _THROTTLED,
    "local.retention.bytes": _number(_LONG, -2, -2, "log.local.retention.bytes"),
    "local.retention.ms": _number(_LONG, -2, -2, "log.local.retention.ms"),
    "max.compaction.lag.ms": _number(_LONG, MAX_LONG, 1, "log.cleaner.max.compaction.lag.ms"),
    "max.message.bytes": _number(_INT, 1_048_588, 0, "message.max.bytes"),
    "message.timestamp.after.max.ms": _number(
        _LONG, _HOUR_MS, 0, "log.message.timestamp.after.max.ms"
    ),
    "message.timestamp.before.max.ms": _number(
        _LONG, MAX_LONG, 0, "log.message.timestamp.before.max.ms"
    ),
    "message.timestamp.type": _words(
        "CreateTime", "log.message.timestamp.type", "CreateTime", "LogAppendTime"
    ),
    "min.cleanable.dirty.ratio": TopicConfig(
        ConfigType.DOUBLE, "0.5", 0, 1, broker_names=(("log.cleaner.min.cleanable.ratio", 1),)
    ),
    "min.compaction.lag.ms": _number(_LONG, 0, 0, "log.cleaner.min.compaction.lag.ms"),
    "min.insync.replicas": _number(_INT, 1, 1, "min.insync.replicas"),
    "preallocate": _switch("log.preallocate"),
    "remote.log.copy.disable": _switch(),
    "remote.log.delete.on.disable": _switch(),
    "remote.storage.enable": _switch(),
    "retention.bytes": _number(_LONG, -1, None, "log.retention.bytes"),
    "retention.ms": _number(
        _LONG,
        7 * 24 * _HOUR_MS,
        -1,
        "log.retention.ms",
        ("log.retention.minutes", _MINUTE_MS),
        ("log.retention.hours", _HOUR_MS),
    ),
    "segment.bytes": _number(_INT, 1 << 30, 1 << 20, "log.segment.bytes"),
    "segment.index.bytes": _number(_INT, 10 << 20, 4, "log.index.size.max.bytes"),
    "segment.jitter.ms": _number(
        _LONG, 0, 0, "log.roll.jitter.ms", ("log.roll.jitter.hours", _HOUR_MS)
    ),
    "segment.ms": _number(_LONG, 7 * 24 * _HOUR_MS, 1, "log.roll.ms", ("log.roll.hours", _HOUR_MS)),
    "unclean.leader.election.enable": _switch("unclean.leader.election.enable"),
}
"""Every config of a topic, by name."""

INTERNAL = frozenset(("internal.segment.bytes",))
"""Configs for Kafka's own tests; they are not listed."""

BROKER_CONFIGS: Mapping[str, tuple[TopicConfig, int]] = {
    broker_name: (config, factor)
    for config in TOPIC_CONFIGS.values()
    for broker_name, factor in config.broker_names
}
"""Broker configs that are defaults of topic configs, with the conversion factor."""
