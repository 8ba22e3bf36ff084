"""Marks on claims: which marks each claim should have, and how they complete a StatefulSet that has lost its
annotations.

Owns the consistency between a StatefulSet and its claim. The claim outlives the StatefulSet, so everything that
forbids a member to run again is written on both; the stricter one counts.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from quorum_operator.planner.observed import Identity, Incarnation, LoneClaim, Marks
from quorum_operator.planner.recovery import fence_text, is_accepted, under_way
from quorum_operator.planner.situation import FENCED, Situation
from quorum_operator.planner.tls_stage import TlsStage

NO_VOTER = "no voter of the confirmed set"


@dataclass(frozen=True, slots=True)
class ClaimNote:
    """Marks to write on a claim with the marks `before`. `resource_version`: only on the observed version."""

    claim: str
    uid: str
    before: Marks
    marks: Marks
    resource_version: str | None = None


def merged(each: Incarnation) -> Incarnation:
    """The member completed by its claim: an annotation removed from the StatefulSet is restored."""
    if each.claim is None:
        return each
    marks = each.claim.marks
    lost = {
        name
        for name, noted, marked in (
            ("uuid", each.uuid, marks.uuid),
            ("failed", each.failed, marks.failed),
            ("stopped", each.stopped, marks.fenced or marks.removed),
        )
        if noted is None and marked is not None
    }
    uuid, failed = each.uuid or marks.uuid, each.failed or marks.failed
    stopped, notes_lost = each.stopped or marks.fenced or marks.removed, frozenset(lost)
    # Almost always nothing is missing, and each pass would copy a large object.
    if (uuid, failed, stopped, notes_lost) == (
        each.uuid,
        each.failed,
        each.stopped,
        each.notes_lost,
    ):
        return each
    return replace(each, uuid=uuid, failed=failed, stopped=stopped, notes_lost=notes_lost)


def wanted_marks(each: Incarnation, resource_uid: str, identity: Identity | None) -> Marks:
    """The marks that the existing claim of this member should have. `identity`: of its formation, unless it is missing."""
    assert each.claim is not None
    marks = each.claim.marks
    stopped = each.stopped if each.failed is None else None
    fenced = stopped if stopped is not None and stopped.startswith(FENCED) else None
    recovery = None
    if each.recovery is not None:
        recovery = f"{each.recovery} given up" if each.recovery_given_up else str(each.recovery)
    uuid = each.uuid or marks.uuid
    if marks.uuid is not None and (each.report is None or each.report.uuid != each.uuid):
        # the StatefulSet's annotation may have been edited: only the process itself changes the
        # mark
        uuid = marks.uuid
    return Marks(
        uuid=uuid,
        cluster_id=each.cluster_id or marks.cluster_id,
        resource_uid=resource_uid,
        formation=each.formation,
        failed=each.failed,
        fenced=fenced,
        removed=stopped if fenced is None else None,
        recovery=recovery or marks.recovery,
        tls=marks.tls or each.tls_stage is TlsStage.CLOSED,
        network_policy=marks.network_policy or (identity is not None and identity.network_policy),
        defaults=marks.defaults | (frozenset() if identity is None else identity.defaults),
    )


def due_notes(at: Situation) -> tuple[ClaimNote, ...]:
    """Claims with missing marks."""
    return (*_attached(at), *_departed(at), *_fenced(at))


def _attached(at: Situation) -> Iterator[ClaimNote]:
    identities = {each.index: each for each in at.seen.identities}
    for each in at.seen.incarnations:
        claim = each.claim
        if claim is None or claim.deleting:
            continue
        wanted = wanted_marks(each, at.seen.resource_uid, identities.get(each.formation))
        if "stopped" in each.notes_lost and each.replicas > 0 and each.key in at.voters:
            # Marked for a stop that was not carried out, and it is a voter after all.
            wanted = replace(wanted, fenced=None, removed=None)
        if wanted != claim.marks:
            yield ClaimNote(claim.name, claim.uid, claim.marks, wanted)


def _departed(at: Situation) -> Iterator[ClaimNote]:
    """A replica without a StatefulSet that is not a voter of a confirmed leader is marked as removed."""
    view, identity = at.view, at.identity
    if view is None or identity is None or view.pending_change or not view.voters_committed:
        return
    for each in at.seen.lone_claims:
        marks = each.claim.marks
        if _is_ours(at, each) and each.key not in at.voters and marks.bars is None:
            removed = replace(marks, removed=NO_VOTER)
            yield _note(each, marks, removed)


def _fenced(at: Situation) -> Iterator[ClaimNote]:
    """During a recovery all other members are fenced, with or without a StatefulSet."""
    survivor = under_way(at)
    if survivor is None or not is_accepted(at, survivor):
        return
    for each in at.seen.lone_claims:
        marks = each.claim.marks
        if marks.bars is None:
            fenced = replace(marks, fenced=fence_text(survivor))
            yield _note(each, marks, fenced)


def _note(each: LoneClaim, before: Marks, marks: Marks) -> ClaimNote:
    claim = each.claim
    return ClaimNote(claim.name, claim.uid, before, marks, claim.resource_version)


def _is_ours(at: Situation, each: LoneClaim) -> bool:
    """Whether the claim belongs to this resource and cluster and has a replica UUID."""
    identity, marks = at.identity, each.claim.marks
    known = marks.uuid is not None and identity is not None and marks.cluster_id is not None
    return known and (marks.resource_uid, marks.cluster_id) == (
        at.seen.resource_uid,
        identity.cluster_id if identity is not None else None,
    )
