"""Annotations of the planner's model that a person forges: on StatefulSets, on their claims, or on both.

Owns what may be written. The model itself stays as it is: its disks say which replica is where.
"""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from quorum_node.records.identity import parse_uuid
from quorum_node.survivor import Survivor
from quorum_operator.planner import step as steps
from quorum_operator.planner.observed import FailureLatch
from quorum_operator.planner.situation import FENCED
from support.model_rules import Unsafe
from support.modelled_pods import Set
from support.recovery_model import RecoveryModel

_NOBODY = "u" + 20 * "9" + "A"
_CIRCUMSTANCES = ("HostDeleted", "VolumeNotMounted", "PodCannotStart")


class ForgedModel(RecoveryModel):
    """A forged failure may be written on, and a forged mark may stop what is no voter."""

    def apply(self, step: steps.Step) -> None:
        if isinstance(step, steps.Unlatch):
            each = self.sets[step.target.name]
            each.failed = each.failed or each.disk.marks.failed
        super().apply(step)

    def _check_latch(self, each: Set) -> None:
        """A failure that was forged on a claim is restored on its StatefulSet."""

    def _check_stop(self, each: Set) -> None:
        if self.leader is None and not self._begun():
            raise Unsafe(f"{each.name} is stopped without a confirmed describe")


class Forger:
    """Draws what is forged, and where."""

    def __init__(self, model: RecoveryModel, rng: random.Random) -> None:
        self._model, self._rng = model, rng

    def forge(self) -> str:
        """Write one annotation that is wrong. Returns what was done."""
        kinds: tuple[Callable[[Set], Any], ...] = (
            *(self._uuid, self._swapped, self._stopped, self._failed),
            *(self._stripped, self._recovery, self._foreign, self._misled),
        )
        each, kind = self._rng.choice(list(self._model.sets.values())), self._rng.choice(kinds)
        kind(each)
        return f"{kind.__name__} on {each.name}"

    def _write(self, each: Set, on_set: dict[str, Any], on_claim: dict[str, Any]) -> None:
        place = self._rng.choice(("set", "claim", "both"))
        each.version += 1
        if place != "claim":
            for name, value in on_set.items():
                setattr(each, name, value)
        if place != "set":
            each.disk.marks = replace(each.disk.marks, **on_claim)

    def _uuid(self, each: Set) -> None:
        there = [one.disk.uuid for one in self._model.sets.values()]
        uuid = self._rng.choice([*there, None, _NOBODY])
        self._write(each, {"uuid": uuid}, {"uuid": uuid})

    def _swapped(self, _: Set) -> None:
        members = [one for one in self._model.sets.values() if one.replicas]
        uuids = [one.uuid for one in members]
        self._rng.shuffle(uuids)
        on_claims = self._rng.random() < 0.5
        for one, uuid in zip(members, uuids, strict=True):
            one.uuid, one.version = uuid, one.version + 1
            if on_claims:
                one.disk.marks = replace(one.disk.marks, uuid=uuid)

    def _stopped(self, each: Set) -> None:
        text = self._rng.choice(["by hand", f"{FENCED}: {22 * 'A'}:1:1"])
        name = "fenced" if text.startswith(FENCED) else "removed"
        self._write(each, {"stopped": text}, {name: text})

    def _failed(self, each: Set) -> None:
        now = self._model.now
        at = self._rng.choice([1.0, now, now + 1e6])
        latch = FailureLatch(self._rng.choice(_CIRCUMSTANCES), "forged", at, 1.0)
        self._write(each, {"failed": latch}, {"failed": latch})

    def _stripped(self, each: Set) -> None:
        nothing = dict.fromkeys(("uuid", "failed", "stopped"))
        on_claim = dict.fromkeys(("uuid", "failed", "fenced", "removed"))
        self._write(each, nothing, on_claim)

    def _recovery(self, each: Set) -> None:
        if each.disk.uuid is None:
            return
        end = self._rng.choice([1, self._model.held.get(each.name, 0)])
        survivor = Survivor(parse_uuid(each.disk.uuid), self._model.epoch, end)
        self._write(each, {"recovery": survivor, "given_up": False}, {"recovery": str(survivor)})

    def _foreign(self, each: Set) -> None:
        marks = ({"cluster_id": "other"}, {"resource_uid": "other"}, {"formation": 7})
        self._write(each, {}, self._rng.choice(marks))

    def _misled(self, each: Set) -> None:
        future = [self._model.now + 1e9] * 70
        forged = {"unlatched_at": future, "replaces": each.number, "template": "?"}
        self._write(each, forged, {})
