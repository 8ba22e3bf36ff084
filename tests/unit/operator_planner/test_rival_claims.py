"""Several claims of one member that may be used, and nobody who knows the voters: the newest is asked first."""

from dataclasses import replace

import pytest

from quorum_operator.planner.conditions import CLAIMS_IN_DOUBT
from quorum_operator.planner.observed import (
    ClaimFacts,
    HeldLog,
    Incarnation,
    Key,
    LoneClaim,
    Marks,
    NodeReport,
    Observation,
)
from quorum_operator.planner.plan import plan
from quorum_operator.planner.status import build_status
from quorum_operator.planner.step import RebuildMember
from quorum_operator.status_crd import Condition, MetadataQuorumStatus
from support.observed_quorum import NOW, STORAGE, observation_of, sound_member, sound_pod


def _lone(node_id: int, number: int, **marks: object) -> LoneClaim:
    made = Marks(uuid=f"u{node_id}-{number}", cluster_id="c1", resource_uid="r", formation=1)
    name = f"q-{node_id}-{number}"
    made = replace(made, **marks)  # type: ignore[arg-type]
    claim = ClaimFacts(f"data-{name}-0", f"uid-{name}", "Bound", marks=made)
    return LoneClaim(node_id, number, name, claim, STORAGE)


def _seen(*claims: LoneClaim) -> Observation:
    """All members were about to move to other volumes when the resource was deleted; its claims are adopted."""
    return observation_of([], size=3, lone_claims=claims, resource_uid="r")


def _condition(seen: Observation) -> Condition:
    status = build_status(seen, plan(seen), MetadataQuorumStatus(), "")
    return next(each for each in status.conditions if each.type == CLAIMS_IN_DOUBT)


RIVALS = tuple(_lone(node_id, number) for node_id in (1, 2, 3) for number in (1, 2))


def _rebuilt(seen: Observation) -> str:
    step = plan(seen)
    assert isinstance(step, RebuildMember), step
    return step.claim.member


def _member(node_id: int, number: int, **changes: object) -> Incarnation:
    """A member that was created again for its claim."""
    lone = _lone(node_id, number)
    found = sound_member(
        node_id,
        number=number,
        name=lone.member,
        uid=f"uid-{lone.member}",
        uuid=lone.claim.marks.uuid,
        claim=lone.claim,
        pod=sound_pod(node_id, ready=False),
        report=None,
        rebuilt=True,
    )
    return replace(found, **changes)  # type: ignore[arg-type]


def _answering(node_id: int, number: int, *voters: Key) -> Incarnation:
    held = HeldLog(3, 10, 9, 4, frozenset(voters))
    report = NodeReport(f"u{node_id}-{number}", "c1", "observer", True, False, "ok", log=held)
    return _member(node_id, number, report=report)


def test_newest_claim_of_each_member_is_used_first() -> None:
    """Its replica is a voter, or an observer that knows the voters and can't elect a leader."""
    seen, used = _seen(*RIVALS), []
    assert _condition(seen).status == "False"
    for _ in range(3):
        used.append(_rebuilt(seen))
        left = [each for each in seen.lone_claims if each.member not in used]
        members = [_member(node_id, 2, created_at=NOW - 1) for node_id in range(1, len(used) + 1)]
        seen = observation_of(members, size=3, lone_claims=tuple(left), resource_uid="r")
    assert used == ["q-1-2", "q-2-2", "q-3-2"]
    assert not isinstance(plan(seen), RebuildMember), "they may still start"
    assert _condition(seen).status == "False"


def test_voters_that_a_newer_replica_names_are_used() -> None:
    voters = [Key(1, "u1-1"), Key(2, "u2-2"), Key(3, "u3-1")]
    newest = [_answering(node_id, 2, *voters) for node_id in (1, 2, 3)]
    seen = observation_of(newest, size=3, lone_claims=RIVALS[::2], resource_uid="r")
    assert _rebuilt(seen) == "q-1-1"
    after = replace(seen, lone_claims=RIVALS[2:5:2])
    assert _rebuilt(after) == "q-3-1"
    assert _condition(after).status == "False"


def test_older_claim_is_used_if_the_newer_replica_was_never_a_voter() -> None:
    """It has no voters in its log, not even those of the formation."""
    seen = observation_of([_answering(1, 2)], size=3, lone_claims=RIVALS[:1], resource_uid="r")
    assert _rebuilt(seen) == "q-1-1"


@pytest.mark.parametrize(
    ("given_up", "is_used"),
    [
        ({}, False),
        ({"stopped": "by hand", "notes_lost": frozenset({"stopped"})}, True),
        ({"claim": None}, True),
    ],
)
def test_silence_of_the_newer_replica_needs_a_decision(
    given_up: dict[str, object], is_used: bool
) -> None:
    """If its volume is lost with those of other new voters, older replicas could elect a leader without the last records."""
    silent = _member(1, 2, **given_up)
    seen = observation_of([silent], size=3, lone_claims=RIVALS[:1], resource_uid="r")
    if is_used:
        assert _rebuilt(seen) == "q-1-1"
        return
    assert not isinstance(plan(seen), RebuildMember)
    found = _condition(seen)
    assert (found.status, found.reason) == ("True", "NotCertain")
    assert "q-1-2 may hold the voter 1 as well, and does not answer" in found.message
    assert "metadataquorum.dev/removed" in found.message


def test_claims_that_are_left_by_the_decision_are_used() -> None:
    given_up = [_lone(each, 2, removed="by hand") for each in (1, 2, 3)]
    seen = _seen(*given_up, *RIVALS[::2])
    assert _rebuilt(seen) == "q-1-1"
    assert _condition(seen).status == "False"
