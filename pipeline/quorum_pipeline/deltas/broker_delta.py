"""The effect of a run of records on any registration of a broker. PURE.

A change counts only for the registration of its epoch. Changes before a known registration are kept by epoch: at most
one of them will count. Source: KIP-631, "Broker records".
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from quorum_node.image.brokers import replaced_fields
from quorum_node.records.metadata import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    UnfenceBrokerRecord,
)

Fields = Mapping[str, Any]


def changed_fields(
    record: BrokerRegistrationChangeRecord | FenceBrokerRecord | UnfenceBrokerRecord,
) -> tuple[int, int, dict[str, Any]]:
    """Return broker, epoch, and the fields of a registration that a change replaces."""
    if not isinstance(record, BrokerRegistrationChangeRecord):
        return record.id, record.epoch, {"fenced": isinstance(record, FenceBrokerRecord)}
    return record.broker_id, record.broker_epoch, replaced_fields(record)


@dataclass(frozen=True, slots=True)
class BrokerDelta:
    """The effect on one broker. `sets_registration`: the broker was registered (`registration`) or unregistered (None); otherwise `changes`, by
    the epoch that they apply to."""

    sets_registration: bool = False
    registration: RegisterBrokerRecord | None = None
    changes: Mapping[int, Fields] = field(default_factory=dict)

    def changed(self, epoch: int, fields: Fields) -> "BrokerDelta":
        """Return the delta with one more change."""
        if not fields:
            return self
        if not self.sets_registration:
            known = {**self.changes.get(epoch, {}), **fields}
            return BrokerDelta(changes={**self.changes, epoch: known})
        registration = self.registration
        if registration is None or registration.broker_epoch != epoch:
            return self
        return BrokerDelta(sets_registration=True, registration=replace(registration, **fields))

    def then(self, other: "BrokerDelta") -> "BrokerDelta":
        """Return the composition of both."""
        if other.sets_registration:
            return other
        found = self
        for epoch, fields in other.changes.items():
            found = found.changed(epoch, fields)
        return found
