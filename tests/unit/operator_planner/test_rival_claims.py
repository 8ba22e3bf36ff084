"""Two claims of one member that may both be used, and nobody who knows the voters: a person is asked, and the decision is carried out."""

from dataclasses import replace

from quorum_operator.planner.conditions import CLAIMS_IN_DOUBT
from quorum_operator.planner.observed import ClaimFacts, LoneClaim, Marks, Observation
from quorum_operator.planner.plan import plan
from quorum_operator.planner.status import build_status
from quorum_operator.planner.step import RebuildMember
from quorum_operator.status_crd import Condition, MetadataQuorumStatus
from support.observed_quorum import STORAGE, observation_of, sound_member


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


def test_rival_claims_need_a_decision() -> None:
    """Replicas of both could be two majorities."""
    seen = _seen(*RIVALS)
    assert not isinstance(plan(seen), RebuildMember)
    found = _condition(seen)
    assert (found.status, found.reason) == ("True", "NotCertain")
    for each in RIVALS:
        assert each.claim.name in found.message
    assert "metadataquorum.dev/removed" in found.message


def test_claims_that_are_left_by_the_decision_are_used() -> None:
    given_up = [_lone(each, 2, removed="by hand") for each in (1, 2, 3)]
    seen = _seen(*given_up, *RIVALS[::2])
    step = plan(seen)
    assert isinstance(step, RebuildMember)
    assert step.claim.number == 1
    assert _condition(seen).status == "False"


def test_rivals_of_a_member_that_has_a_set_wait_for_its_answer() -> None:
    silent = sound_member(1, report=None)
    seen = observation_of([silent], size=3, lone_claims=RIVALS[:2], resource_uid="r")
    assert _condition(seen).status == "False"
