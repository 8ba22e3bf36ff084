"""Which requests a new replica accepts: it is no voter yet, and no leader would adopt a forged epoch."""

import pytest

from quorum_node.raft.errors import RaftError
from quorum_node.raft.events import ResponseReceived
from quorum_node.raft.messages import (
    NO_LEADER,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    CurrentLeader,
    FetchRequest,
    FetchResponse,
    VoteRequest,
    VoteResponse,
)
from quorum_node.records.identity import ReplicaKey
from support.raft.cores import CLUSTER_ID, Cores, Node, endpoints_of, key_of


def quorum_with_new_replica() -> tuple[Cores, Node]:
    cores = Cores()
    cores.quorum("1", "2", "3")
    newcomer = cores.start("4", bootstrap=["1", "2", "3"])
    cores.advance(600)
    assert newcomer.replica.leader_id == 1
    return cores, newcomer


def goes_on(cores: Cores, newcomer: Node) -> bool:
    """Whether the new replica gets new records, and may become a voter."""
    leader = cores.leader
    assert leader is not None
    write = cores.propose(leader, "written later")
    cores.advance(3_000)
    answer = cores.add_voter(leader, newcomer)
    assert write in leader.committed
    return (
        newcomer.committed_values()[-1] == "written later"
        and answer is not None
        and answer.error is RaftError.NONE
    )


def forged_vote(
    node: Node, candidate: ReplicaKey, ahead: int, *, pre_vote: bool = False
) -> VoteRequest:
    epoch = node.replica.epoch + ahead
    return VoteRequest(CLUSTER_ID, candidate, epoch, epoch, 1_000, node.key, pre_vote)


@pytest.mark.parametrize("pre_vote", [False, True])
@pytest.mark.parametrize("candidate", [key_of(2), key_of(77), key_of(4)])
@pytest.mark.parametrize("ahead", [1, 60_000])
def test_forged_vote_does_not_keep_a_new_replica_from_joining(
    candidate: ReplicaKey, ahead: int, pre_vote: bool
) -> None:
    cores, newcomer = quorum_with_new_replica()
    epoch = newcomer.replica.epoch
    for _ in range(3):
        answer = cores.request(newcomer, forged_vote(newcomer, candidate, ahead, pre_vote=pre_vote))
        assert isinstance(answer, VoteResponse)
        assert not answer.vote_granted
        cores.advance(300)
    assert newcomer.replica.epoch == epoch
    assert goes_on(cores, newcomer)


@pytest.mark.parametrize("leader_id", [1, 2, 77])
@pytest.mark.parametrize("ahead", [1, 60_000])
def test_forged_begin_does_not_keep_a_new_replica_without_leader_from_joining(
    leader_id: int, ahead: int
) -> None:
    """The leader is unreachable for a while, and the attacker knows the voters' addresses."""
    cores, newcomer = quorum_with_new_replica()
    epoch = newcomer.replica.epoch
    cores.partition(["1", "2", "3"], ["4"])
    cores.advance(20_000)
    assert newcomer.replica.leader_id == NO_LEADER
    place = endpoints_of(str(leader_id))[0]
    request = BeginQuorumEpochRequest(CLUSTER_ID, leader_id, epoch + ahead, newcomer.key, place)
    answer = cores.request(newcomer, request)
    assert isinstance(answer, BeginQuorumEpochResponse)
    assert answer.error is not RaftError.NONE
    assert newcomer.replica.epoch == epoch
    cores.heal()
    cores.advance(5_000)
    assert goes_on(cores, newcomer)


@pytest.mark.parametrize("place", ["nobody", "2"])
def test_removed_voter_does_not_pass_a_false_leader_on(place: str) -> None:
    """It was told of an epoch that the quorum never reaches: no voter of the present ones would pass it on to the leader."""
    cores = Cores()
    one = cores.quorum("1", "2", "3")
    three = cores.nodes["3"]
    cores.partition(["1", "2"], ["3"])
    cores.remove_voter(one, three.key)
    (fetch,) = (
        each
        for each, sent in three.replica.outstanding.items()
        if isinstance(sent.request, FetchRequest)
    )
    epoch = three.replica.epoch + 60_000
    false = CurrentLeader(2, epoch, endpoints_of(place)[0])
    cores.do(three, ResponseReceived(fetch, FetchResponse(RaftError.NOT_QUORUM_LEADER, false)))
    assert three.replica.epoch == epoch
    cores.heal()
    cores.advance(5)
    newcomer = cores.start("4", bootstrap=["3", "1"])
    cores.advance(3_000)
    assert newcomer.replica.epoch == one.replica.epoch
    assert goes_on(cores, newcomer)


def test_new_replica_votes_while_it_has_no_leader() -> None:
    """It may be a voter by a record that has not arrived here, and its vote may be the one that is needed."""
    cores, newcomer = quorum_with_new_replica()
    cores.crash(cores.nodes["1"])
    cores.partition(["2", "3"], ["4"])
    cores.advance(20_000)
    answer = cores.request(newcomer, forged_vote(newcomer, key_of(2), 5))
    assert isinstance(answer, VoteResponse)
    assert answer.vote_granted
