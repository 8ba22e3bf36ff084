"""The operator is killed, doubled and uninstalled while it works; a wrong resource is refused."""

from collections.abc import Callable

import pytest

from support.harness.kube_api import ApiError
from support.trial import installation, kube, stage
from support.trial.arena import MOVE_TIMEOUT_S, Arena
from support.trial.bed import project_images
from support.trial.quorum import Described
from support.trial.waiting import wait_for

pytestmark = pytest.mark.timeout(900)


_WRONG: tuple[tuple[dict[str, object], str, str], ...] = (
    ({"replicas": 4}, "q", "odd"),
    ({"replicas": 0}, "q", "at least 1"),
    ({"replicas": 9}, "q", "at most"),
    ({"replicas": "three"}, "q", "integer"),
    ({}, "q" * 41, "40"),
    ({"config": {"node.id": "7"}}, "q", "spec.retire"),
    ({"storage": {"size": "1Ki"}}, "q", "64Mi"),
)
"""spec, name, and what the refusal has to say."""


def test_a_wrong_resource_is_refused_when_it_is_applied(refusals: Arena) -> None:
    arena = refusals
    for spec, name, says in _WRONG:
        document = arena.document(**spec)
        document["metadata"]["name"] = name
        with pytest.raises(ApiError) as refused:
            arena.stage.api.create(kube.quorums(arena.namespace), document)
        assert refused.value.status == 422, (spec, name)
        assert says in refused.value.body, (spec, name)
    assert arena.stage.api.list(kube.quorums(arena.namespace)) == []


def test_an_existing_quorum_refuses_wrong_changes_and_explains_a_missing_class(
    refusals: Arena,
) -> None:
    arena = refusals
    quorum = arena.apply(replicas=3, storage={"size": "200Mi", "storageClassName": "no-such"})
    condition = quorum.wait_condition("SpecInvalid", timeout_s=60)
    assert "no-such" in condition["message"]
    with pytest.raises(ApiError, match="at least 1"):
        quorum.scale(0)
    with pytest.raises(ApiError, match="odd"):
        quorum.scale(4)
    with pytest.raises(ApiError, match="immutable"):
        quorum.patch({"clusterId": "another"})
    assert quorum.resource()["spec"]["replicas"] == 3


@pytest.mark.long
@pytest.mark.requirement("OP-03")
@pytest.mark.parametrize("point", ["successor made", "successor added", "predecessor removed"])
def test_an_operator_killed_during_a_replacement_goes_on(arena: Arena, point: str) -> None:
    quorum = arena.create_under_load(3)
    before = quorum.wait_healthy(3, timeout_s=30)
    incarnations = arena.incarnations()
    failed = arena.fail_disk(arena.voter(leader=False, described=before))
    old = (failed.node_id, failed.uuid)

    def voters(holds: Callable[[Described], bool]) -> Callable[[], bool]:
        def probe() -> bool:
            now = quorum.describe()
            return now is not None and holds(now)

        return probe

    reached: dict[str, Callable[[], bool]] = {
        "successor made": lambda: arena.incarnations() > incarnations,
        "successor added": voters(lambda now: bool(now.keys - before.keys)),
        "predecessor removed": voters(lambda now: old not in now.keys),
    }
    wait_for(point, reached[point], timeout_s=90, seen=arena.summary, poll_s=0.05)
    arena.kill_operator()
    after = arena.wait_replaced(failed, 3)
    quorum.wait_phase("Ready", timeout_s=90)
    assert len(arena.incarnations() - incarnations) == 1, "no extra replacement"
    assert len(after.keys - before.keys) == 1
    arena.prove_nothing_lost()


@pytest.mark.long
@pytest.mark.requirement("OP-03")
def test_two_operators_alive_at_once_move_one_member_at_a_time(arena: Arena) -> None:
    deployment = kube.apps(installation.OPERATOR_NAMESPACE, "deployments", installation.RELEASE)
    quorum = arena.create_under_load(3)
    arena.stage.api.merge(deployment, {"spec": {"replicas": 2}})
    try:
        wait_for(
            "two operators",
            lambda: installation.deployment_is_current(arena.stage.api, deployment),
            timeout_s=90,
        )
        quorum.scale(5)
        quorum.wait_healthy(5, timeout_s=MOVE_TIMEOUT_S)
        failed = arena.fail_disk(arena.voter(leader=False))
        arena.wait_replaced(failed, 5)
        quorum.scale(3)
        quorum.wait_healthy(3, timeout_s=MOVE_TIMEOUT_S)
    finally:
        arena.stage.api.merge(deployment, {"spec": {"replicas": 1}})
    assert arena.prove_nothing_lost().voter_changes == 2 + 2 + 2 + 2


@pytest.mark.long
@pytest.mark.parametrize(("policy", "kept"), [("Retain", 3), ("Delete", 0)])
def test_deleting_the_resource_follows_its_policy(arena: Arena, policy: str, kept: int) -> None:
    quorum = arena.create(3, deletionPolicy=policy)
    arena.stage.api.delete(quorum.path)
    quorum.wait_gone(timeout_s=90)
    wait_for(
        f"{kept} claims",
        lambda: len(quorum.claims()) == kept,
        timeout_s=60,
        seen=lambda: [claim["metadata"]["name"] for claim in quorum.claims()],
    )


@pytest.mark.long
@pytest.mark.requirement("OP-02")
@pytest.mark.parametrize("first", ["resource", "operator"])
def test_uninstalling_in_any_order_leaves_nothing_stuck(arena: Arena, first: str) -> None:
    quorum = arena.create(3)
    try:
        if first == "operator":
            installation.helm_uninstall(arena.stage.kubeconfig)
            if arena.stage.api.find(f"{kube.CRDS}/metadataquorums.metadataquorum.dev"):
                arena.stage.api.delete(quorum.path)
        else:
            arena.stage.api.delete(quorum.path)
            quorum.wait_gone(timeout_s=90)
            installation.helm_uninstall(arena.stage.kubeconfig)
        quorum.wait_gone(timeout_s=90)
        arena.remove()
    finally:
        stage.install_operator(arena.stage, project_images.OPERATOR.name)


@pytest.mark.long
@pytest.mark.requirement("OP-02")
def test_the_plain_manifests_run_a_quorum_as_well(arena: Arena) -> None:
    kubeconfig, image = arena.stage.kubeconfig, project_images.OPERATOR.name
    installation.helm_uninstall(kubeconfig)
    try:
        installation.apply_manifests(arena.stage.api, kubeconfig, image, arena.namespace)
        quorum = arena.create_under_load(3)
        arena.prove_nothing_lost()
        arena.stage.api.delete(quorum.path)
        quorum.wait_gone(timeout_s=90)
        installation.delete_manifests(kubeconfig, image)
        wait_for(
            "the operator's pod to be gone",
            lambda: not installation.operator_pods(arena.stage.api),
            timeout_s=60,
        )
    finally:
        stage.install_operator(arena.stage, image)
