"""Nodes are drained and lost; a founder is lost before the quorum has formed."""

import pytest

from support.trial import kube
from support.trial.arena import MOVE_TIMEOUT_S, Arena
from support.trial.bed import Disk, nodes, programs, run
from support.trial.waiting import stays, wait_for

pytestmark = [pytest.mark.timeout(900), pytest.mark.long]


@pytest.mark.requirement("OP-03")
def test_a_drained_node_moves_nobody(arena: Arena) -> None:
    quorum = arena.create_under_load(3)
    before = quorum.wait_healthy(3, timeout_s=30)
    incarnations = arena.incarnations()
    victim = arena.voter(leader=True, described=before)
    node = arena.faults.node_of(quorum.pod_of(victim.id, victim.uuid))
    kubectl(arena, "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=60s")
    try:
        stays(
            "no move for a drained node",
            lambda: arena.incarnations() == incarnations,
            for_s=45,
        )
        arena.the_load.wait_for_acknowledgement(timeout_s=10)
    finally:
        kubectl(arena, "uncordon", node)
    after = quorum.wait_healthy(3, timeout_s=MOVE_TIMEOUT_S)
    assert after.keys == before.keys
    arena.prove_nothing_lost()


@pytest.mark.requirement("OP-04")
def test_a_deleted_node_with_local_volumes_is_left(arena: Arena) -> None:
    quorum = arena.create_under_load(3)
    before = quorum.wait_healthy(3, timeout_s=30)
    victim = arena.voter(leader=False, described=before)
    node = arena.faults.node_of(quorum.pod_of(victim.id, victim.uuid))
    nodes.stop_node(node)
    arena.stage.api.delete(f"{kube.NODES}/{node}")
    try:
        gone = (victim.id, victim.uuid)
        after = quorum.wait_healthy(
            3, timeout_s=2 * MOVE_TIMEOUT_S, also=lambda now: gone not in now.keys
        )
        # The lost pod's object stays until Kubernetes collects it; the members' own pods count.
        hosts = {arena.faults.node_of(quorum.pod_of(*key)) for key in after.keys}
        assert node not in hosts
        assert len(before.keys & after.keys) == 2
        arena.prove_nothing_lost()
    finally:
        nodes.start_node(node)
        wait_for("the node to be back", lambda: is_ready(arena, node), timeout_s=120)


def test_a_founder_lost_before_formation_founds_again_under_a_new_cluster_id(
    arena: Arena,
) -> None:
    # Two free disks only: the third member has nowhere to live, so the quorum can't form yet.
    free = [name for name, phase in arena.stage.volumes.phases().items() if phase == "Available"]
    for name in free[2:]:
        arena.stage.volumes.remove(Disk.of_volume(name))
    try:
        quorum = arena.apply(replicas=3)
        path = kube.core(arena.namespace, "configmaps", f"{quorum.name}-identity")
        identity = wait_for("the identity", lambda: arena.stage.api.find(path), timeout_s=60)
        founder = int(identity["data"]["founderId"])
        pod = wait_for("the founder's pod", lambda: answering(arena, founder), timeout_s=90)
        node = quorum.node_description(pod)
        assert not node["formed"]
        arena.faults.fail_disk(founder, node["replicaUuid"])
    finally:
        arena.stage.provide_disks(4)
    after = quorum.wait_healthy(3, timeout_s=2 * MOVE_TIMEOUT_S)
    assert after.document["clusterId"] != identity["data"]["clusterId"]
    arena.start_load()
    arena.prove_nothing_lost()


def answering(arena: Arena, node_id: int) -> str | None:
    """The member's pod, once its node says who it is."""
    quorum = arena.the_quorum
    for pod in quorum.pods():
        name: str = pod["metadata"]["name"]
        mine = pod["metadata"]["labels"].get("metadataquorum.dev/node-id") == str(node_id)
        if mine and quorum.node_description(name):
            return name
    return None


def kubectl(arena: Arena, *words: str) -> None:
    command = [str(programs.kubectl()), "--kubeconfig", str(arena.stage.kubeconfig)]
    run([*command, *words], timeout_s=120)


def is_ready(arena: Arena, node: str) -> bool:
    found = arena.stage.api.find(f"{kube.NODES}/{node}")
    conditions = found["status"].get("conditions", []) if found else []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
