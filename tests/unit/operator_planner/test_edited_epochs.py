"""An epoch that was edited in the status: ignored unless other evidence supports it."""

from dataclasses import replace
from uuid import UUID

import pytest

from quorum_node.survivor import Survivor
from quorum_operator.planner.edited_epochs import corrected
from quorum_operator.planner.observed import (
    ClaimFacts,
    FailureLatch,
    HeldLog,
    Identity,
    Incarnation,
    Key,
    LoneClaim,
    Marks,
    NodeReport,
    Observation,
    ReplicaView,
)
from quorum_operator.planner.plan import plan
from quorum_operator.planner.situation import FENCED
from quorum_operator.planner.status import build_status
from quorum_operator.planner.step import Nothing
from quorum_operator.status_crd import MetadataQuorumStatus
from support.observed_quorum import NOW, STORAGE, observation_of, sound_member, view_of

EPOCH = 4
KEYS = tuple(Key(each, f"u{each}") for each in (1, 2, 3))
VIEW = view_of([ReplicaView(each, True, True) for each in KEYS])


def report(uuid: str, epoch: int = EPOCH) -> NodeReport:
    log = HeldLog(epoch, 20, 20, epoch, frozenset(KEYS))
    return NodeReport(uuid, "c1", "follower", True, True, "ok", log=log)


def member(node_id: int) -> Incarnation:
    claim = ClaimFacts(f"data-q-{node_id}-1-0", "c")
    return sound_member(node_id, claim=claim, volume=None, report=report(f"u{node_id}"))


def observed(third: Incarnation, *others: Incarnation, **seen: object) -> Observation:
    """What the confirmed description is worth nothing for, since the status names a later epoch."""
    members = (member(1), member(2), third, *others)
    found = observation_of(
        members, size=3, older_quorum=VIEW, known_cluster_id="c1", known_voters=3
    )
    return replace(found, **seen)  # type: ignore[arg-type]


@pytest.mark.requirement("OP-07")
def test_newest_epoch_found_only_in_the_status_is_corrected() -> None:
    edited = MetadataQuorumStatus(cluster_id="c1", newest_epoch=1_000_000)
    before = observed(member(3))
    assert not isinstance(plan(before), Nothing)
    seen = corrected(before)
    assert seen.view == VIEW
    step = plan(seen)
    assert isinstance(step, Nothing)
    assert build_status(seen, step, edited, "").newest_epoch == EPOCH


@pytest.mark.requirement("OP-07")
def test_deleted_voter_is_no_evidence_for_a_newer_epoch() -> None:
    """Its StatefulSet and its claim were deleted, and its successor follows the quorum that is confirmed."""
    seen = observed(member(3))
    present = tuple(each for each in seen.incarnations if each.node_id != 3)
    successor = replace(member(3), number=2, name="q-3-2", uuid="u9", report=report("u9"))
    followed = replace(VIEW, observers=(ReplicaView(Key(3, "u9"), True, True),))
    for members, view in ((present, VIEW), ((*present, successor), followed)):
        found = replace(seen, incarnations=members, older_quorum=view)
        assert corrected(found).view == view
    claim = LoneClaim(3, 1, "q-3-1", ClaimFacts("data-q-3-1-0", "c3"), STORAGE)
    for marks in (Marks(), Marks(uuid="u3")):
        left = replace(claim, claim=replace(claim.claim, marks=marks))
        kept = replace(seen, incarnations=present, lone_claims=(left,))
        assert corrected(kept) is kept, "its disk may be where a recovery went on"
    other = replace(claim, claim=replace(claim.claim, marks=Marks(uuid="u8")))
    assert corrected(replace(seen, incarnations=present, lone_claims=(other,))).view == VIEW


LATCH = FailureLatch(FENCED, "", NOW, NOW)
SURVIVOR = Survivor(UUID(int=3), 3, 20)
FENCED_MARKS = Marks(uuid="u4", cluster_id="c1", fenced=f"{FENCED}: 3")
LONE = LoneClaim(4, 1, "q-4-1", ClaimFacts("data-q-4-1-0", "c4", marks=FENCED_MARKS), STORAGE)
REAL: dict[str, Observation] = {
    "a survivor of a recovery": observed(replace(member(3), recovery=SURVIVOR)),
    "a fenced member": observed(member(3), replace(member(4), failed=LATCH, replicas=0)),
    "a fenced claim": observed(member(3), lone_claims=(LONE,)),
    "a member of a newer epoch": observed(replace(member(3), report=report("u3", EPOCH + 1))),
    "a member that does not answer": observed(replace(member(3), report=None)),
    "a member of another quorum": observed(member(3), member(4)),
    "a voter that is stopped": observed(replace(member(3), replicas=0)),
    "another cluster": observed(
        member(3), identities=(Identity(1, "c2", 1, "u1", 3, formed=True),)
    ),
    "a change under way": observed(member(3), older_quorum=replace(VIEW, pending_change=True)),
}


@pytest.mark.parametrize("seen", REAL.values(), ids=REAL.keys())
@pytest.mark.requirement("OP-07")
def test_other_evidence_of_a_newer_epoch_keeps_the_quorum_older(seen: Observation) -> None:
    assert corrected(seen) is seen
