"""Appends with an unknown outcome, and the effect of a retry (KIP-595, "Leader Progress Timeout"; K595-29)."""

from dataclasses import replace

import pytest

from quorum_node.raft import RaftError
from quorum_node.raft.outputs import Output, ProposalCommitted
from support.raft.cores import Node, formed_cores


@pytest.mark.requirement("K595-29")
def test_lost_leader_leaves_the_append_outcome_unknown_and_a_retry_possible() -> None:
    cores, one = formed_cores("1", "2", "3")
    cores.partition(["1"], ["2", "3"])
    first = cores.propose(one, "x=1")
    cores.advance(4500)
    assert one.failed[first] is RaftError.LEADERSHIP_LOST
    leader = cores.leader
    again = cores.propose(leader, "x=1")
    assert again in leader.committed
    elsewhere = cores.propose(one, "x=2")
    assert one.failed[elsewhere] is RaftError.NOT_QUORUM_LEADER
    cores.heal()
    cores.advance(3000)
    for node in cores.nodes.values():
        assert node.committed_values() == ["x=1"], "the first one is gone, the second one is there"


@pytest.mark.requirement("K595-29")
def test_returning_leader_commits_both_the_timed_out_append_and_its_retry() -> None:
    """The caller's time is over and the append is on its way: that both are committed leaves the same state."""
    cores, one = formed_cores("1", "2", "3")
    cores.partition(["1"], ["2", "3"])
    first = cores.propose(one, "x=1", "y=1")
    again = cores.propose(one, "x=1", "y=1")
    cores.advance(100)
    assert not {first, again} & one.committed.keys()
    cores.heal()
    cores.advance(2500)
    done = one.committed
    assert done[first].end_offset <= done[again].base_offset
    for node in cores.nodes.values():
        assert node.committed_values() == ["x=1", "y=1"] * 2, (
            "each batch whole, one after the other"
        )


@pytest.mark.requirement("K595-29")
def test_append_is_not_acknowledged_by_the_commit_of_the_previous_batch() -> None:
    """Followers take one batch after the other, so the high watermark stops at the beginning of the second."""
    cores, one = formed_cores("1", "2", "3")
    for name in "23":
        node = cores.nodes[name]
        node.config = replace(node.config, fetch_max_bytes=1)
        cores.crash(node)
        cores.restart(node)
    cores.advance(600)
    cores.partition(["1"], ["2", "3"])
    first, second = cores.propose(one, "a"), cores.propose(one, "b", "c")
    answered: dict[int, int] = {}

    def note(node: Node, output: Output) -> None:
        if isinstance(output, ProposalCommitted):
            answered[output.proposal_id] = node.replica.high_watermark

    cores.observer = note
    cores.heal()
    cores.advance(2500)
    assert answered[first] == one.committed[second].base_offset, "one after the other"
    assert answered[second] == one.committed[second].end_offset
