"""Which pods are restarted, and that none is while the template it would be made from is not the wanted one."""

from dataclasses import replace

import pytest

from quorum_operator.planner.observed import (
    ClaimFacts,
    Identity,
    Incarnation,
    Key,
    NodeReport,
    Observation,
    PodFacts,
    QuorumView,
    Refusal,
    ReplicaView,
    StorageChoice,
    Templates,
    VolumeFacts,
    Wanted,
)
from quorum_operator.planner.plan import plan
from quorum_operator.planner.step import Nothing, RestartMember, UpdateMember

NOW = 1_000_000.0
MADE_AT = NOW - 1000
STORAGE = StorageChoice("1Gi", None)
CRASHED = {"ready": False, "running": False, "waiting_reason": "CrashLoopBackOff", "exit_code": 78}


def member(node_id: int, **pod: object) -> Incarnation:
    name = f"q-{node_id}-1"
    return Incarnation(
        node_id=node_id,
        number=1,
        name=name,
        uid=f"uid-{name}",
        resource_version="1",
        created_at=MADE_AT,
        formation=1,
        storage=STORAGE,
        uuid=f"u{node_id}",
        template_hash="t",
        pod=replace(
            PodFacts(f"{name}-0", f"pod-{node_id}", MADE_AT, restart_hash="r"),
            **pod,  # type: ignore[arg-type]
        ),
        claim=ClaimFacts(f"data-{name}-0", "c", volume=f"pv{node_id}"),
        volume=VolumeFacts(f"pv{node_id}", hosts=(f"h{node_id}",)),
        report=NodeReport(f"u{node_id}", "c1", "follower", True, True, "ok"),
    )


def observation(third: Incarnation, *, refused: bool = False, **seen: object) -> Observation:
    """Three voters; the update of the third's template is refused for now, or not."""
    members = (member(1), member(2), third)
    well = third.pod is not None and third.pod.ready
    voters = tuple(ReplicaView(Key(n, f"u{n}"), n < 3 or well, n < 3 or well) for n in (1, 2, 3))
    refusal = Refusal("UpdateMember", "StatefulSet/q-3-1", "Conflict", "", NOW + 9, NOW, tell=False)
    found = Observation(
        now=NOW,
        name="q",
        generation=1,
        wanted=Wanted(3, STORAGE, debounce_s=30.0),
        identities=(Identity(1, "c1", 1, "u1", 3, formed=True),),
        incarnations=members,
        templates={each.name: Templates("t", "r") for each in members},
        view=QuorumView("c1", Key(1, "u1"), 4, voters, (), 9, 3, True, False, True, True, 3),
        known_voters=3,
        refusals=(refusal,) if refused else (),
    )
    return replace(found, **seen)  # type: ignore[arg-type]


@pytest.mark.requirement("OP-01")
@pytest.mark.parametrize("pod", [{}, CRASHED], ids=["runs", "crashes"])
def test_no_pod_is_created_from_a_foreign_template(pod: dict[str, object]) -> None:
    changed = replace(
        member(3, outdated=True, runs_other=True, **pod), drift="spec.template.spec.containers"
    )
    assert isinstance(plan(observation(changed)), UpdateMember)
    assert not isinstance(plan(observation(changed, refused=True)), RestartMember)
    mended = plan(observation(replace(changed, drift=None)))
    assert isinstance(mended, RestartMember), "now it is made from the wanted one"


@pytest.mark.requirement("OP-01")
def test_pod_that_crashed_with_a_replaced_configuration_is_recreated() -> None:
    """Its mounted files may be outdated: the kubelet does not read an immutable ConfigMap twice."""
    crashed = member(3, **CRASHED)
    for created_at in (MADE_AT + 5, MADE_AT):
        step = plan(observation(crashed, config_created_at=created_at))
        assert isinstance(step, RestartMember), "within one second nobody knows which came first"
        assert step.pod_uid == "pod-3"
    for created_at in (None, MADE_AT - 5, MADE_AT - 1):
        same = plan(observation(crashed, config_created_at=created_at))
        assert not isinstance(same, RestartMember)
    well = plan(observation(member(3), config_created_at=MADE_AT + 5))
    assert isinstance(well, Nothing), "one that runs has read what it needs"
    waits = member(3, ready=False, running=False, waiting_reason="ContainerCreating")
    assert not isinstance(plan(observation(waits, config_created_at=MADE_AT + 5)), RestartMember), (
        "it has not read any configuration yet"
    )
