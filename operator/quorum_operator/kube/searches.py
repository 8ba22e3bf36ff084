"""When a quorum's parts are searched for among all objects of its namespace, and not only by their labels and names.

In the steady state never: at the first look of this process, and from then on only while something is missing, or a
name turns out to be taken. What is kept between looks only says where to look.
"""

from dataclasses import dataclass, field

from quorum_operator.crd import MetadataQuorumStatus
from quorum_operator.kube.finding import Place
from quorum_operator.kube.observe import Cluster
from quorum_operator.planner.observed import QuorumView

PERIOD_S = 10.0
"""Between two wide looks for what stays missing."""


@dataclass(frozen=True, slots=True)
class Search:
    """How the next look is to be made."""

    known: frozenset[Place]
    wide: bool


@dataclass(slots=True)
class _Memory:
    unlabelled: frozenset[Place] = frozenset()
    missing: bool = True
    wide_at: float = float("-inf")
    wide: bool = False


@dataclass(slots=True)
class Searches:
    """Of all quorums of this process, by the resource's UID."""

    _memories: dict[str, _Memory] = field(default_factory=dict)

    def begin(self, uid: str, earlier: MetadataQuorumStatus, now: float) -> Search:
        """For a look at `now`, in seconds of a monotonic clock; `earlier` names the members as of the last status."""
        memory = self._memories.setdefault(uid, _Memory())
        members = {
            (member.id, member.incarnation)
            for member in earlier.members
            if member.incarnation is not None
        }
        memory.wide = memory.missing and now - memory.wide_at >= PERIOD_S
        if memory.wide:
            memory.wide_at = now
        return Search(memory.unlabelled | members, memory.wide)

    def end(self, uid: str, found: Cluster, view: QuorumView | None) -> None:
        """What a look has come to: without a confirmed view, or without one of the voters, something is missing."""
        memory = self._memories[uid]
        if memory.wide:
            memory.unlabelled = found.unlabelled
        there = {each.key for each in found.incarnations}
        voters = {voter.key for voter in view.voters} if view is not None else set()
        memory.missing = view is None or not found.identities or not voters <= there

    def widen(self, uid: str) -> None:
        """Something has a name that no look has shown."""
        memory = self._memories.setdefault(uid, _Memory())
        memory.missing, memory.wide_at = True, float("-inf")

    def forget(self, uid: str) -> None:
        """The resource is gone."""
        self._memories.pop(uid, None)
