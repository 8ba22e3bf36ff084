"""Detects a lost quorum, and describes which replicas answer and which do not.

Owns the derivation and the messages; decides no step. That nothing is stopped, removed, replaced or deleted meanwhile
follows from the missing describe (`plan.py`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from quorum_node.quorum_arithmetic import majority
from quorum_operator.planner.member_problems import hangs, member_problem
from quorum_operator.planner.observed import (
    ClaimFacts,
    Confirmation,
    HeldLog,
    Incarnation,
    Key,
    LoneClaim,
)
from quorum_operator.planner.situation import Situation
from quorum_operator.quorum_loss_crd import QuorumLossStatus, RecoveryOffer, ReplicaAtLoss

UNCONFIRMED_GRACE_S = 10.0
"""Time without a confirmed describe after which a quorum counts as lost; an election is shorter."""


START_GRACE_S = 60.0
"""Time for a recreated member to start before a recovery is offered."""


def is_lost(at: Situation) -> bool:
    """Whether a formed quorum has fewer usable members than a majority, or no leader for too long."""
    if at.identity is None or not at.identity.formed or at.view is not None:
        return False
    able = sum(1 for each in at.current if _answers(at, each))
    return able < majority(at.known_voters or at.target) or lasts(at)


def lasts(at: Situation) -> bool:
    """Whether no describe was confirmed for longer than an election takes."""
    since = at.seen.unconfirmed_since
    return since is not None and at.now - since > UNCONFIRMED_GRACE_S


def nothing_left(at: Situation) -> bool:
    """Whether nothing exists that could come back: no StatefulSet, claim or pod of a member."""
    return not (at.seen.incarnations or at.seen.lone_claims or at.seen.stray_pods)


def _answers(at: Situation, each: Incarnation) -> bool:
    """Whether the member answers from a healthy disk with its known replica UUID; an emptied disk does not count."""
    report = each.report
    if each.failed is not None or report is None or report.storage == "failed":
        return False
    same_cluster = at.identity is None or report.cluster_id in (None, at.identity.cluster_id)
    return same_cluster and each.uuid in (None, report.uuid)


def voter_sets_of(at: Situation) -> tuple[frozenset[Key], ...]:
    """The voter sets in the logs of the answering replicas, that of the longest log first."""
    return QuorumLoss(at).voter_sets


@dataclass(frozen=True, slots=True)
class Answering:
    """An answering replica with a healthy disk, and its log."""

    key: Key
    incarnation: Incarnation
    log: HeldLog


class QuorumLoss:
    """The remaining replicas of a lost quorum, according to the logs of those that answer."""

    def __init__(self, at: Situation) -> None:
        self._at = at

    @cached_property
    def answering(self) -> tuple[Answering, ...]:
        """Answering replicas, the longest log first; of equal logs a voter's first."""
        found = [
            Answering(each.key, each, each.report.log)
            for each in self._at.current
            if _answers(self._at, each) and each.key is not None and each.report is not None
            if each.report.log is not None
        ]
        return tuple(sorted(found, key=self._place))

    def _place(self, each: Answering) -> tuple[int, int, bool, Key]:
        epoch, end_offset = each.log.length
        return (-epoch, -end_offset, each.key not in each.log.voters, each.key)

    @cached_property
    def voter_sets(self) -> tuple[frozenset[Key], ...]:
        """All voter sets in use by some replica, that of the longest log first."""
        return tuple(dict.fromkeys(each.log.voters for each in self.answering if each.log.voters))

    @cached_property
    def voters(self) -> frozenset[Key]:
        """The voter set of the longest log."""
        return self.voter_sets[0] if self.voter_sets else frozenset()

    @cached_property
    def _others(self) -> tuple[tuple[Key | None, Incarnation | None], ...]:
        """Voters and other expected members that do not answer."""
        there = {each.key for each in self.answering}
        by_key = self._at.by_key
        voters: list[tuple[Key | None, Incarnation | None]] = [
            (key, by_key.get(key)) for key in sorted(self.voters - there)
        ]
        named = {each.name for _, each in voters if each is not None}
        named |= {each.incarnation.name for each in self.answering}
        rest = [
            (each.key, each)
            for each in self._at.current
            # The voters are unknown: any member that ran may have been one.
            if each.name not in named and (each.replicas > 0 or not self.voters)
        ]
        return (*voters, *rest)

    @cached_property
    def offer(self) -> Confirmation | None:
        """The survivor that a recovery can start from; see `no_offer`."""
        if self.no_offer is not None:
            return None
        best = self.answering[0]
        return Confirmation(best.key.id, best.key.uuid, *best.log.length)

    @cached_property
    def no_offer(self) -> str | None:
        """Why no recovery is offered: the longest log must be known, and no majority may be running anywhere."""
        if not lasts(self._at):
            return f"the voters have {UNCONFIRMED_GRACE_S:.0f} s to elect a leader first"
        if nothing_left(self._at):
            return (
                "no member, no claim and no pod of it is left. Restore a backup (docs/how-to/back-up-and-restore.md); or, if "
                "the metadata is not needed, delete the resource and apply it again for a new quorum"
            )
        if not self.voter_sets:
            return "no replica that knows the voters answers: bring one back, or restore a backup"
        left = [each.claim.name for each in self.claims_left]
        if left:
            return (
                f"there are claims without a StatefulSet that may hold a voter: {', '.join(left)}. The condition ClaimsInDoubt "
                "says what to do with them"
            )
        starting = [each.name for each in self._starting]
        if starting:
            return (
                f"{', '.join(starting)} was created just now and has {START_GRACE_S:.0f} s to start"
            )
        alive = {each.key for each in self.answering} | self._ready_keys
        for voters in self.voter_sets:
            there = sorted(alive & voters)
            if len(there) >= majority(len(voters)):
                names = ", ".join(_name(key) for key in there)
                return f"{len(there)} of {len(voters)} voters run ({names}), which is a majority: no recovery is needed"
        restarting = [each.name for each in self._restarting]
        if restarting:
            return (
                f"the pod of {', '.join(restarting)} is terminating, or was created just now and has {START_GRACE_S:.0f} s to "
                "start: its log may be longer"
            )
        return None

    @cached_property
    def claims_left(self) -> tuple[LoneClaim, ...]:
        """Claims without a StatefulSet that may hold a voter; while one exists no recovery is offered."""
        there = {each.key for each in self.answering}
        missing = frozenset().union(*self.voter_sets) - there
        ids = {key.id for key in missing - self._at.by_key.keys()}
        return tuple(
            each
            for each in self._at.seen.lone_claims
            if each.claim.marks.bars is None
            and not (each.is_going or each.claim.phase == "Lost")
            and (each.key in missing if each.key is not None else each.node_id in ids)
        )

    @cached_property
    def _starting(self) -> tuple[Incarnation, ...]:
        """Voters whose StatefulSets were recreated recently and may still be starting."""
        return tuple(
            each
            for each in self._silent
            if each.rebuilt and self._at.now - each.created_at < START_GRACE_S
        )

    @cached_property
    def _restarting(self) -> tuple[Incarnation, ...]:
        """Voters whose pods are replaced, for example for a corrected spec (`leaderless.py`). They answered before."""
        return tuple(each for each in self._silent if _is_restarting(each, self._at.now))

    @cached_property
    def _silent(self) -> tuple[Incarnation, ...]:
        """Voters that should run, and do not answer."""
        voters = frozenset().union(*self.voter_sets)
        return tuple(
            each
            for each in self._at.current
            if each.key in voters and each.failed is None and each.report is None
            if each.replicas > 0
        )

    @cached_property
    def _ready_keys(self) -> frozenset[Key]:
        """Voters of ready pods: they follow a leader although the operator can't reach them."""
        return frozenset(
            each.key
            for each in self._at.current
            if each.key is not None and each.failed is None and each.pod is not None
            if each.pod.ready and not each.pod.deleting and each.report is None
        )

    def status(self) -> QuorumLossStatus:
        """The value for the resource's status."""
        offer = self.offer
        found = QuorumLossStatus(message=self.message(), replicas=list(self._replicas()))
        if offer is not None:
            found.offer = RecoveryOffer(
                id=offer.id, uuid=offer.uuid, epoch=offer.epoch, end_offset=offer.end_offset
            )
        found.no_offer = self.no_offer
        return found

    def _replicas(self) -> Iterator[ReplicaAtLoss]:
        for each in self.answering:
            found = _entry(each.key, each.incarnation, each.key in self.voters)
            found.epoch, found.end_offset = each.log.length
            found.committed_offset = each.log.committed_offset
            yield found
        for key, incarnation in self._others:
            found = _entry(key, incarnation, key in self.voters)
            found.lost = _why(incarnation, self._at.now)
            lone = self._lone_of(key) if incarnation is None else None
            if lone is not None:
                found.pvc, found.volume = lone.claim.name, lone.claim.volume
            yield found

    def message(self) -> str:
        """One paragraph: what is lost, what answers, what to do."""
        answers = [
            f"{_name(each.key)} in {each.incarnation.name} to offset {each.log.end_offset} of epoch"
            f" {each.log.last_epoch}"
            for each in self.answering
        ]
        lost = [
            f"{_name(key)} on {self._place_of(key, incarnation)} ({_why(incarnation, self._at.now)})"
            for key, incarnation in self._others
        ]
        return (
            f"{self._count()}. Answering: {'; '.join(answers) or 'none'}. Not answering:"
            f" {'; '.join(lost) or 'none'}. Bring members or their volumes back. Meanwhile the operator stops, "
            f"removes, replaces and deletes nothing. {self._way_out()}"
        )

    def _lone_of(self, key: Key | None) -> LoneClaim | None:
        """The remaining claim of a voter without a StatefulSet: by UUID, else by id."""
        mine = [each for each in self._at.seen.lone_claims if key and each.node_id == key.id]
        known = [each for each in mine if each.key == key]
        return next(iter(known or [each for each in mine if each.key is None][-1:]), None)

    def _place_of(self, key: Key | None, each: Incarnation | None) -> str:
        lone = self._lone_of(key) if each is None else None
        if lone is None:
            return _volume(each.claim if each is not None else None)
        bars = lone.claim.marks.bars
        return _volume(lone.claim) + (f", {bars}" if bars else "")

    def _way_out(self) -> str:
        offer, confirmed = self.offer, self._at.seen.wanted.recovery
        if offer is None:
            return f"No recovery is offered: {self.no_offer}"
        text = (
            "If that is impossible: set spec.recovery to the value of status.quorumLoss.offer to start a recovery. It "
            f"loses all records committed beyond offset {offer.end_offset}"
        )
        other = confirmed is not None and confirmed != offer
        return text + (
            f"; its current value {tuple(confirmed or ())} has no effect" if other else ""
        )

    def _count(self) -> str:
        if not self.voters:
            return "no replica reports the voters"
        there = sum(1 for each in self.answering if each.key in self.voters)
        size = len(self.voters)
        if there >= majority(size):
            return f"{there} of {size} voters answer, but none is the leader: check the network between them"
        return f"{there} of {size} voters answer, {majority(size)} are needed"


def _is_restarting(each: Incarnation, now: float) -> bool:
    """Whether its process will run soon, as far as is known: nothing keeps its pod from starting, or from ending."""
    pod = each.pod
    if pod is None or each.host_away is not None:
        return False
    if pod.deleting:
        return not (pod.held_by or hangs(pod, now))
    is_stuck = (pod.exit_code, pod.mount_failed_at, pod.unschedulable) != (None, None, None)
    return not (pod.ready or is_stuck) and now - pod.created_at < START_GRACE_S


def _entry(key: Key | None, each: Incarnation | None, voter: bool) -> ReplicaAtLoss:
    claim = each.claim if each is not None else None
    known_id = each.node_id if each is not None else None
    node_id = key.id if key is not None else known_id
    assert node_id is not None, "either a key or an incarnation is known"
    return ReplicaAtLoss(
        id=node_id,
        uuid=key.uuid if key is not None else None,
        voter=voter,
        pod=each.pod.name if each is not None and each.pod is not None else None,
        pvc=claim.name if claim is not None else None,
        volume=claim.volume if claim is not None else None,
    )


def _name(key: Key | None) -> str:
    return "?" if key is None else f"{key.id} ({key.uuid})"


def _volume(claim: ClaimFacts | None) -> str:
    if claim is None:
        return "no claim"
    return claim.name if claim.volume is None else f"{claim.name} = {claim.volume}"


def _host_away(each: Incarnation) -> str | None:
    host = each.host_away
    return None if host is None or each.report is not None else f"host {host.name} is {host.state}"


def _why(each: Incarnation | None, now: float) -> str:
    if each is None:
        return "no StatefulSet runs it"
    words = member_problem(each, now, _host_away(each))
    if each.uuid is not None and each.report is not None and each.report.uuid != each.uuid:
        return f"its disk is empty now: it answers as replica {each.report.uuid}"
    if words is None and each.report is not None and each.report.log is None:
        return "its version does not report the end of its log"
    return words or "its pod is ready, but does not answer the operator"
