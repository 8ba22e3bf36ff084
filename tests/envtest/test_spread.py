"""Members that must run on different hosts, on as many hosts as there are members."""

import pytest

from support.envtest.environment import Env
from support.envtest.quorum import MOVE_TIMEOUT_S
from support.kind_env.waiting import stays, wait_for

pytestmark = [pytest.mark.envtest, pytest.mark.usefixtures("operator"), pytest.mark.long]

_QUIET_S = 4.0


@pytest.mark.requirement("OP-06")
def test_move_without_a_free_host_waits_and_a_failed_member_is_replaced_meanwhile(env: Env) -> None:
    quorum = env.create(3, disks=True, spread="Required")
    retired = quorum.voter(leader=False)
    quorum.patch({"retire": [retired.id]})
    condition = quorum.wait_condition("PlacementBlocked", timeout_s=MOVE_TIMEOUT_S)
    assert condition["reason"] == "TooFewHosts"
    assert "worker-1, worker-2, worker-3" in condition["message"]
    stays("no fourth member", lambda: len(quorum.incarnations()) == 3, for_s=_QUIET_S)

    failed = quorum.fail_disk(quorum.voter(leader=True))
    quorum.wait_healthy(3, timeout_s=MOVE_TIMEOUT_S, also=lambda now: failed.key not in now.keys)
    running = {name for name, replicas in quorum.incarnations().items() if replicas}
    assert len(running) == 3
    hosts = {pod["spec"]["nodeName"] for pod in quorum.pods()}
    assert len(hosts) == len(quorum.pods()) == 3, "two members share a host"

    quorum.patch({"spread": "Preferred"})
    quorum.wait_healthy(
        3,
        timeout_s=MOVE_TIMEOUT_S,
        also=lambda now: retired.id not in {each.id for each in now.voters},
    )
    quorum.wait_ready(3)
    wait_for(
        "nothing waits for a host",
        lambda: "TooFewHosts" not in str(quorum.status()["conditions"]),
        timeout_s=30,
        seen=quorum.summary,
    )
