"""A corrected spec reaches members that run, but can't form a quorum or elect a leader with the earlier one."""

from dataclasses import replace

import pytest

from quorum_operator.planner.harm import harm
from quorum_operator.planner.object_facts import Templates
from quorum_operator.planner.observed import Founding, Identity, Observation
from quorum_operator.planner.plan import plan
from quorum_operator.planner.situation import Situation
from quorum_operator.planner.step import RecordFormed, RestartMember, UpdateMember, Wait
from support.observed_quorum import observation_of, sound_member, sound_pod

NEW = Templates("t2", "r2")


def running(*, formed: bool, template: str = "t") -> Observation:
    """Three members that run and answer, and no leader. `template`: of their StatefulSets."""
    members = []
    for node_id in (1, 2, 3):
        report = sound_member(node_id).report
        assert report is not None
        members.append(
            sound_member(
                node_id,
                pod=sound_pod(node_id, ready=False),
                report=replace(report, formed=formed, role="follower"),
                template_hash=template,
                founding=Founding(1, "u1", 3) if node_id == 1 and not formed else None,
            )
        )
    seen = observation_of(members)
    return replace(
        seen,
        identities=(Identity(1, "c1", 1, "u1", 3, formed=formed),),
        templates={each.name: NEW for each in members},
    )


@pytest.mark.parametrize("formed", [False, True])
def test_templates_are_corrected_without_a_leader(formed: bool) -> None:
    step = plan(running(formed=formed))
    assert isinstance(step, UpdateMember), step


def test_running_members_restart_for_a_correction_before_they_have_formed() -> None:
    """Nothing was written yet, and no pod serves."""
    seen = running(formed=False, template="t2")
    step = plan(seen)
    assert isinstance(step, RestartMember), step
    assert step.pod == "q-1-1-0"
    assert harm(Situation(seen), step) is None
    serving = tuple(
        replace(each, pod=replace(each.pod, ready=True))  # type: ignore[type-var]
        for each in seen.incarnations
    )
    assert isinstance(plan(replace(seen, incarnations=serving)), Wait)


def test_running_members_of_a_formed_quorum_do_not_restart_without_a_leader() -> None:
    """The operator may be the only one that does not reach the leader."""
    seen = running(formed=True, template="t2")
    assert isinstance(plan(seen), Wait)
    unformed = plan(running(formed=False, template="t2"))
    assert harm(Situation(seen), unformed) == "no majority confirms a leader"


def test_edited_status_ends_no_formation() -> None:
    """The founder keeps its permission to format until the formation is recorded, which is before the last voter joins."""
    seen = running(formed=False)
    members = tuple(replace(each, cluster_id="c1") for each in seen.incarnations)
    edited = replace(seen, incarnations=members, known_voters=3, known_cluster_id="c1")
    assert not isinstance(plan(edited), RecordFormed)
    withdrawn = tuple(replace(each, founding=None) for each in members)
    assert isinstance(plan(replace(edited, incarnations=withdrawn)), RecordFormed)
