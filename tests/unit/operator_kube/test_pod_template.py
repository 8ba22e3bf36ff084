"""How a pod compares with a StatefulSet's template that has changed since the pod was created."""

from typing import Any

import pytest

from quorum_operator.kube import facts
from quorum_operator.kube.pod_template import with_template
from quorum_operator.planner.observed import PodFacts


def owned_and_pod(
    pod_args: list[str], set_args: list[str], was: dict[str, Any], wanted: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A pod of an earlier revision than its StatefulSet's template, and where the two are to run."""

    def spec(arguments: list[str], placed: dict[str, Any]) -> dict[str, Any]:
        container = {"name": "node", "image": "node:1", "args": arguments}
        return {"containers": [container], **placed}

    meta = {"name": "p", "uid": "u", "creationTimestamp": "2026-01-02T03:00:00Z"}
    running = {
        "metadata": {**meta, "labels": {"controller-revision-hash": "q-1-1-old"}},
        "spec": {"nodeName": "h1", **spec(pod_args, was)},
        "status": {"containerStatuses": [{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]},
    }
    owned = {
        "metadata": {"generation": 2},
        "spec": {"template": {"spec": spec(set_args, wanted)}},
        "status": {"updateRevision": "q-1-1-new", "observedGeneration": 2},
    }
    return owned, running


def compared(
    pod_args: list[str],
    set_args: list[str],
    was: dict[str, Any] | None = None,
    wanted: dict[str, Any] | None = None,
) -> PodFacts:
    owned, running = owned_and_pod(pod_args, set_args, was or {}, wanted or {})
    return with_template(facts.pod_facts(running, None), running, owned)


COMMON = ["--config", "node.properties", "--override", "node.id=1"]
PERMISSION = [
    "--override", "formation.initial.voters=3", "--override", "formation.founder.id=1",
    "--override", "formation.founder.uuid=AAAAAAAAAAAAAAAAAAAAAQ",
]  # fmt: skip


@pytest.mark.requirement("OP-05")
def test_removed_format_permission_is_not_a_changed_program() -> None:
    for before, after in (
        (COMMON + PERMISSION, COMMON),
        (COMMON[:2] + PERMISSION + COMMON[2:], COMMON),
    ):
        found = compared(before, after)
        assert not found.outdated, "it is not replaced when it crashes"
        assert not found.runs_other


@pytest.mark.requirement("OP-05")
def test_any_other_changed_argument_is_a_changed_program() -> None:
    for after in (
        [*COMMON, "--override", "rack=a"],
        COMMON[:-2],
        [*COMMON, "formation.initial.voters=3"],
    ):
        assert compared(COMMON + PERMISSION, after).runs_other, after


@pytest.mark.requirement("OP-05")
def test_environment_variables_and_mounts_are_compared_exactly() -> None:
    """As spec.podTemplate gives them: several, each of them an object."""
    several = {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}
    fewer = {"env": several["env"][:1]}
    for was, wanted, other in ((several, several, False), (fewer, several, True)):
        owned, running = owned_and_pod(COMMON, COMMON, {}, {})
        running["spec"]["containers"][0].update(was)
        owned["spec"]["template"]["spec"]["containers"][0].update(wanted)
        found = with_template(facts.pod_facts(running, None), running, owned)
        assert found.runs_other == other


LIMITS = {"limits": {"cpu": "1", "memory": "1Gi"}}
RANGED = "LimitRanger plugin set: cpu, memory request for container node; memory limit for container node"


@pytest.mark.parametrize(
    ("was", "wanted", "note", "other"),
    [
        ({**LIMITS, "requests": LIMITS["limits"]}, LIMITS, None, False),
        ({"requests": {"cpu": "50m", "memory": "1Gi"}, "limits": {"memory": "1Gi"}}, {}, RANGED, False),
        ({"requests": {"cpu": "50m"}, "limits": {"memory": "1Gi"}}, {"requests": {"cpu": "50m"}}, RANGED, False),
        ({"requests": {"cpu": "50m"}}, {}, RANGED.replace("node", "proxy"), True),
        ({"requests": {"cpu": "50m"}}, {}, "edited", True),
        ({"requests": {"cpu": "50m"}}, {}, None, True),
        ({"requests": {"cpu": "50m"}}, {"requests": {"cpu": "60m"}}, RANGED, True),
        ({}, LIMITS, None, True),
        ({**LIMITS, "requests": LIMITS["limits"]}, {"requests": {"cpu": "100m"}, **LIMITS}, None, True),
    ],
)  # fmt: skip
def test_resources_that_kubernetes_adds_to_a_pod_are_no_changed_program(
    was: dict[str, Any], wanted: dict[str, Any], note: str | None, other: bool
) -> None:
    """Requests equal to the limits, and the defaults of a LimitRange."""
    owned, running = owned_and_pod(COMMON, COMMON, {}, {})
    running["spec"]["containers"][0]["resources"] = was
    running["metadata"]["annotations"] = {"kubernetes.io/limit-ranger": note} if note else {}
    owned["spec"]["template"]["spec"]["containers"][0]["resources"] = wanted
    found = with_template(facts.pod_facts(running, None), running, owned)
    assert found.runs_other == other
    assert found.outdated


GIVEN = [
    {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
    {"key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"},
]
OWN = {"key": "disks", "operator": "Exists"}
HERE, THERE = ({"nodeSelector": {"disk": disk}} for disk in ("nvme", "hdd"))


@pytest.mark.parametrize(
    ("was", "wanted"),
    [
        (HERE, THERE),
        (HERE, {}),
        ({}, {"affinity": {"nodeAffinity": {}}}),
        ({}, {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone"}]}),
        ({"tolerations": GIVEN}, {"tolerations": [OWN]}),
        ({"tolerations": [OWN, *GIVEN]}, {}),
    ],
)
@pytest.mark.requirement("OP-05")
def test_founder_with_changed_placement_is_replaced_when_it_crashes(
    was: dict[str, Any], wanted: dict[str, Any]
) -> None:
    found = compared(COMMON + PERMISSION, COMMON, was, wanted)
    assert found.outdated
    assert not found.runs_other, "a running pod was replaced"


@pytest.mark.parametrize(
    ("was", "wanted"),
    [
        (HERE, HERE),
        ({"nodeSelector": {}, "tolerations": GIVEN}, {}),
        ({"tolerations": [OWN, *GIVEN]}, {"tolerations": [OWN]}),
        ({"tolerations": GIVEN}, {"tolerations": GIVEN[:1]}),
    ],
)
@pytest.mark.requirement("OP-05")
def test_founder_with_unchanged_placement_is_not_replaced_when_it_crashes(
    was: dict[str, Any], wanted: dict[str, Any]
) -> None:
    assert not compared(COMMON + PERMISSION, COMMON, was, wanted).outdated


@pytest.mark.parametrize(
    ("image", "waiting", "outdated"),
    [
        ("no-such:1", "ImagePullBackOff", True),
        ("no-such:1", "CrashLoopBackOff", False),
        ("node:1", "ImagePullBackOff", False),
    ],
)
def test_restart_does_not_wait_for_an_image_edited_in_the_pod(
    image: str, waiting: str, outdated: bool
) -> None:
    owned, running = owned_and_pod(COMMON, COMMON, {}, {})
    owned["status"]["updateRevision"] = "q-1-1-old"
    running["spec"]["containers"][0]["image"] = image
    running["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] = waiting
    found = with_template(facts.pod_facts(running, None), running, owned)
    assert found.outdated is outdated
    assert not found.runs_other


@pytest.mark.parametrize(
    ("image", "waiting", "outdated"),
    [
        ("node:2", "ImagePullBackOff", True),
        ("node:1", "ImagePullBackOff", False),
        ("node:2", "CrashLoopBackOff", False),
    ],
)
def test_image_edited_in_a_pod_without_its_revision_label_is_found(
    image: str, waiting: str, outdated: bool
) -> None:
    """Who strips the labels of a pod takes off the one by which Kubernetes names its revision; nobody restores that."""
    owned, running = owned_and_pod(COMMON, COMMON, {}, {})
    running["metadata"]["labels"] = {}
    running["spec"]["containers"][0]["image"] = image
    running["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] = waiting
    assert with_template(facts.pod_facts(running, None), running, owned).outdated is outdated


@pytest.mark.parametrize(
    ("edit", "waiting", "generation", "outdated"),
    [
        ({"image": "pause:3"}, "CrashLoopBackOff", 2, True),
        ({"image": "pause:3"}, "RunContainerError", 2, True),
        ({"resources": {"limits": {"memory": "16Mi"}}}, "CrashLoopBackOff", 3, True),
        ({}, "CrashLoopBackOff", 2, False),
        ({"image": "mirror/node:1"}, "CrashLoopBackOff", 1, False),
        ({"image": "mirror/node:1"}, "CrashLoopBackOff", None, False),
        ({"image": "pause:3"}, None, 2, False),
    ],
    ids=[
        "image",
        "cannot run",
        "resized",
        "a toleration",
        "by a webhook",
        "before 1.33",
        "running",
    ],
)
def test_crashing_pod_is_replaced_if_its_program_was_edited_in_it(
    edit: dict[str, Any], waiting: str | None, generation: int | None, outdated: bool
) -> None:
    """Its StatefulSet and its labels are as they were, and the kubelet would restart the edited container for ever."""
    owned, edited = owned_and_pod(COMMON, COMMON, {}, {})
    owned["status"]["updateRevision"] = "q-1-1-old"
    edited["metadata"] |= {} if generation is None else {"generation": generation}
    edited["spec"]["containers"][0].update(edit)
    state = {"running": {}} if waiting is None else {"waiting": {"reason": waiting}}
    edited["status"]["containerStatuses"] = [{"state": state}]
    found = with_template(facts.pod_facts(edited, None), edited, owned)
    assert found.outdated is outdated
    assert not found.runs_other, "a running pod was replaced"
