"""A majority of old voters that runs on without the recovered survivor: real processes, an observer and a client."""

from collections.abc import Callable

import pytest

from quorum_node.client.admin import QuorumAdminClient
from quorum_node.client.errors import NoLeader
from quorum_node.records.identity import parse_uuid
from quorum_node.survivor import Survivor
from support.local_quorum import LocalQuorum, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.requirement("OP-07")]


def test_nodes_of_the_recovered_quorum_reject_requests_of_the_old_majority(
    make_quorum: Callable[..., LocalQuorum],
) -> None:
    quorum = make_quorum(4, initial_voters=3, formed=True)
    quorum.put("shared", "1")
    survivor, second, third, observer = quorum.nodes.values()
    # Nothing is appended after the survivor is looked at.
    wait_until(lambda: quorum.registered().keys() == {1, 2, 3, 4}, "all have registered")
    observer.kill()
    quorum.wait_caught_up(1)
    for lost in (second, third):
        lost.kill()
    local = quorum.local(1)
    accepted = Survivor(
        parse_uuid(local["replicaUuid"]), local["logEndEpoch"], local["logEndOffset"]
    )
    survivor.kill()
    survivor.arguments = ("--recover", str(accepted))
    survivor.start()
    observer.start()
    quorum.put("new", "2")
    recovered = quorum.describe()
    assert recovered["leaderEpoch"] >= recovered["recoveredEpoch"] > 1 << 16
    wait_until(
        lambda: quorum.local(4)["highWatermark"] >= quorum.local(1)["highWatermark"],
        "the observer has what the recovered quorum has",
    )
    servers = [f"127.0.0.1:{node.port}" for node in quorum.nodes.values()]
    with QuorumAdminClient(servers, timeout_ms=10_000) as client:
        assert client.describe_quorum().leader_epoch == recovered["leaderEpoch"]

        survivor.kill()  # out of reach
        # Until then it appends, also by itself: the registration of its controller.
        wait_until(lambda: quorum.local(4)["leaderId"] is None, "the observer has lost its leader")
        before = quorum.local(4)
        second.start()
        third.start()
        old = wait_until(lambda: quorum.wait_leader() in (2, 3), "the old majority leads itself")
        assert old
        quorum.put("only-there", "3")
        wait_until(
            lambda: "from before the recovery" in observer.log_text, "the observer refuses them"
        )
        after = quorum.local(4)
        for name in ("logEndOffset", "highWatermark", "leaderEpoch"):
            assert after[name] == before[name], name
        assert after["leaderId"] is None
        leader = quorum.leader
        assert "was recovered from a survivor" in leader.log_text
        assert quorum.describe()["leaderEpoch"] < 1 << 16, "their epoch was raised"
        with pytest.raises(NoLeader):
            client.describe_quorum()

    for node in (second, third):
        node.kill()
    survivor.arguments = ()
    survivor.start()
    quorum.put("goes-on", "4")
    wait_until(lambda: quorum.local(4)["leaderId"] == 1, "the observer is back with the new quorum")
