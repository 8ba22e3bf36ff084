"""The configuration values of topics that the local replicas use.

Owns parsing; an invalid value counts as the default.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from quorum_node.broker.produced_batch import BatchLimits
from quorum_node.broker.replication_quota import NOT_THROTTLED, Throttled, is_listed
from quorum_node.broker.settings import PartitionSettings
from quorum_node.configuration.broker_config import cordoned_paths
from quorum_node.controller.topic_settings import ALL_BROKERS, broker_layers, effective
from quorum_node.image.configs import ConfigsImage
from quorum_node.image.resource_types import BROKER, TOPIC
from quorum_node.server.broker.data_log import CompactionLimits
from quorum_node.storage.broker.codecs import GZIP, LZ4, NONE, SNAPPY, ZSTD
from quorum_node.storage.broker.log_settings import NEVER, LogSettings

DEDUPE_BUFFER_BYTES = 128 << 20
BACKOFF_MS = 15_000
_LOG_NUMBERS = {
    "segment_bytes": "segment.bytes",
    "segment_ms": "segment.ms",
    "segment_index_bytes": "segment.index.bytes",
    "index_interval_bytes": "index.interval.bytes",
    "retention_ms": "retention.ms",
    "retention_bytes": "retention.bytes",
    "file_delete_delay_ms": "file.delete.delay.ms",
    "delete_retention_ms": "delete.retention.ms",
    "min_compaction_lag_ms": "min.compaction.lag.ms",
    "max_compaction_lag_ms": "max.compaction.lag.ms",
    "flush_messages": "flush.messages",
    "flush_ms": "flush.ms",
}
_BATCH_CONFIGS = (
    "max.message.bytes",
    "segment.bytes",
    "cleanup.policy",
    "message.timestamp.type",
    "message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms",
    "compression.type",
    "compression.gzip.level",
    "compression.zstd.level",
)
_OF_PRODUCER = "producer"
_CODECS = {"uncompressed": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}
_NO_LEVEL = -1
"""The gzip level that stands for the library's default, as in a stock broker."""
_NO_LIMIT = 1e300
"""Limits from this value on mean no limit: the default is Java's largest double."""
_OF_LEADERS = "leader.replication.throttled.replicas"
_OF_FOLLOWERS = "follower.replication.throttled.replicas"
_RATES = (
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
)
_EXPIRATION = "producer.id.expiration.ms"
_CORDONED = "cordoned.log.dirs"
_RATIO = "min.cleanable.dirty.ratio"


@dataclass(frozen=True, slots=True)
class CleanerValues:
    """The dynamic broker configs of compaction: `log.cleaner.enable`, `.backoff.ms`, `.io.max.bytes.per.second`, `.dedupe.buffer.size`."""

    is_enabled: bool
    backoff_ms: int
    limits: CompactionLimits


@dataclass(frozen=True, slots=True)
class ThrottleRates:
    """Bytes per second of throttled leaders, throttled followers and moves between log directories; None: no limit."""

    leader: float | None = None
    follower: float | None = None
    moves: float | None = None


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """All settings of a topic."""

    replication: PartitionSettings
    limits: BatchLimits
    log: LogSettings


class TopicValues:
    """Computes effective values. `static`: this broker's configuration: topic defaults under their broker keys, and the keys of `broker.DYNAMIC`."""

    def __init__(
        self,
        broker_id: int,
        static: Mapping[str, str],
        lag_time_max_ms: int,
        lag_max_bytes: int | None = None,
    ) -> None:
        self._lag_max_bytes = lag_max_bytes
        self._broker_id = broker_id
        self._static = static
        self._lag_time_max_ms = lag_time_max_ms

    @property
    def sync_check_ms(self) -> int:
        """`log.flush.scheduler.interval.ms`: interval of the check for logs to sync by flush.ms. It is static, as in a stock broker."""
        return _number(self._static, "log.flush.scheduler.interval.ms", NEVER)

    def are_same(self, before: ConfigsImage, after: ConfigsImage, topic: str) -> bool:
        """Whether no value of the topic can differ between the two."""
        broker = str(self._broker_id)
        resources = (TOPIC, topic), (BROKER, broker), (BROKER, ALL_BROKERS)
        return all(before.of(*each) == after.of(*each) for each in resources)

    def of_topic(self, configs: ConfigsImage, topic: str) -> TopicSettings:
        """All settings of a topic."""
        return TopicSettings(
            self.settings(configs, topic),
            self.limits(configs, topic),
            self.log_settings(configs, topic),
        )

    def texts(self, configs: ConfigsImage, topic: str, names: tuple[str, ...]) -> dict[str, str]:
        """Effective values of some configs of a topic; configs without a value are left out."""
        layers = broker_layers(configs, self._broker_id, self._static)
        own = configs.of(TOPIC, topic)
        found = ((name, effective(layers, name, own).value) for name in names)
        return {name: value for name, value in found if value is not None}

    def settings(self, configs: ConfigsImage, topic: str) -> PartitionSettings:
        """The settings of replication."""
        texts = self.texts(configs, topic, ("min.insync.replicas",))
        return PartitionSettings(
            min_insync_replicas=_number(texts, "min.insync.replicas", 1),
            replica_lag_time_max_ms=self._lag_time_max_ms,
            replica_lag_max_bytes=self._lag_max_bytes,
        )

    def log_settings(self, configs: ConfigsImage, topic: str) -> LogSettings:
        """The settings of the log's files."""
        names = (*_LOG_NUMBERS.values(), "cleanup.policy", _RATIO)
        texts = self.texts(configs, topic, names)
        policies = _policies(texts)
        defaults = LogSettings()
        numbers = {
            field: _number(texts, name, getattr(defaults, field))
            for field, name in _LOG_NUMBERS.items()
        }
        if "compact" in policies:
            # Only closed segments can be compacted, so segments are rolled within the maximum compaction lag, as in a stock broker.
            numbers["segment_ms"] = min(numbers["segment_ms"], numbers["max_compaction_lag_ms"])
        broker = broker_layers(configs, self._broker_id, self._static)
        found = next(
            (each.values[_EXPIRATION] for each in broker if _EXPIRATION in each.values), None
        )
        own = {} if found is None else {_EXPIRATION: found}
        return LogSettings(
            **numbers,
            producer_id_expiration_ms=_number(own, _EXPIRATION, defaults.producer_id_expiration_ms),
            deletes="delete" in policies,
            compacts="compact" in policies,
            min_cleanable_dirty_ratio=_fraction(texts, _RATIO, defaults.min_cleanable_dirty_ratio),
        )

    def limits(self, configs: ConfigsImage, topic: str) -> BatchLimits:
        """The limits of batches from producers."""
        texts = self.texts(configs, topic, _BATCH_CONFIGS)
        limits = BatchLimits()
        compression = texts.get("compression.type", _OF_PRODUCER)
        level = _number(texts, f"compression.{compression}.level", _NO_LEVEL)
        return BatchLimits(
            _number(texts, "max.message.bytes", limits.max_message_bytes),
            _number(texts, "segment.bytes", limits.segment_bytes),
            needs_keys="compact" in _policies(texts),
            takes_append_time=texts.get("message.timestamp.type") == "LogAppendTime",
            timestamp_before_max_ms=_number(
                texts, "message.timestamp.before.max.ms", limits.timestamp_before_max_ms
            ),
            timestamp_after_max_ms=_number(
                texts, "message.timestamp.after.max.ms", limits.timestamp_after_max_ms
            ),
            codec=_CODECS.get(compression),
            codec_level=None if level == _NO_LEVEL else level,
        )

    def throttled(self, configs: ConfigsImage, topic: str, partition_id: int) -> Throttled:
        """Whether this broker's replica of the partition is throttled."""
        texts = self.texts(configs, topic, (_OF_LEADERS, _OF_FOLLOWERS))
        as_leader, as_follower = (
            is_listed(texts.get(name, ""), partition_id, self._broker_id)
            for name in (_OF_LEADERS, _OF_FOLLOWERS)
        )
        return Throttled(as_leader, as_follower) if as_leader or as_follower else NOT_THROTTLED

    def rates(self, configs: ConfigsImage) -> ThrottleRates:
        """The rates of throttled replication."""
        texts = self._of_broker(configs)
        return ThrottleRates(*(_rate(texts, name) for name in _RATES))

    def _of_broker(self, configs: ConfigsImage) -> dict[str, str]:
        texts: dict[str, str] = {}
        for layer in reversed(broker_layers(configs, self._broker_id, self._static)):
            texts.update(layer.values)
        return texts

    def cordoned(self, configs: ConfigsImage) -> tuple[str, ...]:
        """`cordoned.log.dirs`: see `cordoned_paths`. Only the configs of this broker count, not those of all brokers, as in a stock one."""
        own = configs.of(BROKER, str(self._broker_id))
        return cordoned_paths(own.get(_CORDONED, self._static.get(_CORDONED, "")))

    def cleaner(self, configs: ConfigsImage) -> CleanerValues:
        """The settings of compaction."""
        texts = self._of_broker(configs)
        limit = _fraction(texts, "log.cleaner.io.max.bytes.per.second", float("inf"))
        return CleanerValues(
            texts.get("log.cleaner.enable", "true").strip().lower() != "false",
            _number(texts, "log.cleaner.backoff.ms", BACKOFF_MS),
            CompactionLimits(
                limit if 0 < limit < _NO_LIMIT else None,
                _number(texts, "log.cleaner.dedupe.buffer.size", DEDUPE_BUFFER_BYTES),
            ),
        )


def _policies(texts: Mapping[str, str]) -> set[str]:
    return {each.strip() for each in texts.get("cleanup.policy", "delete").split(",")}


def _fraction(texts: Mapping[str, str], name: str, default: float) -> float:
    try:
        return float(texts.get(name, default))
    except ValueError:
        return default


def _rate(texts: Mapping[str, str], name: str) -> float | None:
    """The default is Java's largest long. Rates that are not positive mean no limit, as only the tools' checks refuse them."""
    rate = _number(texts, name, 0)
    return float(rate) if 0 < rate < 2**63 - 1 else None


def _number(texts: Mapping[str, str], name: str, default: int) -> int:
    try:
        return int(texts.get(name, default))
    except ValueError:
        return default
