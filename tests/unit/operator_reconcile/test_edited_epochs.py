"""An epoch that is edited in the status, while a voter is dead and can't contradict it."""

import pytest

from quorum_operator.quorum_client import Described, Seen
from support.in_memory_kube_api import HealthyNodes, reconciler, repeat, running_quorum

FAR = 1_000_000
NOTHING_SEEN = Seen()


class FencedNodes(HealthyNodes):
    """Descriptions that are older than an earlier one are recognized, as by `QuorumClient`. `lost`: nobody leads."""

    lost = False

    async def describe(self, ips: list[str], seen: Seen = NOTHING_SEEN) -> Described:
        if self.lost:
            return Described(None, None)
        found = await super().describe(ips)
        if found.view is None or not seen.is_older(found.view):
            return found
        return Described(None, None, found.view)


@pytest.mark.requirement("OP-07")
@pytest.mark.parametrize("field", ["newestEpoch", "recoveredEpoch"])
def test_lease_holder_trusts_the_epoch_that_it_wrote(field: str) -> None:
    api = running_quorum(3)
    nodes = FencedNodes(3)
    made = reconciler(api, nodes, writes_alone=True)
    repeat(made, 2)
    assert api.status["newestEpoch"] == 4
    nodes.silent = (3,)
    api.resource["status"][field] = FAR
    repeat(made, 2)
    assert api.status["newestEpoch"] == 4
    assert api.status.get("recoveredEpoch") is None
    assert api.condition("QuorumLost").get("status") != "True"
    assert api.status["leader"] == {"id": 1, "epoch": 4}


def test_epoch_that_was_edited_while_nobody_led_is_not_taken_for_confirmed() -> None:
    """Afterwards one voter is dead: the operator would ignore the leader for good, and call its voters outdated."""
    api = running_quorum(3)
    nodes = FencedNodes(3)
    made = reconciler(api, nodes, writes_alone=True)
    repeat(made, 2)
    nodes.lost = True
    api.resource["status"]["newestEpoch"] = FAR
    repeat(made, 3)
    nodes.lost, nodes.silent = False, (3,)
    repeat(made, 2)
    assert api.status["newestEpoch"] == 4
    assert api.condition("QuorumConfirmed")["status"] == "True"


@pytest.mark.requirement("OP-07")
def test_epoch_written_by_a_previous_operator_is_trusted() -> None:
    """A new holder of the lease has confirmed nothing itself; nor does one know without a lease who else writes."""
    for writes_alone in (True, False):
        api = running_quorum(3)
        nodes = FencedNodes(3, silent=(3,))
        api.resource["status"] = {"clusterId": "c1", "newestEpoch": FAR, "voters": 3}
        made = reconciler(api, nodes, writes_alone=writes_alone)
        repeat(made, 2)
        assert api.status["newestEpoch"] == FAR
        assert api.condition("QuorumConfirmed")["status"] == "False"
