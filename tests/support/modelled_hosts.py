"""Hosts of the planner's model that fail and come back, and labels that are edited.

Owns what Kubernetes does with the pods of an unreachable host: they stay as they are, or `Terminating`, until the host is back. No
process starts or ends there meanwhile, and a volume that is bound to the host waits, too.
"""

import math
import random
from dataclasses import replace

from quorum_operator.planner import step as steps
from quorum_operator.planner.object_facts import LabelDrift
from quorum_operator.planner.observed import HostFacts, Incarnation, Key, Observation, Wanted
from quorum_operator.planner.situation import Situation, Why
from support.model_rules import Unsafe
from support.modelled_pods import Set
from support.quorum_model import Model


class HostModel(Model):
    """`away`: names of the StatefulSets whose host is not ready; `zone_is_away`: so are all of their zone."""

    def __init__(self, rng: random.Random, wanted: Wanted) -> None:
        super().__init__(rng, wanted)
        self.away: set[str] = set()
        self.zone_is_away = False
        self.unreachable: dict[str, float] = {}
        self.edited: set[str] = set()

    def leave(self, each: Set) -> None:
        """Its host loses power, or its network."""
        self.away.add(each.name)

    def come_back(self, name: str) -> None:
        """The host comes back with all its data."""
        self.away.discard(name)
        each = self.sets.get(name)
        if each is not None and each.pod is not None and each.pod.gone_at is not None:
            each.pod.gone_at = self.now

    def runs(self, each: Set) -> bool:
        return each.name not in self.away and super().runs(each)

    def observe(self) -> Observation:
        drift = tuple(
            LabelDrift("Pod", f"{name}-0", f"uid-{name}", (("a", "b"),))
            for name in sorted(self.edited)
        )
        seen = replace(super().observe(), label_drift=drift)
        at = Situation(seen)
        found = at.reachability.unreachable
        self.unreachable = {name: math.ceil(each.since) for name, each in found.items()}
        replaced = [each for each in at.leaving if each.why is Why.UNREACHABLE]
        if len(replaced) > 1 or (replaced and self.zone_is_away):
            raise Unsafe(f"replaced for their hosts at once: {replaced}")
        return seen

    def apply(self, step: steps.Step) -> None:
        if isinstance(step, steps.RestoreLabels):
            self.steps.append(step)
            self.edited.clear()
        else:
            super().apply(step)

    def _control(self, each: Set) -> None:
        if each.name not in self.away:
            super()._control(each)

    def _run_process(self, each: Set) -> None:
        if each.name not in self.away:
            super()._run_process(each)

    def _write_set(self, step: steps.Step) -> None:
        name = step.target.name  # type: ignore[union-attr]
        each = self.sets.get(name)
        pod = each.pod if each is not None else None
        super()._write_set(step)
        if each is not None and pod is not None and each.pod is None and name in self.away:
            each.pod, pod.gone_at = pod, math.inf

    def _incarnation(self, each: Set) -> Incarnation:
        host = HostFacts(f"h-{each.name}", exists=True, ready=True, zone="z")
        if each.name in self.away:
            host = replace(host, ready=False, zone_is_away=self.zone_is_away)
        since = self.unreachable.get(each.name)
        return replace(super()._incarnation(each), host=host, unreachable_since=since)

    def _observe(self) -> Observation:
        """The leader gets no requests from an unreachable member, whatever the state of its pod."""
        seen = super()._observe()
        if seen.view is None:
            return seen
        voters = tuple(
            replace(each, fetching=False, caught_up=False) if self._is_away(each.key) else each
            for each in seen.view.voters
        )
        return replace(seen, view=replace(seen.view, voters=voters))

    def _is_away(self, key: Key) -> bool:
        each = self.set_of(key)
        return each is not None and each.name in self.away
