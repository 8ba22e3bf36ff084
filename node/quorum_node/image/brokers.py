"""Registered brokers and controllers. PURE.

A registration is stored as its record, in the newest form. Later changes are merged into it, so tagged fields of
newer versions are kept.
Source: KIP-631, "Broker records"; KIP-919.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from immutables import Map

from quorum_node.records.metadata import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    MetadataMessage,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from quorum_node.records.metadata.metadata_version import (
    CONTROLLER_REGISTRATION_LEVEL,
    CORDONED_DIRECTORIES_LEVEL,
    DIRECTORIES_LEVEL,
)


@dataclass(frozen=True, slots=True)
class BrokersImage:
    """Broker id → registration."""

    by_id: Map[int, RegisterBrokerRecord] = Map()

    def get(self, broker_id: int) -> RegisterBrokerRecord | None:
        """The registration, or None."""
        return self.by_id.get(broker_id)

    def is_active(self, broker_id: int) -> bool:
        """Whether a broker is registered, not fenced and not shutting down, so that it can be leader and in an ISR."""
        broker = self.by_id.get(broker_id)
        return broker is not None and not broker.fenced and not broker.in_controlled_shutdown

    def replay_register(self, record: RegisterBrokerRecord) -> "BrokersImage":
        """Add or replace a registration."""
        return BrokersImage(self.by_id.set(record.broker_id, record))

    def replay_unregister(self, record: UnregisterBrokerRecord) -> "BrokersImage":
        """Remove a registration."""
        if record.broker_id not in self.by_id:
            return self
        return BrokersImage(self.by_id.delete(record.broker_id))

    def replay_fence(self, record: FenceBrokerRecord | UnfenceBrokerRecord) -> "BrokersImage":
        """Apply the older form of a change."""
        return self._changed(record.id, record.epoch, fenced=isinstance(record, FenceBrokerRecord))

    def replay_change(self, record: BrokerRegistrationChangeRecord) -> "BrokersImage":
        """Apply a change. Fields that the record leaves out keep their value."""
        return self._changed(record.broker_id, record.broker_epoch, **replaced_fields(record))

    def _changed(self, broker_id: int, epoch: int, **changes: Any) -> "BrokersImage":
        """Apply a change. With another epoch it refers to an earlier registration and is ignored."""
        broker = self.by_id.get(broker_id)
        if broker is None or broker.broker_epoch != epoch or not changes:
            return self
        return BrokersImage(self.by_id.set(broker_id, replace(broker, **changes)))

    def snapshot_records(self, metadata_version: int) -> Iterator[MetadataMessage]:
        """One record for each, without fields that the level does not support."""
        for broker_id in sorted(self.by_id):
            broker = self.by_id[broker_id]
            if metadata_version < DIRECTORIES_LEVEL and broker.log_dirs:
                broker = replace(broker, log_dirs=())
            if metadata_version < CORDONED_DIRECTORIES_LEVEL:
                broker = replace(broker, cordoned_log_dirs=None)
            yield broker


@dataclass(frozen=True, slots=True)
class ControllersImage:
    """Controller id → registration. A controller is never unregistered."""

    by_id: Map[int, RegisterControllerRecord] = Map()

    def get(self, controller_id: int) -> RegisterControllerRecord | None:
        """The registration, or None."""
        return self.by_id.get(controller_id)

    def replay_register(self, record: RegisterControllerRecord) -> "ControllersImage":
        """Add or replace a registration."""
        return ControllersImage(self.by_id.set(record.controller_id, record))

    def snapshot_records(self, metadata_version: int) -> Iterator[MetadataMessage]:
        """One record for each, if the level supports them."""
        if metadata_version < CONTROLLER_REGISTRATION_LEVEL:
            return
        for controller_id in sorted(self.by_id):
            yield self.by_id[controller_id]


def replaced_fields(record: BrokerRegistrationChangeRecord) -> dict[str, Any]:
    """The fields of a registration that a change replaces, with their new values."""
    found: dict[str, Any] = {}
    if record.fenced:
        found["fenced"] = record.fenced > 0
    if record.in_controlled_shutdown:
        found["in_controlled_shutdown"] = True
    if record.log_dirs:
        found["log_dirs"] = record.log_dirs
    if record.cordoned_log_dirs is not None:
        found["cordoned_log_dirs"] = record.cordoned_log_dirs
    return found
