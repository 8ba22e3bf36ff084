"""Nodes are drained, stay away and are lost; a founder is lost before the quorum has formed."""

import pytest

from support.kind_env import kube
from support.kind_env.environment import MOVE_TIMEOUT_S, KindEnv
from support.kind_env.testbed import Disk, nodes, programs, run
from support.kind_env.waiting import stays, wait_for

pytestmark = [pytest.mark.timeout(900), pytest.mark.long]


@pytest.mark.requirement("OP-03")
def test_draining_a_node_replaces_no_member(env: KindEnv) -> None:
    quorum = env.create_under_load(3)
    before = quorum.wait_healthy(3, timeout_s=30)
    incarnations = env.incarnations()
    victim = env.voter(leader=True, described=before)
    node = env.faults.node_of(quorum.pod_of(victim.id, victim.uuid))
    kubectl(env, "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=60s")
    try:
        stays(
            "no move for a drained node",
            lambda: env.incarnations() == incarnations,
            for_s=45,
        )
        env.the_load.wait_for_acknowledgement(timeout_s=10)
    finally:
        kubectl(env, "uncordon", node)
    after = quorum.wait_healthy(3, timeout_s=MOVE_TIMEOUT_S)
    assert after.keys == before.keys
    env.prove_nothing_lost()


@pytest.mark.requirement("OP-04")
def test_members_with_local_volumes_are_moved_off_a_deleted_node(env: KindEnv) -> None:
    quorum = env.create_under_load(3)
    before = quorum.wait_healthy(3, timeout_s=30)
    victim = env.voter(leader=False, described=before)
    node = env.faults.node_of(quorum.pod_of(victim.id, victim.uuid))
    nodes.stop_node(node)
    env.cluster.api.delete(f"{kube.NODES}/{node}")
    try:
        gone = (victim.id, victim.uuid)
        after = quorum.wait_healthy(
            3, timeout_s=2 * MOVE_TIMEOUT_S, also=lambda now: gone not in now.keys
        )
        # The lost pod's object stays until Kubernetes collects it; the members' own pods count.
        hosts = {env.faults.node_of(quorum.pod_of(*key)) for key in after.keys}
        assert node not in hosts
        assert len(before.keys & after.keys) == 2
        env.prove_nothing_lost()
    finally:
        nodes.start_node(node)
        wait_for("the node to be back", lambda: is_ready(env, node), timeout_s=120)


_NOT_READY_S = 120.0
"""Kubernetes calls a Node not ready when its kubelet has said nothing for 50 s."""


@pytest.mark.requirement("OP-04")
def test_member_is_replaced_only_when_its_host_stays_unavailable(
    env: KindEnv,
) -> None:
    """First the member continues on an unready Node; then the host is off, and returns to a quorum without
    it.
    """
    quorum = env.create_under_load(3, repair={"unreachableAfterSeconds": 15})
    before = quorum.wait_healthy(3, timeout_s=30)
    incarnations = env.incarnations()
    victim = env.voter(leader=False, described=before)
    node = env.faults.node_of(quorum.pod_of(victim.id, victim.uuid))
    nodes.stop_kubelet(node)
    try:
        env.wait_until(
            "a Node that is not ready", lambda: not is_ready(env, node), timeout_s=_NOT_READY_S
        )
        message = f"host {node} of member {victim.id} is not ready, but the member fetches from the leader"
        env.wait_until("the plan to say so", lambda: message in plan_of(env), timeout_s=60)
        stays(
            "no move while the member fetches from the leader",
            lambda: env.incarnations() == incarnations,
            for_s=30,
        )
        assert quorum.condition_is("MembersUnreachable", "False")

        nodes.stop_node(node)
        env.wait_until(
            "the status to name the member and its host",
            lambda: names_the_host(env, victim.id, node),
            timeout_s=60,
        )
        gone = (victim.id, victim.uuid)
        after = quorum.wait_healthy(
            3, timeout_s=2 * MOVE_TIMEOUT_S, also=lambda now: gone not in now.keys
        )
        assert len(before.keys & after.keys) == 2
        hosts = {env.faults.node_of(quorum.pod_of(*key)) for key in after.keys}
        assert node not in hosts
    finally:
        nodes.start_node(node)
    wait_for("the node to be back", lambda: is_ready(env, node), timeout_s=_NOT_READY_S)
    env.wait_until(
        "no member is unreachable",
        lambda: quorum.condition_is("MembersUnreachable", "False"),
        timeout_s=60,
    )
    env.wait_until(
        "three StatefulSets", lambda: len(env.incarnations()) == 3, timeout_s=MOVE_TIMEOUT_S
    )
    quorum.wait_phase("Ready", timeout_s=60)
    assert quorum.wait_healthy(3, timeout_s=30).keys == after.keys
    env.prove_nothing_lost()


def plan_of(env: KindEnv) -> str:
    return str((env.the_quorum.status().get("plan") or {}).get("reason", ""))


def names_the_host(env: KindEnv, node_id: int, node: str) -> bool:
    condition = env.the_quorum.condition("MembersUnreachable")
    if condition is None or condition["status"] != "True":
        return False
    message = condition["message"]
    return f"member {node_id} (" in message and f"host {node} is not ready" in message


def test_founder_lost_before_formation_is_replaced_under_a_new_cluster_id(
    env: KindEnv,
) -> None:
    # Two free disks only: the third member has nowhere to live, so the quorum can't form yet.
    free = [name for name, phase in env.cluster.volumes.phases().items() if phase == "Available"]
    for name in free[2:]:
        env.cluster.volumes.remove(Disk.of_volume(name))
    try:
        quorum = env.apply(replicas=3)
        path = kube.core(env.namespace, "configmaps", f"{quorum.name}-identity")
        identity = wait_for("the identity", lambda: env.cluster.api.find(path), timeout_s=60)
        founder = int(identity["data"]["founderId"])
        pod = wait_for("the founder's pod", lambda: answering(env, founder), timeout_s=90)
        node = quorum.node_description(pod)
        assert not node["formed"]
        env.faults.fail_disk(founder, node["replicaUuid"])
    finally:
        env.cluster.provide_disks(4)
    after = quorum.wait_healthy(3, timeout_s=2 * MOVE_TIMEOUT_S)
    assert after.document["clusterId"] != identity["data"]["clusterId"]
    env.start_load()
    env.prove_nothing_lost()


def answering(env: KindEnv, node_id: int) -> str | None:
    """The member's pod, once its node reports its id."""
    quorum = env.the_quorum
    for pod in quorum.pods():
        name: str = pod["metadata"]["name"]
        mine = pod["metadata"]["labels"].get("metadataquorum.dev/node-id") == str(node_id)
        if mine and quorum.node_description(name):
            return name
    return None


def kubectl(env: KindEnv, *words: str) -> None:
    command = [str(programs.kubectl()), "--kubeconfig", str(env.cluster.kubeconfig)]
    run([*command, *words], timeout_s=120)


def is_ready(env: KindEnv, node: str) -> bool:
    found = env.cluster.api.find(f"{kube.NODES}/{node}")
    conditions = found["status"].get("conditions", []) if found else []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
