"""The founder's StatefulSet and claim are gone before the quorum has formed: a person is told what to do."""

from dataclasses import replace

import pytest

from quorum_operator.planner.observed import Founding, Identity, Incarnation
from quorum_operator.planner.plan import plan
from quorum_operator.planner.step import Wait
from support.observed_quorum import observation_of, sound_member

IDENTITY = Identity(1, "c1", 1, "u1", 3, formed=False)


def waiting(node_id: int, **changes: object) -> Incarnation:
    found = sound_member(node_id, report=None)
    return replace(found, **changes)  # type: ignore[arg-type]


def reason(*members: Incarnation) -> str:
    step = plan(observation_of(members, size=3, identities=(IDENTITY,)))
    assert isinstance(step, Wait), step
    return step.reason


OTHERS = (waiting(2), waiting(3))


@pytest.mark.parametrize(
    "first",
    [(), (waiting(1, number=2, name="q-1-2", uuid="successor"),)],
    ids=["none", "successor"],
)
def test_it_is_reported(first: tuple[Incarnation, ...]) -> None:
    """Also if a successor has its id: the founder led alone for a moment."""
    assert "delete the resource and apply it again" in reason(*first, *OTHERS)


@pytest.mark.parametrize("uuid", ["u1", None])
def test_founder_that_is_there_is_awaited(uuid: str | None) -> None:
    """Also if the note of its UUID was removed."""
    founder = waiting(1, uuid=uuid, founding=Founding(1, "u1", 3), cluster_id="c1")
    assert reason(founder, *OTHERS) == "the founder is starting"
