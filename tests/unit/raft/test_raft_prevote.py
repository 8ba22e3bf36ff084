"""Pre-vote and the closed-link hint (KIP-650, "Pre-vote")."""

import pytest

from quorum_node.raft import RoleName
from quorum_node.raft.messages import VoteRequest, VoteResponse
from quorum_node.raft.outputs import PersistQuorumState
from support.raft.cores import CLUSTER_ID, Cores, formed_cores


@pytest.mark.requirement("K650-01")
def test_partitioned_voter_never_raises_the_epoch() -> None:
    cores, one = formed_cores("1", "2", "3")
    three = cores.nodes["3"]
    cores.partition(["1", "2"], ["3"])
    cores.advance(60_000)
    assert three.replica.epoch == 1
    cores.heal()
    cores.advance(3000)
    assert one.is_leader
    assert one.replica.epoch == 1
    assert three.replica.leader_id == 1
    cores.propose(one, "after")
    cores.advance(100)
    assert "after" in three.committed_values()


@pytest.mark.requirement("K650-01")
def test_removed_voter_never_raises_the_epoch() -> None:
    cores, one = formed_cores("1", "2", "3")
    three = cores.nodes["3"]
    cores.partition(["1", "2"], ["3"])
    cores.advance(600)
    answer = cores.remove_voter(one, three.key)
    assert answer.position is not None
    cores.advance(20_000)
    assert three.replica.is_voter, "it has not received its removal"
    cores.heal()
    cores.advance(5000)
    assert one.is_leader
    assert one.replica.epoch == 1
    assert not three.replica.is_voter


@pytest.mark.requirement("K650-01")
def test_election_starts_when_the_leader_fails() -> None:
    cores, one = formed_cores("1", "2", "3")
    one.up = False  # silent, connections stay open
    cores.partition(["1"], ["2", "3"])
    cores.advance(4500)
    assert cores.leader is not one
    assert cores.leader.replica.epoch == 2


@pytest.mark.requirement("K650-01")
@pytest.mark.parametrize("name", ["1", "2"])
def test_replica_with_a_leader_rejects_a_pre_vote_and_changes_nothing(name: str) -> None:
    cores = Cores()
    cores.quorum("1", "2", "3")
    node, three = cores.nodes[name], cores.nodes["3"]
    saved: list[object] = []
    cores.observer = lambda node, output: (
        saved.append(output) if isinstance(output, PersistQuorumState) else None
    )
    request = VoteRequest(CLUSTER_ID, three.key, 5, 5, 99, voter=node.key, pre_vote=True)
    answer = cores.request(node, request)
    assert isinstance(answer, VoteResponse)
    assert not answer.vote_granted
    assert (node.replica.epoch, saved) == (1, [])


@pytest.mark.requirement("K650-01")
def test_granted_pre_vote_is_no_vote() -> None:
    cores, one = formed_cores("1", "2", "3")
    two, three = cores.nodes["2"], cores.nodes["3"]
    cores.partition(["1"], ["2"], ["3"])
    cores.crash(one)
    answer = cores.request(
        two, VoteRequest(CLUSTER_ID, three.key, 1, 1, 99, voter=two.key, pre_vote=True)
    )
    assert isinstance(answer, VoteResponse)
    assert answer.vote_granted
    assert two.replica.epoch == 1
    assert two.state is not None
    assert two.state.voted is None


def test_closed_connections_start_an_election_long_before_the_fetch_timeout() -> None:
    cores, one = formed_cores("1", "2", "3")
    start_ms = cores.now_ms
    cores.crash(one)
    while not any(node.is_leader for node in cores.nodes.values()):
        cores.advance(1)
        assert cores.now_ms - start_ms < 200
    assert cores.leader.replica.epoch == 2


def test_single_closed_connection_does_not_depose_a_leader() -> None:
    cores, one = formed_cores("1", "2", "3")
    two = cores.nodes["2"]
    one.up = False
    cores.propose(one, "lost")  # not even delivered
    cores.crash(one)
    one.up = True
    cores.advance(3000)
    assert one.replica.epoch == cores.leader.replica.epoch or one is not cores.leader
    assert two.replica.role.name in (RoleName.FOLLOWER, RoleName.LEADER)


@pytest.mark.requirement("K650-02")
@pytest.mark.parametrize("old", [{"1"}, {"2"}, {"3"}, {"1", "2"}, {"2", "3"}, {"1", "2", "3"}])
def test_voters_without_pre_vote_elect_and_are_elected(old: set[str]) -> None:
    """Whoever is older: each leader's death is followed by a leader, and no epoch is wasted."""
    cores, one = formed_cores("1", "2", "3")
    cores.without_pre_vote = old
    for _ in range(6):
        leader = cores.leader
        epoch = leader.replica.epoch
        cores.crash(leader)
        cores.advance(4000)
        assert cores.leader is not leader
        assert epoch < cores.leader.replica.epoch <= epoch + 2
        cores.restart(leader)
        cores.advance(1000)
        number = cores.propose(cores.leader, "x")
        cores.advance(500)
        assert number in cores.leader.committed
    assert one.replica.epoch >= 7


@pytest.mark.requirement("K650-02")
def test_voter_with_pre_vote_does_not_disturb_a_quorum_with_an_older_voter() -> None:
    """Cut off, it reaches no voter that could be asked: the epoch stays."""
    cores, one = formed_cores("1", "2", "3")
    cores.without_pre_vote = {"2"}
    epoch = one.replica.epoch
    cores.partition(["1", "2"], ["3"])
    cores.advance(20_000)
    cores.heal()
    cores.advance(6000)
    assert {node.replica.epoch for node in cores.nodes.values()} == {epoch}


@pytest.mark.requirement("K650-01")
@pytest.mark.parametrize("leader_hears_nobody", [False, True])
def test_voter_that_reaches_all_but_the_leader_never_raises_the_epoch(
    leader_hears_nobody: bool,
) -> None:
    """A partition of one link: 2 gets repeated pre-vote requests, and fetches from the leader all the time."""
    cores, one = formed_cores("1", "2", "3")
    three = cores.nodes["3"]
    cores.cut = {("3", "1")} if leader_hears_nobody else {("1", "3"), ("3", "1")}
    for number in range(60):
        cores.propose(one, str(number))
        cores.advance(1000)
        assert {node.replica.epoch for node in cores.nodes.values()} == {1}
        assert one.is_leader
    cores.heal()
    cores.advance(3000)
    assert cores.leader is one
    assert one.replica.epoch == 1
    assert three.committed_values() == [str(number) for number in range(60)]


@pytest.mark.requirement("K650-01")
@pytest.mark.parametrize("idle_ms", [0, 400])
def test_pre_vote_of_a_removed_voter_is_rejected_between_two_leaders(idle_ms: int) -> None:
    """It would be refused the vote all the same, and until then it would have raised the epoch."""
    cores, one = formed_cores("1", "2", "3", "4")
    four = cores.nodes["4"]
    assert cores.remove_voter(one, four.key) is not None
    cores.advance(600)
    cores.partition(["1"], ["2"], ["3"], ["4"])
    cores.crash(one)
    cores.advance(idle_ms)
    two = cores.nodes["2"]
    assert not two.replica.has_responsive_leader()
    assert two.replica.campaigns == 0
    request = VoteRequest(CLUSTER_ID, four.key, 1, 9, 999, voter=two.key, pre_vote=True)
    answer = cores.request(two, request)
    assert isinstance(answer, VoteResponse)
    assert not answer.vote_granted
    assert two.replica.epoch == 1
