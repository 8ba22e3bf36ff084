"""quorum-state holds the leader after every election (KIP-595, "Quorum State": LeaderId)."""

import pytest

from quorum_node.raft import RaftError
from quorum_node.raft.messages import BeginQuorumEpochRequest
from quorum_node.raft.outputs import (
    AppendBatch,
    HighWatermarkAdvanced,
    PersistQuorumState,
    ProposalCommitted,
    Send,
)
from support.raft.cores import CLUSTER_ID, Cores, Node, endpoints_of, formed_cores


def elected() -> tuple[Cores, Node, Node]:
    """1 is gone; one of 2 and 3 leads, the other one voted for it and follows."""
    cores = Cores()
    cores.crash(cores.quorum("1", "2", "3"))
    cores.advance(6000)
    leader = cores.leader
    return cores, leader, cores.nodes["3" if leader.name == "2" else "2"]


@pytest.mark.requirement("K595-03")
def test_leader_is_saved_by_leader_and_followers() -> None:
    _, leader, voter = elected()
    for node in (leader, voter):
        assert node.state is not None
        assert node.state.leader_id == leader.key.id
        assert node.state.leader_epoch == leader.replica.epoch
        assert node.state.voted == leader.key


@pytest.mark.requirement("K595-03", "K595-11")
@pytest.mark.parametrize("who", ["leader", "voter"])
def test_restarted_node_rejects_a_second_leader_of_the_epoch(who: str) -> None:
    cores, leader, voter = elected()
    node = leader if who == "leader" else voter
    cores.partition(["1"], ["2"], ["3"])
    epoch = leader.replica.epoch
    cores.crash(node)
    cores.restart(node)
    request = BeginQuorumEpochRequest(CLUSTER_ID, 1, epoch, node.key, endpoints_of("1")[0])
    answer = cores.request(node, request)
    assert answer is not None
    assert answer.error is RaftError.INVALID_QUORUM_STATE  # type: ignore[union-attr]
    cores.advance(200)
    assert node.replica.leader_id != 1


@pytest.mark.requirement("K595-19")
def test_restarted_node_queries_the_saved_leader_first() -> None:
    cores, leader, voter = elected()
    cores.crash(voter)
    sent: list[tuple[str, str]] = []
    cores.observer = lambda node, output: (
        sent.append((type(output.request).__name__, output.destination.host))
        if isinstance(output, Send) and node is voter
        else None
    )
    cores.restart(voter)
    assert sent[0] == ("FetchRequest", leader.name)


@pytest.mark.requirement("K595-03", "K595-11")
def test_log_contains_the_leader_until_it_is_saved() -> None:
    """A crash after the LeaderChange is durable here, before it is known to be committed."""
    cores, leader, voter = elected()
    cores.crash(voter)
    assert voter.state is not None
    last = [each for each in voter.batches if each.leader_epoch == leader.replica.epoch]
    assert last, "the LeaderChange is in the log"
    forgetful = voter.state.__class__(
        leader_epoch=voter.state.leader_epoch,
        voted=voter.state.voted,
        cluster_id=CLUSTER_ID,
        formed=True,
    )
    voter.state = forgetful
    cores.partition(["1"], ["2"], ["3"])
    cores.restart(voter)
    assert voter.replica.known_leader_id == leader.key.id


@pytest.mark.requirement("K595-03")
def test_saving_the_leader_delays_no_election_and_no_commit() -> None:
    """The id is written behind the first commit of the epoch, once on each replica."""
    cores, one = formed_cores("1", "2", "3")
    cores.crash(one)
    seen: dict[str, list[object]] = {"2": [], "3": []}
    cores.observer = lambda node, output: seen[node.name].append(output)
    cores.advance(4000)
    proposal = cores.propose(cores.leader, "a")
    cores.advance(1000)
    assert proposal in cores.leader.committed
    epoch = cores.leader.replica.epoch
    for name, outputs in seen.items():
        saves = [
            number
            for number, output in enumerate(outputs)
            if isinstance(output, PersistQuorumState)
            and output.state.leader_epoch == epoch
            and output.state.leader_id >= 0
        ]
        assert len(saves) == 1, name
        behind = outputs[: saves[0]]
        assert any(isinstance(output, HighWatermarkAdvanced) for output in behind)
        assert any(
            isinstance(output, AppendBatch) and output.leader_epoch == epoch for output in behind
        )
    committed = seen[cores.leader.name]
    assert isinstance(committed[-1], object)
    assert any(isinstance(output, ProposalCommitted) for output in committed)


@pytest.mark.requirement("K595-03")
def test_leader_is_saved_after_the_first_commits_of_an_epoch() -> None:
    """It is three syncs on the thread that commits: with it a new leader's first commit would take as much longer."""
    cores = Cores()
    cores.crash(cores.quorum("1", "2", "3"))
    seen: dict[str, list[object]] = {"2": [], "3": []}
    cores.observer = lambda node, output: seen[node.name].append(output)
    while not any(cores.nodes[name].is_leader for name in seen):
        cores.advance(1)
    leader = cores.leader
    proposal = cores.propose(leader, "a")
    cores.advance(50)
    assert proposal in leader.committed
    epoch = leader.replica.epoch

    def saves() -> list[object]:
        return [
            output
            for outputs in seen.values()
            for output in outputs
            if isinstance(output, PersistQuorumState)
            and (output.state.leader_epoch, output.state.leader_id) == (epoch, leader.key.id)
        ]

    assert not saves()
    cores.advance(100)
    assert len(saves()) == 2


def test_abandoned_leader_remains_the_leader_of_its_epoch() -> None:
    """Also when something else is saved meanwhile."""
    cores, leader, voter = elected()
    cores.partition(["1"], ["2"], ["3"])
    cores.advance(5000)
    for node in (leader, voter):
        assert node.replica.leader_id == -1 or node is voter
        if node.replica.epoch == leader.replica.epoch:
            node.replica.persist()
            saved = node.replica.out[-1]
            assert isinstance(saved, PersistQuorumState)
            assert saved.state.leader_id == leader.key.id
