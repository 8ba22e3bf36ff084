"""Applies a sequence of records to an image: replay. PURE.

Owns which record changes which part of the image. Topics and configs are changed in place on private copies until
`finish`; the other parts are small and rarely change.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from quorum_node.image.configs import ConfigsChanges
from quorum_node.image.resource_types import TOPIC
from quorum_node.image.topics_changes import TopicsChanges
from quorum_node.records import metadata as md

if TYPE_CHECKING:
    from quorum_node.image.cluster_image import ClusterImage

TAGGED_FIELDS_KEPT = frozenset(
    (
        md.RegisterBrokerRecord,
        md.RegisterControllerRecord,
        md.TopicRecord,
        md.PartitionRecord,
        md.AccessControlEntryRecord,
        md.UserScramCredentialRecord,
        md.DelegationTokenRecord,
        md.NoOpRecord,
        md.BeginTransactionRecord,
        md.EndTransactionRecord,
        md.AbortTransactionRecord,
    )
)
"""Records whose unknown tagged fields the image keeps, or does not need."""


class ImageChanges:
    """Starts from an image and ends with a new one; to be used once."""

    __slots__ = ("_configs", "_handlers", "_image", "_left_out", "_parts", "_topics")

    def __init__(self, image: "ClusterImage") -> None:
        self._image = image
        self._topics: TopicsChanges | None = None
        self._configs: ConfigsChanges | None = None
        self._parts: dict[str, Any] = {}
        """The other changed parts, by field name."""
        self._left_out: set[str] = set()
        self._handlers: dict[type, Callable[[Any], None]] = {}
        """Filled when a record type occurs first: a sequence has few types."""

    @property
    def topics(self) -> TopicsChanges:
        """Created on first use."""
        if self._topics is None:
            self._topics = TopicsChanges(self._image.topics)
        return self._topics

    @property
    def configs(self) -> ConfigsChanges:
        """Created on first use."""
        if self._configs is None:
            self._configs = ConfigsChanges(self._image.configs)
        return self._configs

    def part(self, name: str) -> Any:
        """A part with the changes so far."""
        return self._parts[name] if name in self._parts else getattr(self._image, name)

    def replay(self, record: md.AnyMetadata) -> None:
        """Apply one record. Raises ValueError if it contradicts earlier ones: the log is damaged."""
        if isinstance(record, md.UnknownMetadata):
            name = md.record_type_name(record.type)
            self._left_out.add(f"{name} v{record.version}")
            return
        kind = type(record)
        if record.tagged_fields and kind not in TAGGED_FIELDS_KEPT:
            self._left_out.add(f"{kind.__name__} with fields of a newer version")
        handler = self._handlers.get(kind)
        if handler is None:
            handler = self._handlers[kind] = _HANDLERS[kind](self)
        handler(record)

    def remove_topic(self, record: md.RemoveTopicRecord) -> None:
        """Remove a topic and its configs."""
        name = self.topics.replay_remove(record)
        if name is not None:
            self.configs.remove((TOPIC, name))

    def replace_part(self, name: str, part: Any) -> None:
        """Replace a part."""
        self._parts[name] = part

    def finish(self) -> "ClusterImage":
        """The image with all changes."""
        # They refer to this object. Without this line it and the earlier image would stay in memory until the next garbage collection.
        self._handlers.clear()
        parts = self._parts
        if self._topics is not None:
            parts["topics"] = self._topics.finish()
        if self._configs is not None:
            parts["configs"] = self._configs.finish()
        if self._left_out - self._image.left_out:
            parts["left_out"] = self._image.left_out | self._left_out
        return self._image.with_parts(parts) if parts else self._image


def _in(part: str, method: str) -> Callable[[ImageChanges], Callable[[Any], None]]:
    def handler(changes: ImageChanges) -> Callable[[Any], None]:
        def apply(record: Any) -> None:
            changes.replace_part(part, getattr(changes.part(part), method)(record))

        return apply

    return handler


def _nothing(record: Any) -> None:
    """Records without effect on the image: no-op, transaction boundaries, records of old versions."""


_HANDLERS: dict[type[md.MetadataMessage], Callable[[ImageChanges], Callable[[Any], None]]] = {
    md.FeatureLevelRecord: _in("features", "replay_level"),
    md.RegisterBrokerRecord: _in("brokers", "replay_register"),
    md.UnregisterBrokerRecord: _in("brokers", "replay_unregister"),
    md.FenceBrokerRecord: _in("brokers", "replay_fence"),
    md.UnfenceBrokerRecord: _in("brokers", "replay_fence"),
    md.BrokerRegistrationChangeRecord: _in("brokers", "replay_change"),
    md.RegisterControllerRecord: _in("controllers", "replay_register"),
    md.TopicRecord: lambda changes: changes.topics.replay_topic,
    md.PartitionRecord: lambda changes: changes.topics.replay_partition,
    md.PartitionChangeRecord: lambda changes: changes.topics.replay_change,
    md.ClearElrRecord: lambda changes: changes.topics.replay_clear_elr,
    md.RemoveTopicRecord: lambda changes: changes.remove_topic,
    md.ConfigRecord: lambda changes: changes.configs.replay_config,
    md.ClientQuotaRecord: _in("client_quotas", "replay_quota"),
    md.ProducerIdsRecord: _in("producer_ids", "replay_block"),
    md.AccessControlEntryRecord: _in("acls", "replay_add"),
    md.RemoveAccessControlEntryRecord: _in("acls", "replay_remove"),
    md.UserScramCredentialRecord: _in("scram", "replay_set"),
    md.RemoveUserScramCredentialRecord: _in("scram", "replay_remove"),
    md.DelegationTokenRecord: _in("delegation_tokens", "replay_set"),
    md.RemoveDelegationTokenRecord: _in("delegation_tokens", "replay_remove"),
    md.NoOpRecord: lambda changes: _nothing,
    md.ZkMigrationStateRecord: lambda changes: _nothing,
    md.BeginTransactionRecord: lambda changes: _nothing,
    md.EndTransactionRecord: lambda changes: _nothing,
    md.AbortTransactionRecord: lambda changes: _nothing,
}
