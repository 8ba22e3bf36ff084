"""Decides when to search the whole namespace for the objects of a quorum, instead of only by label and name.

This happens in the first reconcile of this process, while an object is missing, and if a name turns out to be taken;
never in the steady state. The state kept between reconciles only affects where to search.
"""

from quorum_operator.kube.finding import MemberId, Search
from quorum_operator.kube.observe import Cluster
from quorum_operator.planner.observed import QuorumView
from quorum_operator.status_crd import MetadataQuorumStatus

PERIOD_S = 10.0
"""Interval of wide searches for objects that stay missing."""
MOST_KNOWN = 64
"""Maximum number of members of the last status that are read by name. An edited status may name thousands, and each is
three reads.
"""


class Searches:
    """Searches for one resource."""

    def __init__(self) -> None:
        self._unlabelled: frozenset[MemberId] = frozenset()
        self._missing = True
        self._wide_at = float("-inf")
        self._wide = False

    def begin(self, earlier: MetadataQuorumStatus, now: float) -> Search:
        """The next search at `now`, in seconds of a monotonic clock; `earlier`: members of the last status."""
        members = {
            (member.id, member.incarnation): member
            for member in earlier.members[:MOST_KNOWN]
            if member.incarnation is not None
        }
        with_pod = {member_id for member_id, member in members.items() if member.pod is not None}
        self._wide = self._missing and now - self._wide_at >= PERIOD_S
        if self._wide:
            self._wide_at = now
        return Search(
            known=self._unlabelled | members.keys(),
            with_pod=frozenset(with_pod),
            wide=self._wide,
            older_claims=bool(self._unlabelled),
        )

    def end(self, found: Cluster, view: QuorumView | None) -> None:
        """Record a result. Objects are missing if there is no confirmed view or no identity, or if a voter was not
        found.
        """
        if self._wide:
            self._unlabelled = found.unlabelled
        there = {each.key for each in found.incarnations}
        voters = {voter.key for voter in view.voters} if view is not None else set()
        self._missing = view is None or not found.identities or not voters <= there

    def widen(self) -> None:
        """Make the next search wide, because a name is taken by an object that no search has found."""
        self._missing, self._wide_at = True, float("-inf")
