"""Decides when the objects of a quorum are searched for in the whole namespace, not only by label and name.

Never in the steady state: only in the first reconcile of this process, and while something is missing or a name turns
out to be taken. The memory between reconciles only affects where to search.
"""

from dataclasses import dataclass

from quorum_operator.kube.finding import Place
from quorum_operator.kube.observe import Cluster
from quorum_operator.planner.observed import QuorumView
from quorum_operator.status_crd import MetadataQuorumStatus

PERIOD_S = 10.0
"""Interval of wide searches for objects that stay missing."""


@dataclass(frozen=True, slots=True)
class Search:
    """How to search next."""

    known: frozenset[Place]
    wide: bool
    older_claims: bool
    """The last wide search found objects without this version's labels: claims of the previous version have different
    ones.
    """


class Searches:
    """Searches for one resource."""

    def __init__(self) -> None:
        self._unlabelled: frozenset[Place] = frozenset()
        self._missing = True
        self._wide_at = float("-inf")
        self._wide = False

    def begin(self, earlier: MetadataQuorumStatus, now: float) -> Search:
        """The next search at `now`, in seconds of a monotonic clock; `earlier`: members of the last status."""
        members = {
            (member.id, member.incarnation)
            for member in earlier.members
            if member.incarnation is not None
        }
        self._wide = self._missing and now - self._wide_at >= PERIOD_S
        if self._wide:
            self._wide_at = now
        return Search(self._unlabelled | members, self._wide, bool(self._unlabelled))

    def end(self, found: Cluster, view: QuorumView | None) -> None:
        """Record a result: without a confirmed view, or without one of the voters, something is missing."""
        if self._wide:
            self._unlabelled = found.unlabelled
        there = {each.key for each in found.incarnations}
        voters = {voter.key for voter in view.voters} if view is not None else set()
        self._missing = view is None or not found.identities or not voters <= there

    def widen(self) -> None:
        """An object has a name that no search has found."""
        self._missing, self._wide_at = True, float("-inf")
