"""Claims that are being deleted while a pod uses them, without a StatefulSet: which are used on, and which are not."""

from dataclasses import replace

import pytest

from quorum_operator.planner.observed import (
    ClaimFacts,
    HeldLog,
    Incarnation,
    Key,
    LoneClaim,
    Marks,
    NodeReport,
    Observation,
    ReplicaView,
)
from quorum_operator.planner.plan import plan
from quorum_operator.planner.quorum_loss import QuorumLoss
from quorum_operator.planner.situation import Situation
from quorum_operator.planner.status import build_status
from quorum_operator.planner.step import CreateMember, RebuildMember
from quorum_operator.status_crd import MetadataQuorumStatus
from support.observed_quorum import NOW, STORAGE, observation_of, sound_member, view_of

KEYS = tuple(Key(each, f"u{each}") for each in (1, 2, 3))
CLAIM = ClaimFacts(
    "data-q-1-1-0", "c1", deleting=True, volume="pv1", marks=Marks("u1", "c1", "uid-q", 1)
)


def seen_with(*, in_use: bool, formed: bool = True) -> Observation:
    """Member 1, the founder, leads; its StatefulSet was deleted."""
    view = view_of([ReplicaView(key, True, True) for key in KEYS], formed=formed)
    seen = observation_of([sound_member(2), sound_member(3)], view, size=3)
    (identity,) = seen.identities
    members = tuple(_not_formed(each) for each in seen.incarnations)
    return replace(
        seen,
        resource_uid="uid-q",
        used_numbers={1: 1},
        identities=(replace(identity, formed=formed),),
        incarnations=seen.incarnations if formed else members,
        lone_claims=(LoneClaim(1, 1, "q-1-1", CLAIM, STORAGE, in_use=in_use),),
    )


def _not_formed(each: Incarnation) -> Incarnation:
    assert each.report is not None
    return replace(each, report=replace(each.report, formed=False))


def test_claim_that_a_pod_uses_is_used_on() -> None:
    step = plan(seen_with(in_use=True))
    assert isinstance(step, RebuildMember)
    assert step.claim.member == "q-1-1"


def test_claim_that_no_pod_uses_is_given_up() -> None:
    step = plan(seen_with(in_use=False))
    assert isinstance(step, CreateMember)
    assert (step.node_id, step.number) == (1, 2)


def test_founder_of_a_forming_quorum_is_not_recreated_on_a_claim_that_may_go() -> None:
    """Its process could format an empty volume as the founder's once more."""
    step = plan(seen_with(in_use=True, formed=False))
    assert not isinstance(step, RebuildMember)


@pytest.mark.parametrize("in_use", [True, False])
def test_no_recovery_is_offered_while_a_pod_uses_the_claim(in_use: bool) -> None:
    """Without a leader the pod may still hold the longest log."""
    log = HeldLog(4, 9, 9, 4, frozenset(KEYS))
    report = NodeReport("u2", "c1", "follower", True, True, "ok", None, log)
    alone = sound_member(2, report=report)
    seen = replace(
        seen_with(in_use=in_use),
        view=None,
        incarnations=(alone,),
        unconfirmed_since=NOW - 60,
        known_voters=3,
    )
    assert (QuorumLoss(Situation(seen)).offer is None) == in_use
    status = build_status(seen, plan(seen), MetadataQuorumStatus(), "")
    doubt = next(each for each in status.conditions if each.type == "ClaimsInDoubt")
    assert (doubt.status == "True") == (not in_use)
