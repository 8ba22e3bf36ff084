"""A run of records as deltas, separated by records that depend on an earlier topic name. PURE.

Owns ClearElr records that name a topic whose id may be defined before the run. The run is split there, and the parts
are joined once the name is known. Source: KIP-966, "ClearElrRecord".
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from quorum_node.image.changes import TAGGED_FIELDS_KEPT
from quorum_node.image.quotas import entity_of
from quorum_node.records import metadata as md
from quorum_pipeline.deltas.broker_delta import BrokerDelta, changed_fields
from quorum_pipeline.deltas.delta import Delta
from quorum_pipeline.deltas.partition_change import change_of


@dataclass(slots=True)
class Chain:
    """Deltas; between two of them there is the name of a topic whose eligible leader replicas are cleared there."""

    deltas: list[Delta] = field(default_factory=lambda: [Delta()])
    names: list[str] = field(default_factory=list)

    def replay(self, offset: int, record: md.AnyMetadata) -> None:
        """Add the next record, which is not a transaction boundary."""
        delta = self.deltas[-1]
        if isinstance(record, md.UnknownMetadata):
            delta.left_out.add(f"{md.record_type_name(record.type)} v{record.version}")
            return
        kind = type(record)
        if record.tagged_fields and kind not in TAGGED_FIELDS_KEPT:
            delta.left_out.add(f"{kind.__name__} with fields of a newer version")
        if isinstance(record, md.ClearElrRecord) and record.topic_name:
            self.clear_named(record.topic_name)
        else:
            _HANDLERS[kind](delta, offset, record)

    def clear_named(self, name: str) -> None:
        """Clear the eligible leader replicas of the topic with this name, if there is one."""
        for index in range(len(self.deltas) - 1, -1, -1):
            if name in self.deltas[index].named:
                number = self.deltas[index].holder(name)
                gone = any(number in later.topics for later in self.deltas[index + 1 :])
                if number is not None and not gone:
                    self.deltas[-1].clear_elr(number)
                return
        self.names.append(name)
        self.deltas.append(Delta())

    def then(self, other: "Chain") -> "Chain":
        """Append `other` in place; `other` must not be used any more."""
        self.deltas[-1].then(other.deltas[0])
        for name, delta in zip(other.names, other.deltas[1:], strict=True):
            self.clear_named(name)
            self.deltas[-1].then(delta)
        return self

    def reported_at(self, offset: int) -> "Chain":
        """See `Delta.reported_at`."""
        for delta in self.deltas:
            delta.reported_at(offset)
        return self

    def finish(self) -> Delta:
        """Complete the chain at the beginning of the history: unknown names belong to no topic."""
        first, *others = self.deltas
        for delta in others:
            first.then(delta)
        self.deltas, self.names = [first], []
        first.finish()
        return first


Handler = Callable[[Delta, int, Any], None]


def _change(delta: Delta, offset: int, record: md.PartitionChangeRecord) -> None:
    change, wrong = change_of(record, offset)
    delta.replay_change(offset, record.topic_id.int, record.partition_id, change)
    delta.fail(wrong, "directories for another number of replicas")


def _config(delta: Delta, offset: int, record: md.ConfigRecord) -> None:
    key = (record.resource_type, record.resource_name, record.name)
    delta.configs[key] = (offset, record.value)


def _register(delta: Delta, offset: int, record: md.RegisterBrokerRecord) -> None:
    delta.brokers[record.broker_id] = BrokerDelta(sets_registration=True, registration=record)


def _unregister(delta: Delta, offset: int, record: md.UnregisterBrokerRecord) -> None:
    delta.brokers[record.broker_id] = BrokerDelta(sets_registration=True)


def _broker_change(delta: Delta, offset: int, record: Any) -> None:
    broker_id, epoch, fields = changed_fields(record)
    if fields:
        before = delta.brokers.get(broker_id, BrokerDelta())
        delta.brokers[broker_id] = before.changed(epoch, fields)


def _put(kind: str, key: Callable[[Any], tuple[Any, ...]], there: Callable[[Any], bool]) -> Handler:
    def handler(delta: Delta, offset: int, record: Any) -> None:
        delta.puts[(kind, *key(record))] = record if there(record) else None

    return handler


def _yes(record: object) -> bool:
    return True


def _no(record: object) -> bool:
    return False


def _nothing(delta: Delta, offset: int, record: object) -> None:
    """Ignore a record that only moves the high watermark, or is obsolete."""


FEATURE, CONTROLLER, QUOTA, PRODUCER_IDS = "feature", "controller", "quota", "producer ids"
ACL, SCRAM, TOKEN = "acl", "scram", "token"
_HANDLERS: dict[type[md.MetadataMessage], Handler] = {
    md.TopicRecord: Delta.replay_topic,
    md.RemoveTopicRecord: Delta.replay_remove,
    md.PartitionRecord: Delta.replay_partition,
    md.PartitionChangeRecord: _change,
    md.ClearElrRecord: lambda delta, offset, record: delta.clear_all_elr(),
    md.ConfigRecord: _config,
    md.RegisterBrokerRecord: _register,
    md.UnregisterBrokerRecord: _unregister,
    md.FenceBrokerRecord: _broker_change,
    md.UnfenceBrokerRecord: _broker_change,
    md.BrokerRegistrationChangeRecord: _broker_change,
    md.FeatureLevelRecord: _put(
        FEATURE, lambda each: (each.name,), lambda each: each.feature_level
    ),
    md.RegisterControllerRecord: _put(CONTROLLER, lambda each: (each.controller_id,), _yes),
    md.ClientQuotaRecord: _put(
        QUOTA, lambda each: (entity_of(each), each.key), lambda each: not each.remove
    ),
    md.ProducerIdsRecord: _put(PRODUCER_IDS, lambda each: (), _yes),
    md.AccessControlEntryRecord: _put(ACL, lambda each: (each.id,), _yes),
    md.RemoveAccessControlEntryRecord: _put(ACL, lambda each: (each.id,), _no),
    md.UserScramCredentialRecord: _put(SCRAM, lambda each: (each.mechanism, each.name), _yes),
    md.RemoveUserScramCredentialRecord: _put(SCRAM, lambda each: (each.mechanism, each.name), _no),
    md.DelegationTokenRecord: _put(TOKEN, lambda each: (each.token_id,), _yes),
    md.RemoveDelegationTokenRecord: _put(TOKEN, lambda each: (each.token_id,), _no),
    md.NoOpRecord: _nothing,
    md.ZkMigrationStateRecord: _nothing,
}
