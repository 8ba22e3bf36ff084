"""What the configuration of a topic means for its replicas here.

Owns the way from texts to values; what can't be read counts as the default. Must not know requests.
"""

from collections.abc import Mapping

from quorum_node.broker.produced_batch import BatchLimits
from quorum_node.broker.settings import PartitionSettings
from quorum_node.controller.topic_settings import broker_layers, effective
from quorum_node.image.configs import ConfigsImage
from quorum_node.image.resource_types import TOPIC
from quorum_node.storage.broker.log_settings import LogSettings

_LOG_NUMBERS = {
    "segment_bytes": "segment.bytes",
    "segment_ms": "segment.ms",
    "segment_index_bytes": "segment.index.bytes",
    "index_interval_bytes": "index.interval.bytes",
    "retention_ms": "retention.ms",
    "retention_bytes": "retention.bytes",
    "file_delete_delay_ms": "file.delete.delay.ms",
}


class TopicValues:
    """`static`: defaults of topics that this broker was started with, by the brokers' names."""

    def __init__(self, broker_id: int, static: Mapping[str, str], lag_time_max_ms: int) -> None:
        self._broker_id = broker_id
        self._static = static
        self._lag_time_max_ms = lag_time_max_ms

    def texts(self, configs: ConfigsImage, topic: str, names: tuple[str, ...]) -> dict[str, str]:
        """Effective values of some configs of a topic, without those that have none."""
        layers = broker_layers(configs, self._broker_id, self._static)
        own = configs.of(TOPIC, topic)
        found = ((name, effective(layers, name, own).value) for name in names)
        return {name: value for name, value in found if value is not None}

    def settings(self, configs: ConfigsImage, topic: str) -> PartitionSettings:
        """For replication."""
        texts = self.texts(configs, topic, ("min.insync.replicas",))
        return PartitionSettings(
            min_insync_replicas=_number(texts, "min.insync.replicas", 1),
            replica_lag_time_max_ms=self._lag_time_max_ms,
        )

    def log_settings(self, configs: ConfigsImage, topic: str) -> LogSettings:
        """For the files of a log."""
        texts = self.texts(configs, topic, tuple(_LOG_NUMBERS.values()))
        policy = self.texts(configs, topic, ("cleanup.policy",)).get("cleanup.policy", "delete")
        policies = {each.strip() for each in policy.split(",")}
        defaults = LogSettings()
        numbers = {
            field: _number(texts, name, getattr(defaults, field))
            for field, name in _LOG_NUMBERS.items()
        }
        return LogSettings(**numbers, deletes="delete" in policies, compacts="compact" in policies)

    def limits(self, configs: ConfigsImage, topic: str) -> BatchLimits:
        """For what producers send."""
        texts = self.texts(configs, topic, ("max.message.bytes", "segment.bytes"))
        limits = BatchLimits()
        return BatchLimits(
            _number(texts, "max.message.bytes", limits.max_message_bytes),
            _number(texts, "segment.bytes", limits.segment_bytes),
        )


def _number(texts: Mapping[str, str], name: str, default: int) -> int:
    try:
        return int(texts.get(name, default))
    except ValueError:
        return default
