"""The identity was deleted while no member can start, such as with a wrong image: without it no template can be corrected."""

from dataclasses import replace

import pytest

from quorum_operator.planner.observed import Incarnation, Marks, Observation
from quorum_operator.planner.plan import plan
from quorum_operator.planner.step import RebuildIdentity, Wait
from support.observed_quorum import observation_of, sound_member, sound_pod

UID = "uid-of-q"


def waiting(node_id: int, **marks: object) -> Incarnation:
    """A member whose image can't be pulled."""
    found = sound_member(node_id)
    assert found.claim is not None
    noted = Marks(uuid=f"u{node_id}", cluster_id="c1", resource_uid=UID, formation=1)
    return replace(
        found,
        cluster_id="c1",
        report=None,
        pod=sound_pod(node_id, ready=False, running=False, waiting_reason="ImagePullBackOff"),
        claim=replace(found.claim, marks=replace(noted, **marks)),  # type: ignore[arg-type]
    )


def without_identity(members: list[Incarnation], **changes: object) -> Observation:
    known: dict[str, object] = {
        "identities": (),
        "resource_uid": UID,
        "known_cluster_id": "c1",
        "known_voters": 3,
    }
    return observation_of(members, **{**known, **changes})  # type: ignore[arg-type]


def test_identity_is_recreated_from_sets_claims_and_status_while_nothing_runs() -> None:
    step = plan(without_identity([waiting(n) for n in (1, 2, 3)]))
    assert isinstance(step, RebuildIdentity), step
    assert (step.cluster_id, step.founding, step.formed) == ("c1", None, True)


@pytest.mark.parametrize(
    "seen",
    [
        without_identity([waiting(n) for n in (1, 2, 3)], known_cluster_id="other"),
        without_identity([waiting(n) for n in (1, 2, 3)], known_cluster_id=None),
        without_identity([waiting(n) for n in (1, 2, 3)], known_voters=0),
        without_identity([waiting(n, cluster_id="other") for n in (1, 2, 3)]),
        without_identity([waiting(n, resource_uid="earlier") for n in (1, 2, 3)]),
        without_identity(
            [waiting(1), waiting(2), replace(waiting(3), pod=sound_pod(3, ready=False))]
        ),
    ],
)
def test_identity_is_not_recreated_if_anything_contradicts_or_may_still_answer(
    seen: Observation,
) -> None:
    assert isinstance(plan(seen), Wait)
