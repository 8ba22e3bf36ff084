"""How long reports of the nodes of a quorum are reused.

While nothing changes, the leader's description shows every few seconds whether the voters fetch. Other reports of a
node are requested again after a minute, or when anything differs. This module owns that decision and does no I/O. No
step is based on reused reports: before a change all nodes are queried again.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from quorum_operator.planner.observed import Incarnation, Key, PodFacts, QuorumView

PERIOD_S = 60.0
"""Interval of queries to every node of a quorum in which nothing changes."""

_Mark = tuple[str, int, PodFacts | None]
_Health = tuple[str | None, Key, int, frozenset[Key]]


@dataclass(frozen=True, slots=True)
class _Kept:
    until: float
    marks: tuple[_Mark, ...]
    health: _Health
    incarnations: tuple[Incarnation, ...]


class KeptReports:
    """The reports of one quorum. Times are seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._kept: _Kept | None = None

    def of(self, incarnations: Sequence[Incarnation], now: float) -> tuple[Incarnation, ...] | None:
        """The incarnations with their last reports; None if they have to be queried."""
        kept = self._kept
        if kept is None or now >= kept.until or kept.marks != _marks(incarnations):
            return None
        reports = {each.name: each.report for each in kept.incarnations}
        return tuple(replace(each, report=reports[each.name]) for each in incarnations)

    def holds(self, view: QuorumView | None) -> bool:
        """Whether a new description equals the one that the reports were stored with."""
        return self._kept is not None and self._kept.health == _health(view)

    def keep(
        self, incarnations: tuple[Incarnation, ...], view: QuorumView | None, now: float
    ) -> None:
        """Store the reports of all nodes, unless the quorum is unhealthy."""
        health = _health(view)
        silent = any(each.report is None for each in incarnations if each.replicas > 0)
        if health is None or silent or not all(map(_is_well, incarnations)):
            self._kept = None
            return
        # Spread over time, so that not all quorums are polled in the same second.
        until = now + PERIOD_S * random.uniform(0.8, 1.2)
        self._kept = _Kept(until, _marks(incarnations), health, incarnations)


def _marks(incarnations: Sequence[Incarnation]) -> tuple[_Mark, ...]:
    return tuple((each.name, each.replicas, each.pod) for each in incarnations)


def _is_well(each: Incarnation) -> bool:
    return each.report is None or (each.report.storage == "ok" and each.report.caught_up)


def _health(view: QuorumView | None) -> _Health | None:
    """Leader and voters; None unless all voters are live and nothing is in progress."""
    if view is None or view.pending_change or not view.own_epoch_committed:
        return None
    if not all(voter.fetching and voter.caught_up for voter in view.voters):
        return None
    return view.cluster_id, view.leader, view.epoch, frozenset(each.key for each in view.voters)
