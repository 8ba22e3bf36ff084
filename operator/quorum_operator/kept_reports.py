"""For how long what the nodes of a quorum have said of themselves holds.

While nothing moves, a description of the quorum by its leader tells every few seconds whether its voters fetch; what
else a node says of itself is asked again after a minute, or once anything looks different. Owns that judgement, and
asks nobody. What is kept decides no step: whoever wants to change something asks all nodes again.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from quorum_operator.planner.observed import Incarnation, Key, PodFacts, QuorumView

PERIOD_S = 60.0
"""Between two questions to every node of a quorum in which nothing moves."""

_Mark = tuple[str, int, PodFacts | None]
_Health = tuple[str | None, Key, int, frozenset[Key]]


@dataclass(frozen=True, slots=True)
class _Kept:
    until: float
    marks: tuple[_Mark, ...]
    health: _Health
    incarnations: tuple[Incarnation, ...]


class KeptReports:
    """Of one quorum. Times are seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._kept: _Kept | None = None

    def of(self, incarnations: Sequence[Incarnation], now: float) -> tuple[Incarnation, ...] | None:
        """The incarnations with what their nodes said last; None when they have to be asked."""
        kept = self._kept
        if kept is None or now >= kept.until or kept.marks != _marks(incarnations):
            return None
        reports = {each.name: each.report for each in kept.incarnations}
        return tuple(replace(each, report=reports[each.name]) for each in incarnations)

    def holds(self, view: QuorumView | None) -> bool:
        """Whether a new description says the same as the one that they were kept with."""
        return self._kept is not None and self._kept.health == _health(view)

    def keep(
        self, incarnations: tuple[Incarnation, ...], view: QuorumView | None, now: float
    ) -> None:
        """All nodes were asked. Nothing is kept of a quorum that is not whole."""
        health = _health(view)
        silent = any(each.report is None for each in incarnations if each.replicas > 0)
        if health is None or silent or not all(map(_is_well, incarnations)):
            self._kept = None
            return
        # Not all quorums in the same second.
        until = now + PERIOD_S * random.uniform(0.8, 1.2)
        self._kept = _Kept(until, _marks(incarnations), health, incarnations)


def _marks(incarnations: Sequence[Incarnation]) -> tuple[_Mark, ...]:
    return tuple((each.name, each.replicas, each.pod) for each in incarnations)


def _is_well(each: Incarnation) -> bool:
    return each.report is None or (each.report.storage == "ok" and each.report.caught_up)


def _health(view: QuorumView | None) -> _Health | None:
    """Who leads whom; None unless all voters are there and nothing is under way."""
    if view is None or view.pending_change or not view.own_epoch_committed:
        return None
    if not all(voter.fetching and voter.caught_up for voter in view.voters):
        return None
    return view.cluster_id, view.leader, view.epoch, frozenset(each.key for each in view.voters)
