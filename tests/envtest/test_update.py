"""Updates on a real API server: a canary goes first, a failed one goes back, windows hold everything but repairs."""

from datetime import datetime

import pytest

from support.envtest.environment import OTHER_NODE_IMAGE, Env
from support.envtest.kube_api import Json
from support.envtest.quorum import MOVE_TIMEOUT_S, ApiServerQuorum
from support.kind_env import kube
from support.kind_env.pod_watch import PodWatch, is_ready
from support.kind_env.waiting import stays, wait_for

pytestmark = [pytest.mark.envtest, pytest.mark.usefixtures("operator"), pytest.mark.long]

_PROPERTY = "controller.quorum.fetch.timeout.ms"
_NEVER = [{"start": "0 0 29 2 *", "durationMinutes": 1}]
_ALWAYS = [{"start": "0 0 * * *", "durationMinutes": 1440}]
_SOAK_S = 6
_QUIET_S = 3.0


def reason(quorum: ApiServerQuorum) -> str:
    return str((quorum.condition("Updated") or {}).get("reason"))


def wait_for_reason(quorum: ApiServerQuorum, wanted: str) -> None:
    wait_for(
        f"Updated is {wanted}",
        lambda: reason(quorum) == wanted,
        timeout_s=MOVE_TIMEOUT_S,
        seen=quorum.summary,
    )


def programs(quorum: ApiServerQuorum) -> dict[str, str]:
    """Pod → what it was made for."""
    return {
        pod["metadata"]["name"]: pod["metadata"]["annotations"]["metadataquorum.dev/restart-hash"]
        for pod in quorum.pods()
        if is_ready(pod)
    }


def wait_proven(quorum: ApiServerQuorum) -> None:
    """Until what all members run is written down."""

    def is_written() -> bool:
        found = quorum.api.get(kube.core(quorum.namespace, "configmaps", f"{quorum.name}-identity"))
        return "metadataquorum.dev/update" in found["metadata"].get("annotations", {})

    wait_for("the record", is_written, timeout_s=MOVE_TIMEOUT_S, seen=quorum.summary)


def soak_time_s(quorum: ApiServerQuorum, canary: str) -> float:
    """Time from the canary being ready until the next pod was created with the update, of a finished rollout. Kubernetes
    keeps whole seconds.
    """
    pods = {pod["metadata"]["name"]: pod for pod in quorum.pods()}
    conditions = pods.pop(canary)["status"]["conditions"]
    (ready,) = (each["lastTransitionTime"] for each in conditions if each["type"] == "Ready")
    created = min(pod["metadata"]["creationTimestamp"] for pod in pods.values())
    return (datetime.fromisoformat(created) - datetime.fromisoformat(ready)).total_seconds()


def config(quorum: ApiServerQuorum) -> str:
    found = quorum.api.get(kube.core(quorum.namespace, "configmaps", f"{quorum.name}-config"))
    return str(found["data"]["node.properties"])


@pytest.mark.requirement("OP-10")
def test_failed_canary_is_rolled_back_and_its_fix_soaks_and_is_rolled_out(
    env: Env,
) -> None:
    quorum = env.create(3, update={"soakSeconds": _SOAK_S, "canaryTimeoutSeconds": 60})
    load = env.start_load(quorum)
    before = quorum.wait_ready(3)
    wait_proven(quorum)
    proven = set(programs(quorum).values())
    with PodWatch(quorum) as watch:
        quorum.patch({"config": {_PROPERTY: "soon"}})
        wait_for_reason(quorum, "CanaryFailed")
        wait_for(
            "all run what is proven",
            lambda: len(programs(quorum)) == 3 and set(programs(quorum).values()) == proven,
            timeout_s=MOVE_TIMEOUT_S,
            seen=quorum.summary,
        )
        assert len(watch.replaced) == 1, "more than one member had the new template"
        assert (quorum.status().get("update") or {}).get("failed")
        assert "soon" not in config(quorum)
    with PodWatch(quorum) as watch:
        quorum.patch({"config": {_PROPERTY: "2500"}})
        wait_for_reason(quorum, "Soaking")
        wait_for("the canary is back", lambda: len(programs(quorum)) == 3, timeout_s=60)
        wait_for("it has gone", lambda: len(watch.replaced) == 1, timeout_s=30)
        other = next(pod for pod in programs(quorum) if pod not in watch.replaced)
        uid = quorum.api.get(kube.core(quorum.namespace, "pods", other))["metadata"]["uid"]
        env.api.delete(kube.core(quorum.namespace, "pods", other))

        def is_back() -> bool:
            found = quorum.api.find(kube.core(quorum.namespace, "pods", other))
            return found is not None and found["metadata"]["uid"] != uid

        wait_for("the other pod is made again", is_back, timeout_s=60)
        again = quorum.api.get(kube.core(quorum.namespace, "pods", other))
        assert again["metadata"]["annotations"]["metadataquorum.dev/restart-hash"] in proven
        wait_for_reason(quorum, "AllMembersUpdated")
    quorum.wait_ready(3)
    wait_for(
        "all run the correction",
        lambda: len(programs(quorum)) == 3 and not set(programs(quorum).values()) & proven,
        timeout_s=MOVE_TIMEOUT_S,
    )
    (canary, *_) = watch.replaced
    # Either time may be cut off by almost a second.
    assert soak_time_s(quorum, canary) > _SOAK_S - 1
    assert "2500" in config(quorum)
    assert quorum.wait_ready(3).keys == before.keys
    env.prove_nothing_lost(load)


@pytest.mark.requirement("OP-10")
@pytest.mark.parametrize(
    ("held", "allowed"),
    [
        pytest.param({"windows": _NEVER}, {"windows": _ALWAYS}, id="windows"),
        pytest.param({"paused": True}, {"paused": False}, id="paused"),
    ],
)
def test_held_update_restarts_no_member_but_failed_disks_are_replaced(
    env: Env, held: Json, allowed: Json
) -> None:
    quorum = env.create(3, disks=True, update=held)
    quorum.wait_ready(3)
    wait_proven(quorum)
    proven = set(programs(quorum).values())
    quorum.patch({"image": OTHER_NODE_IMAGE})
    wait_for_reason(quorum, "Held")
    stays("no pod is restarted", lambda: set(programs(quorum).values()) == proven, for_s=_QUIET_S)
    failed = quorum.fail_disk(quorum.voter(leader=False))
    quorum.wait_replaced(failed, 3)
    assert set(programs(quorum).values()) == proven, (
        "the replacement does not run the accepted template"
    )
    assert reason(quorum) == "Held"
    assert not quorum.condition_is("Progressing"), "a pod was restarted for the update"
    quorum.patch({"update": allowed})
    wait_for_reason(quorum, "AllMembersUpdated")
    wait_for(
        "all run the update",
        lambda: len(programs(quorum)) == 3 and not set(programs(quorum).values()) & proven,
        timeout_s=MOVE_TIMEOUT_S,
        seen=quorum.summary,
    )
