"""Leaders that are killed, stopped or frozen: no acknowledged record is lost, and writes continue soon."""

import pytest

from support.local_quorum import LocalNode, LocalQuorum, wait_until
from support.quorum_writer import Writer, assert_nothing_lost


def restart(quorum: LocalQuorum, node: LocalNode) -> None:
    node.wait_exit()
    node.start()
    quorum.wait_caught_up(node.id)


@pytest.mark.slow
@pytest.mark.requirement("K595-06")
def test_killed_leader_loses_no_acknowledged_record(make_quorum) -> None:
    quorum = make_quorum(3, formed=True)
    with Writer(quorum) as writer:
        for _ in range(4):
            leader = quorum.leader
            leader.kill()
            writer.more()
            restart(quorum, leader)
    assert_nothing_lost(quorum, writer.acknowledged)


@pytest.mark.requirement("K595-12")
def test_stopped_leader_transfers_leadership_and_exits_0(make_quorum) -> None:
    quorum = make_quorum(3, formed=True)
    with Writer(quorum) as writer:
        leader = quorum.leader
        epoch = quorum.describe()["leaderEpoch"]
        assert leader.terminate() == 0
        writer.more()
        # The first successor campaigned at once; that it wins too is likely, not promised.
        texts = [n.log_text for n in quorum.nodes.values() if n is not leader]
        assert any(f"candidate in epoch {epoch + 1}" in text for text in texts)
        assert quorum.describe()["leaderEpoch"] > epoch
        restart(quorum, leader)
    assert leader.termination_message == ""
    assert_nothing_lost(quorum, writer.acknowledged)


@pytest.mark.slow
@pytest.mark.requirement("K595-16")
def test_frozen_leader_is_replaced_and_follows_when_it_resumes(make_quorum) -> None:
    quorum = make_quorum(3, formed=True)
    leader = quorum.leader
    epoch = quorum.describe()["leaderEpoch"]
    with Writer(quorum) as writer:
        leader.freeze()
        try:
            others = [n for n in quorum.nodes.values() if n is not leader]

            def new_leader() -> bool:
                views = [quorum.local(n.id)["leaderId"] for n in others]
                return views[0] == views[1] and views[0] not in (None, leader.id)

            wait_until(new_leader, "the others have a leader")
        finally:
            leader.thaw()
        writer.more()

        def has_stepped_down() -> bool:
            # On a busy machine it may be elected again, in another epoch.
            seen = quorum.local(leader.id)
            return seen["role"] in ("follower", "leader") and seen["leaderEpoch"] > epoch

        wait_until(has_stepped_down, "the old leader takes a newer epoch")
    assert_nothing_lost(quorum, writer.acknowledged)


def test_all_nodes_killed_at_once_restart_without_data_loss(make_quorum) -> None:
    quorum = make_quorum(3, formed=True)
    with Writer(quorum) as writer:
        writer.more(30)
        for node in quorum.nodes.values():
            node.signal(9)
        for node in quorum.nodes.values():
            node.wait_exit()
        for node in quorum.nodes.values():
            node.start()
        writer.more()
    assert_nothing_lost(quorum, writer.acknowledged)


def test_no_record_is_committed_without_a_majority(make_quorum) -> None:
    quorum = make_quorum(3, formed=True)
    leader = quorum.leader
    for node in quorum.followers:
        node.kill()
    answer = quorum.request("GET", "/v1/quorum?confirmed=true&timeoutMs=300", leader.id)
    assert answer.status_code == 503
    answer = quorum.request("PUT", "/v1/configs/topic/t/k", leader.id,
                            json={"value": "v", "timeoutMs": 300})  # fmt: skip
    assert answer.status_code in (503, 504)
    answer = quorum.request("GET", "/v1/quorum", leader.id)
    assert answer.status_code == 200
    assert not answer.json()["confirmed"]
    answer = quorum.request("GET", "/livez", leader.id)
    assert answer.status_code == 200
