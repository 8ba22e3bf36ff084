"""The operator is killed, doubled and uninstalled while it works; a wrong resource is refused."""

from collections.abc import Callable

import pytest

from support.envtest.kube_api import ApiError
from support.kind_env import installation, kube, operator_cluster
from support.kind_env.environment import MOVE_TIMEOUT_S, KindEnv
from support.kind_env.installation import EXAMPLE
from support.kind_env.quorum import Described
from support.kind_env.testbed import STORAGE_CLASS, project_images
from support.kind_env.waiting import wait_for
from support.yaml_text import read_yaml

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


def test_invalid_spec_is_rejected_at_apply(refusals: KindEnv) -> None:
    env = refusals
    for spec, name, says in _WRONG:
        document = env.document(**spec)
        document["metadata"]["name"] = name
        with pytest.raises(ApiError) as refused:
            env.cluster.api.create(kube.quorums(env.namespace), document)
        assert refused.value.status == 422, (spec, name)
        assert says in refused.value.body, (spec, name)
    assert env.cluster.api.list(kube.quorums(env.namespace)) == []


def test_invalid_spec_changes_are_rejected_and_a_missing_storage_class_is_reported(
    refusals: KindEnv,
) -> None:
    env = refusals
    quorum = env.apply(replicas=3, storage={"size": "200Mi", "storageClassName": "no-such"})
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
def test_operator_killed_during_a_replacement_resumes_it_after_restart(
    env: KindEnv, point: str
) -> None:
    quorum = env.create_under_load(3)
    before = quorum.wait_healthy(3, timeout_s=30)
    incarnations = env.incarnations()
    failed = env.fail_disk(env.voter(leader=False, described=before))
    old = (failed.node_id, failed.uuid)

    def voters(holds: Callable[[Described], bool]) -> Callable[[], bool]:
        def probe() -> bool:
            now = quorum.describe()
            return now is not None and holds(now)

        return probe

    reached: dict[str, Callable[[], bool]] = {
        "successor made": lambda: env.incarnations() > incarnations,
        "successor added": voters(lambda now: bool(now.keys - before.keys)),
        "predecessor removed": voters(lambda now: old not in now.keys),
    }
    wait_for(point, reached[point], timeout_s=90, seen=env.summary, poll_s=0.05)
    env.kill_operator()
    after = env.wait_replaced(failed, 3)
    quorum.wait_phase("Ready", timeout_s=90)
    assert len(env.incarnations() - incarnations) == 1, "no extra replacement"
    assert len(after.keys - before.keys) == 1
    env.prove_nothing_lost()


@pytest.mark.long
@pytest.mark.requirement("OP-03")
def test_two_concurrent_operators_move_one_member_at_a_time(env: KindEnv) -> None:
    deployment = kube.apps(installation.OPERATOR_NAMESPACE, "deployments", installation.RELEASE)
    quorum = env.create_under_load(3)
    env.cluster.api.merge(deployment, {"spec": {"replicas": 2}})
    try:
        wait_for(
            "two operators",
            lambda: installation.deployment_is_current(env.cluster.api, deployment),
            timeout_s=90,
        )
        quorum.scale(5)
        quorum.wait_healthy(5, timeout_s=MOVE_TIMEOUT_S)
        failed = env.fail_disk(env.voter(leader=False))
        env.wait_replaced(failed, 5)
        quorum.scale(3)
        quorum.wait_healthy(3, timeout_s=MOVE_TIMEOUT_S)
    finally:
        env.cluster.api.merge(deployment, {"spec": {"replicas": 1}})
    assert env.prove_nothing_lost().voter_changes == 2 + 2 + 2 + 2


@pytest.mark.long
@pytest.mark.parametrize(("policy", "kept"), [("Retain", 3), ("Delete", 0)])
def test_deleting_the_resource_follows_its_deletion_policy(
    env: KindEnv, policy: str, kept: int
) -> None:
    quorum = env.create(3, deletionPolicy=policy)
    env.cluster.api.delete(quorum.path)
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
def test_uninstalling_in_any_order_leaves_no_undeletable_object(env: KindEnv, first: str) -> None:
    quorum = env.create(3)
    try:
        if first == "operator":
            installation.helm_uninstall(env.cluster.kubeconfig)
            if env.cluster.api.find(f"{kube.CRDS}/metadataquorums.metadataquorum.dev"):
                env.cluster.api.delete(quorum.path)
        else:
            env.cluster.api.delete(quorum.path)
            quorum.wait_gone(timeout_s=90)
            installation.helm_uninstall(env.cluster.kubeconfig)
        quorum.wait_gone(timeout_s=90)
        env.remove()
    finally:
        operator_cluster.install_operator(env.cluster, project_images.OPERATOR.name)


@pytest.mark.long
@pytest.mark.requirement("OP-02")
def test_plain_manifests_run_a_quorum_like_the_chart(env: KindEnv) -> None:
    kubeconfig, image = env.cluster.kubeconfig, project_images.OPERATOR.name
    installation.helm_uninstall(kubeconfig)
    try:
        installation.apply_manifests(env.cluster.api, kubeconfig, image, env.namespace)
        quorum = env.create_under_load(3)
        env.prove_nothing_lost()
        env.cluster.api.delete(quorum.path)
        quorum.wait_gone(timeout_s=90)
        installation.delete_manifests(kubeconfig, image)
        wait_for(
            "the operator's pod to be gone",
            lambda: not installation.operator_pods(env.cluster.api),
            timeout_s=60,
        )
    finally:
        operator_cluster.install_operator(env.cluster, image)


@pytest.mark.long
def test_example_runs_on_the_default_storage_class(env: KindEnv) -> None:
    document = read_yaml(EXAMPLE.read_text())
    quorum = env.create_under_load(3, storage=document["spec"]["storage"])
    classes = {each["spec"]["storageClassName"] for each in quorum.claims()}
    assert len(classes) == 1
    assert STORAGE_CLASS not in classes
    env.prove_nothing_lost()
