"""Drains on a real API server, which evicts by the disruption budget: the majority stays, and broken pods can be evicted."""

import pytest

from support.envtest.environment import Env
from support.envtest.kube_api import ApiError
from support.envtest.quorum import ApiServerQuorum
from support.kind_env import kube
from support.kind_env.pod_watch import is_ready
from support.kind_env.waiting import wait_for

pytestmark = [pytest.mark.envtest, pytest.mark.usefixtures("operator"), pytest.mark.long]


def wait_allowed(quorum: ApiServerQuorum, wanted: int) -> None:
    """Until the API server lets so many pods go."""
    path = kube.policy(quorum.namespace, "poddisruptionbudgets", quorum.name)

    def allowed() -> bool:
        found = quorum.api.get(path)
        status = found.get("status") or {}
        current = status.get("observedGeneration") == found["metadata"].get("generation")
        return current and status.get("disruptionsAllowed") == wanted

    wait_for(f"{wanted} may go", allowed, timeout_s=90, seen=lambda: quorum.api.get(path))


def evict(quorum: ApiServerQuorum, pod: str) -> bool:
    """As kubectl drain does; whether it was allowed."""
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": quorum.namespace},
    }
    try:
        quorum.api.call("POST", kube.core(quorum.namespace, "pods", pod) + "/eviction", body)
    except ApiError as refused:
        if refused.status != 429:
            raise
        return False
    return True


def move_away(quorum: ApiServerQuorum, pod: str) -> None:
    """Evict it, which is allowed at once, and wait until it is back and a voter."""
    path = kube.core(quorum.namespace, "pods", pod)
    uid = quorum.api.get(path)["metadata"]["uid"]
    assert evict(quorum, pod), "the drain was refused"

    def is_back() -> bool:
        found = quorum.api.find(path)
        return found is not None and found["metadata"]["uid"] != uid and is_ready(found)

    wait_for(f"{pod} is back", is_back, timeout_s=60, seen=quorum.summary)
    quorum.wait_ready(3)


def test_evictions_keep_the_majority_and_a_broken_pod_blocks_no_drain(
    env: Env,
) -> None:
    quorum = env.create(3, disks=True, repair={"enabled": False})
    load = env.start_load(quorum)
    wait_allowed(quorum, 1)
    first = quorum.voter(leader=True)
    move_away(quorum, quorum.pod_of(first.id, first.uuid))
    wait_allowed(quorum, 1)
    failed = quorum.fail_disk(quorum.voter(leader=False))
    broken = kube.core(quorum.namespace, "pods", failed.pod)
    wait_for("it is broken", lambda: not is_ready(quorum.api.get(broken)), timeout_s=60)
    wait_allowed(quorum, 0)
    others = [pod["metadata"]["name"] for pod in quorum.pods()]
    others.remove(failed.pod)
    assert len(others) == 2
    assert not any(evict(quorum, pod) for pod in others), "the eviction would end the majority"
    # It can't get worse.
    wait_for("who is broken goes", lambda: evict(quorum, failed.pod), timeout_s=30)
    load.wait_for_acknowledgement(timeout_s=30)
    quorum.patch({"repair": {"enabled": True}})
    quorum.wait_replaced(failed, 3)
    wait_allowed(quorum, 1)
    move_away(quorum, others[0])
    env.prove_nothing_lost(load)
