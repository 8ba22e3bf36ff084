"""Three pods that are controllers and brokers, as docs/how-to/broker-combined.md applies them: the disk of one of them is replaced."""

import pytest

from support.envtest.kube_api import Json
from support.kind_env import kube
from support.kind_env.environment import KindEnv
from support.kind_env.python_kafka import CombinedKafkaBrokers
from support.kind_env.quorum import Described, described
from support.kind_env.testbed import TestbedError, Volumes
from support.kind_env.waiting import wait_for

pytestmark = [pytest.mark.long, pytest.mark.timeout(1200)]

IDS = (101, 102, 103)
FOUNDER = 101


def pod_of(node_id: int) -> str:
    return f"kafka-{node_id}"


def view(brokers: CombinedKafkaBrokers, node_id: int) -> Described | None:
    """What a majority confirms, asked in this pod; None without an answer."""
    try:
        return described(brokers.quorumctl(pod_of(node_id), "describe"))
    except TestbedError:
        return None


def wait_for_voters(brokers: CombinedKafkaBrokers, asked: int) -> Described:
    """Wait until all three are caught-up voters."""
    last: list[Described | None] = [None]

    def healthy() -> Described | None:
        last[0] = now = view(brokers, asked)
        return now if now is not None and now.healthy(len(IDS)) else None

    return wait_for("three voters", healthy, timeout_s=240, seen=lambda: last[0])


def renew(env: KindEnv, pod: str) -> None:
    """Delete the claim and the pod until the pod has another claim, as the guide's third step."""
    pods, claims = (
        kube.core(env.namespace, plural, name)
        for plural, name in (("pods", pod), ("persistentvolumeclaims", f"data-{pod}"))
    )
    api = env.cluster.api
    before = api.get(claims)["metadata"]["uid"]
    api.delete(claims)

    def found(path: str) -> Json:
        return api.find(path) or {}

    def renewed() -> bool:
        claim = found(claims)
        is_new = claim.get("metadata", {}).get("uid", before) != before
        if is_new and found(pods).get("status", {}).get("phase") == "Running":
            return True
        if not is_new:
            api.delete(pods)
        return False

    wait_for(f"{pod} on a new volume", renewed, timeout_s=120, seen=lambda: found(pods), poll_s=2)


def test_the_disk_of_a_controller_and_broker_is_replaced_by_the_steps_of_the_guide(
    env: KindEnv,
) -> None:
    """A stock producer and a group lose no record, and the replicas on the empty disk are in sync again."""
    with CombinedKafkaBrokers(env.cluster, env.namespace, env.folder / "kafka") as brokers:
        brokers.wait_ready()
        formed = wait_for_voters(brokers, FOUNDER)
        brokers.forget_formation()
        clients = brokers.clients
        clients("create t 6 3")
        clients.start_load("t", 100)
        clients("follow t followers")
        clients.wait_for_load("t", 300)

        # The founder is the hardest case: with the keys of the formation it would form another quorum.
        lost_id = FOUNDER if formed.leader_id != FOUNDER else max(IDS)
        leader_id = formed.leader_id
        lost_uuid = next(each.uuid for each in formed.voters if each.id == lost_id)
        volumes = Volumes(env.cluster.name, env.cluster.kubeconfig)
        volumes.disks.fail(volumes.disk_of_claim(env.namespace, f"data-{pod_of(lost_id)}"))
        brokers.wait_pod_ready(lost_id, ready=False)
        clients.wait_for_load("t", 300)

        brokers.quorumctl(pod_of(leader_id), "remove-voter", str(lost_id), lost_uuid)
        renew(env, pod_of(lost_id))
        now = wait_for_voters(brokers, leader_id)
        assert (lost_id, lost_uuid) not in now.keys
        brokers.wait_ready()
        wait_for("all replicas in sync", lambda: clients.in_sync("t"), timeout_s=120)
        clients.wait_for_load("t", 300)
        clients.prove_nothing_lost("t", "readers")
        assert clients("followed t 60000") == "0", "the group was recreated"
