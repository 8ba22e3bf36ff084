"""Detects epochs in the status that the quorum has never reached, because another client edited the status.

Owns the evidence. An older quorum can confirm a leader only after a recovery, beside the recovered quorum. A recovery
leaves marks on StatefulSets or claims, or a process in a newer epoch. Without any of these, and if every member that
should run answers and belongs to the confirmed quorum, only the status contains a newer epoch. A voter without
StatefulSet and claim can't have been recovered, because nothing of it is left.
"""

from collections.abc import Set
from dataclasses import replace

from quorum_operator.planner.gates import voter_keys
from quorum_operator.planner.observed import (
    Incarnation,
    Key,
    LoneClaim,
    Observation,
    QuorumView,
)
from quorum_operator.planner.situation import FENCED, Situation


def corrected(seen: Observation) -> Observation:
    """Return the observation with the confirmed quorum as the current one, if only the status contradicts that."""
    view = seen.older_quorum
    if seen.view is not None or view is None or not _is_the_only_one(seen, view):
        return seen
    return replace(seen, view=view, older_quorum=None, epochs_edited=True)


def _is_the_only_one(seen: Observation, view: QuorumView) -> bool:
    at = Situation(replace(seen, view=view, older_quorum=None))
    if at.view is None or not (view.formed and view.voters_committed) or view.pending_change:
        return False
    marks = [each.claim.marks for each in seen.lone_claims]
    marks += [each.claim.marks for each in seen.incarnations if each.claim is not None]
    if any(each.fenced is not None or each.recovery is not None for each in marks):
        return False
    if any(_was_recovered(each) for each in seen.incarnations):
        return False
    running = [each for each in at.current if each.replicas > 0 and each.failed is None]
    absent = at.voters - {each.key for each in running}
    disks: tuple[Incarnation | LoneClaim, ...] = (*seen.incarnations, *seen.lone_claims)
    return all(_belongs_to(each, view) for each in running) and not any(
        _may_be(each, absent) for each in disks
    )


def _may_be(each: Incarnation | LoneClaim, voters: Set[Key]) -> bool:
    """Whether a StatefulSet or claim may have the disk of one of these voters; without a known UUID the id decides."""
    if each.key is None:
        return any(key.id == each.node_id for key in voters)
    return each.key in voters


def _was_recovered(each: Incarnation) -> bool:
    reasons = (each.stopped or "", each.failed.reason if each.failed is not None else "")
    return each.recovery is not None or any(text.startswith(FENCED) for text in reasons)


def _belongs_to(each: Incarnation, view: QuorumView) -> bool:
    """Whether it answers, is a replica of this quorum, and reports no newer epoch."""
    log = each.report.log if each.report is not None else None
    if log is None or max(log.leader_epoch, log.last_epoch) > view.epoch:
        return False
    return each.key in voter_keys(view) | {one.key for one in view.observers}
