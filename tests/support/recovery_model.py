"""The planner's model, extended for a recovery from one survivor: logs of different lengths, the time without a leader, and the node's
`--recover` with its refusals.

At the moment of the rewrite it checks that no process of another member is running, and that none will be started again.
"""

import random
from collections.abc import Callable
from dataclasses import replace

from quorum_node.records.identity import uuid_text
from quorum_node.survivor import parse_survivor
from quorum_operator.planner import step as steps
from quorum_operator.planner.observed import HeldLog, Key, NodeReport, Observation, Wanted
from quorum_operator.planner.situation import FENCED
from support.model_rules import Unsafe, majority
from support.modelled_pods import Set
from support.quorum_model import STORAGE, Model

EPOCH_DISTANCE = 1 << 16
_REFUSED = 65


class RecoveryModel(Model):
    """Every log is a prefix of one history; `held` is the end of a member's log."""

    def __init__(self, rng: random.Random, wanted: Wanted) -> None:
        super().__init__(rng, wanted)
        self.held: dict[str, int] = {}
        self.recovered = 0
        self.refused = 0
        self.unconfirmed_since: float | None = None

    def tick(self, seconds: float) -> None:
        """As in any other quorum; records are written while there is a majority."""
        super().tick(seconds)
        for each in self.sets.values():
            self._recover(each)
        if self.has_quorum():
            self.offset += self.rng.choice([0, 0, 1, 3])
            for each in self.sets.values():
                # A voter may be a little behind, if a majority has acknowledged.
                if (
                    each.formation == self.index
                    and self.runs(each)
                    and each.caught_up_at is not None
                ):
                    self.held[each.name] = self.offset
        if self._view() is not None:
            self.unconfirmed_since = None
        elif self.unconfirmed_since is None:
            self.unconfirmed_since = self.now

    def _control(self, each: Set) -> None:
        """A deleted pod exists for a while."""
        pod = each.pod
        if each.replicas or pod is None or pod.gone_at is None or self.now >= pod.gone_at:
            super()._control(each)

    def _recover(self, each: Set) -> None:
        """The node's recovery at its start."""
        pod, requested = each.pod, each.pod.recover if each.pod is not None else None
        if pod is None or requested is None or self.now < pod.up_at or each.disk.state != "ok":
            return
        recovered = uuid_text(requested.recovered_uuid)
        if each.disk.uuid == recovered:
            return
        here = (each.disk.uuid, self.held.get(each.name, 0))
        others = [one for one in self.sets.values() if one is not each]
        reached = 1 + sum(1 for one in others if self.runs(one) and self._is_voter(one))
        if here != (uuid_text(requested.uuid), requested.end_offset) or self._is_majority(reached):
            pod.exit_code = _REFUSED
            self.refused += 1
            return
        if any(one.pod is not None or one.replicas for one in others):
            raise Unsafe(f"{each.name} becomes the sole voter beside a member that is not out")
        each.disk.uuid = recovered
        self.voters[self.index] = [Key(each.node_id, recovered)]
        self.epoch, self.offset, self.leader = (
            self.epoch + EPOCH_DISTANCE,
            requested.end_offset + 2,
            None,
        )
        self.held[each.name] = self.offset
        self.recovered += 1

    def _is_voter(self, each: Set) -> bool:
        return Key(each.node_id, each.disk.uuid or "") in self.current_voters()

    def _is_majority(self, count: int) -> bool:
        return count >= majority(len(self.current_voters()))

    def _observe(self) -> Observation:
        """Includes the time since when there is no leader."""
        return replace(super()._observe(), unconfirmed_since=self.unconfirmed_since)

    def _report(self, each: Set, uuid: str, formed: bool) -> NodeReport:
        held = self.held.get(each.name, 0)
        voters = frozenset(self.voters.get(each.formation, []) if held else [])
        log = HeldLog(self.epoch, held, held, self.epoch, voters)
        return NodeReport(uuid, f"c{each.formation}", "follower", formed, True, "ok", None, log)

    def _begun(self) -> bool:
        return any(each.asked is not None for each in self.sets.values())

    def _check_hands_off(self, step: steps.Step) -> None:
        if isinstance(step, steps.BeginRecovery):
            self._check_confirmed(step.survivor)
        elif not (self._begun() and isinstance(step, steps.ScaleToZero | steps.RestartMember)):
            super()._check_hands_off(step)

    def _check_confirmed(self, survivor: str) -> None:
        reported = self.wanted.recovery
        if (
            reported is None
            or f"{reported.uuid}:{reported.epoch}:{reported.end_offset}" != survivor
        ):
            raise Unsafe(f"a recovery from {survivor}, which was not confirmed")
        held = [self.held.get(each.name, 0) for each in self.sets.values() if self.runs(each)]
        if reported.end_offset < max(held, default=0):
            raise Unsafe(f"a recovery from {survivor}, although one has {max(held)}")

    def _check_stop(self, each: Set) -> None:
        if not self._begun():
            super()._check_stop(each)

    def _check_latch(self, each: Set) -> None:
        if not (self.recovered and (each.stopped or "").startswith(FENCED)):
            super()._check_latch(each)

    def _check_start(self, each: Set) -> None:
        """An old voter must not start while another member is the sole voter, or may become it."""
        armed = any(
            one.pod is not None and one.pod.recover is not None for one in self.sets.values()
        )
        if (each.stopped or "").startswith(FENCED) and (armed or self._begun() or self.recovered):
            raise Unsafe(f"{each.name} starts again beside a survivor")

    def _write_set(self, step: steps.Step) -> None:
        if not isinstance(step, steps.BeginRecovery | steps.GiveUpRecovery):
            each = self.sets[step.target.name]  # type: ignore[union-attr]
            if isinstance(step, steps.StartMember):
                self._check_start(each)
            pod = each.pod
            super()._write_set(step)
            if each.pod is None and pod is not None:
                each.pod = replace(pod, gone_at=self.now + self.rng.choice([0.5, 2.0, 9.0]))
            return
        each = self.sets[step.target.name]
        if str(each.version) == step.target.resource_version:
            each.version += 1
            each.recovery = parse_survivor(step.survivor)
            each.given_up = isinstance(step, steps.GiveUpRecovery)


SETTLE_LIMIT = 600
"""Maximum number of reconciles until an undisturbed quorum is stable."""


def formed(seed: int, replicas: int, reconcile: Callable[[RecoveryModel], None]) -> RecoveryModel:
    """A quorum that has formed and matches its spec."""
    wanted = Wanted(replicas, STORAGE, debounce_s=5.0, max_replacements_per_hour=60)
    model = RecoveryModel(random.Random(seed), wanted)
    settle(model, reconcile)
    return model


def settle(
    model: RecoveryModel, reconcile: Callable[[RecoveryModel], None], limit: int = SETTLE_LIMIT
) -> None:
    """Reconcile until everything matches the spec. Raises AssertionError after more than `limit` reconciles."""
    for _ in range(limit):
        reconcile(model)
        whole = len(model.live()) == len(model.current_voters()) == model.wanted.replicas
        if whole and isinstance(model.steps[-1], steps.Nothing) and model.identities:
            return
    history = "\n".join(str(each) for each in model.steps[-12:])
    raise AssertionError(f"not settled: {model.current_voters()} live {model.live()}\n{history}")


def voters(model: RecoveryModel) -> list[Set]:
    """The StatefulSets of the current voters."""
    return [each for key in model.current_voters() if (each := model.set_of(key)) is not None]
