"""When a quorum's parts are searched for among all objects of its namespace, and not only by their labels and names.

In the steady state never: at the first look of this process, and from then on only while something is missing, or a
name turns out to be taken. What is kept between looks only says where to look.
"""

from dataclasses import dataclass

from quorum_operator.kube.finding import Place
from quorum_operator.kube.observe import Cluster
from quorum_operator.planner.observed import QuorumView
from quorum_operator.status_crd import MetadataQuorumStatus

PERIOD_S = 10.0
"""Between two wide looks for what stays missing."""


@dataclass(frozen=True, slots=True)
class Search:
    """How the next look is to be made."""

    known: frozenset[Place]
    wide: bool
    older_claims: bool
    """The last wide look has found something without the labels of this version: claims of the one before have others."""


class Searches:
    """Of one resource."""

    def __init__(self) -> None:
        self._unlabelled: frozenset[Place] = frozenset()
        self._missing = True
        self._wide_at = float("-inf")
        self._wide = False

    def begin(self, earlier: MetadataQuorumStatus, now: float) -> Search:
        """For a look at `now`, in seconds of a monotonic clock; `earlier` names the members as of the last status."""
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
        """What a look has come to: without a confirmed view, or without one of the voters, something is missing."""
        if self._wide:
            self._unlabelled = found.unlabelled
        there = {each.key for each in found.incarnations}
        voters = {voter.key for voter in view.voters} if view is not None else set()
        self._missing = view is None or not found.identities or not voters <= there

    def widen(self) -> None:
        """Something has a name that no look has shown."""
        self._missing, self._wide_at = True, float("-inf")
