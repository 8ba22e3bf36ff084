"""Recreates deleted StatefulSets for their claims.

Owns the conditions for doing so automatically: the claim belongs to this resource and cluster, has a known replica
UUID and no mark that forbids it, no other claim or member has the same UUID, and its replica is a voter. The voters
are those of a confirmed describe, else those in the logs of the answering replicas; without any answer only the marks
decide, because they are written before a member is stopped. Of several claims of a member the newest is then used
first: its replica is a voter, or an observer whose log names the voters and that no election counts. In all other
cases the user decides (`claim_decisions.py`).

A claim that is being deleted counts while a pod of its member uses it, because only a member with a StatefulSet can be
called, moved and stopped. It is replaced like every member whose claim is being deleted.
"""

from functools import cached_property

from quorum_operator.planner.observed import Incarnation, Key, LoneClaim, Marks
from quorum_operator.planner.quorum_loss import START_GRACE_S, voter_sets_of
from quorum_operator.planner.recovery import is_released, under_way
from quorum_operator.planner.refusals import first_not_held
from quorum_operator.planner.situation import Situation
from quorum_operator.planner.step import RebuildMember, Step


def plan_rebuild(at: Situation) -> Step | None:
    """The next StatefulSet to recreate."""
    identity = at.identity
    if identity is None:
        return None
    founder = Key(identity.founder_id, identity.founder_uuid)
    planned = [
        RebuildMember(
            claim=each,
            formation=identity.index,
            founder=each.key == founder,
            reason=f"the StatefulSet of {each.claim.name} was deleted, and its replica may be a voter",
        )
        for each in Rebuilding(at).ready
    ]
    return first_not_held(at.seen, planned)


class Rebuilding:
    """The claims without a StatefulSet, and which of them can be used."""

    def __init__(self, at: Situation) -> None:
        self._at = at

    @cached_property
    def reported_voters(self) -> frozenset[Key] | None:
        """All voters in a confirmed description, or else in an answering log. None: unknown."""
        if self._at.view is not None:
            return self._at.voters
        sets = voter_sets_of(self._at)
        return frozenset().union(*sets) if sets else None

    @cached_property
    def ready(self) -> tuple[LoneClaim, ...]:
        """Claims to use now."""
        if under_way(self._at) is not None:
            return ()
        sound = [each for each in self._at.seen.lone_claims if self.objection(each) is None]
        voters = self.reported_voters
        if voters is not None:
            return tuple(each for each in sound if each.key in voters)
        return tuple(each for each in sound if not self._is_preceded(each, sound))

    def _is_preceded(self, each: LoneClaim, sound: list[LoneClaim]) -> bool:
        """Whether a newer replica of its member has to tell the voters first."""
        newer = (one for one in sound if one.node_id == each.node_id)
        return any(one.number > each.number for one in newer) or bool(self._silent_newer(each))

    def _silent_newer(self, each: LoneClaim) -> list[Incarnation]:
        """Newer members of its id that may hold the voter and do not answer. One that answers has no voters in its log:
        it was never one.
        """
        return [
            one
            for one in self._at.current
            if one.node_id == each.node_id and one.number > each.number and one.report is None
            if one.failed is None and one.stopped is None
            if one.claim is not None and not one.claim.deleting
        ]

    def rivalry(self, each: LoneClaim) -> str | None:
        """Why a claim to which there is no objection waits for a decision; None if it does not.

        If the volumes of the newer members are lost, its replica and other older ones may elect a leader that lacks what
        was acknowledged since.
        """
        if self.reported_voters is not None:
            return None
        waited = [
            one.name
            for one in self._silent_newer(each)
            if self._at.now - one.created_at >= START_GRACE_S
        ]
        if not waited:
            return None
        return (
            f"{', '.join(waited)} may hold the voter {each.node_id} as well, and does not answer: bring it back, or give its "
            "claim up"
        )

    def objection(self, each: LoneClaim) -> str | None:
        """Why the claim is not used automatically."""
        identity, marks, claim = self._at.identity, each.claim.marks, each.claim
        if each.is_going or claim.phase == "Lost":
            return "being deleted" if claim.deleting else "it lost its volume"
        if claim.deleting and not (identity is not None and identity.formed):
            # A pod of the StatefulSet may find an empty volume, which a founder would format again.
            return "being deleted"
        released = marks.failed is None and marks.removed is None and is_released(self._at, marks)
        if marks.bars is not None and not released:
            return marks.bars
        if marks.uuid is None:
            return "no replica UUID is written on it"
        if not self._may_be_ours(marks):
            return "made for another MetadataQuorum"
        by_hand = marks.resource_uid is None and marks.cluster_id is None
        if identity is None or not (by_hand or marks.cluster_id == identity.cluster_id):
            return f"of another cluster ({marks.cluster_id})"
        return "its replica UUID is a duplicate" if self._is_doubled(each) else None

    def _may_be_ours(self, marks: Marks) -> bool:
        """Whether it was created for this resource, or confirmed by the spec or by a manual annotation (the operator
        never writes only a UUID).
        """
        if marks.resource_uid == self._at.seen.resource_uid:
            return True
        adopted = marks.cluster_id is not None and marks.cluster_id == self._at.seen.wanted.adopt
        return adopted or (marks.resource_uid is None and marks.cluster_id is None)

    def _is_doubled(self, each: LoneClaim) -> bool:
        uuid = each.claim.marks.uuid
        others = [one for one in self._at.seen.lone_claims if one.member != each.member]
        doubled = any(one.claim.marks.uuid == uuid for one in others)
        return doubled or any(one.known_uuid == uuid for one in self._at.seen.incarnations)
