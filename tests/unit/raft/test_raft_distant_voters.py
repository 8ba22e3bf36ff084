"""A voter that was told of an epoch far ahead: its requests are refused for the distance, and the others need it, or it needs them.

An epoch far ahead is learned from answers to own requests alone (`epoch_bound.py`). So those that refuse such a voter have to ask it, also
while a change of the voters is not committed.
"""

from dataclasses import replace

import pytest

from quorum_node.raft.epoch_bound import MAX_LEAP_EPOCH, MAX_STEP
from quorum_node.raft.errors import RaftError
from quorum_node.raft.events import RequestReceived, ResponseReceived
from quorum_node.raft.messages import (
    NO_LEADER,
    AddVoterRequest,
    CurrentLeader,
    FetchRequest,
    FetchResponse,
    RemoveVoterRequest,
    VoteRequest,
    VoteResponse,
)
from quorum_node.raft.outputs import Output, VotersChanged
from quorum_node.raft.roles import Candidate, Prospective
from support.raft.cores import CLUSTER_ID, Cores, Node, endpoints_of


def answer_fetch(cores: Cores, node: Node, leader: CurrentLeader) -> None:
    """Answer its fetch in flight with this leader and no records."""
    for _ in range(40):
        for correlation, sent in node.replica.outstanding.items():
            if isinstance(sent.request, FetchRequest):
                answer = FetchResponse(RaftError.NOT_QUORUM_LEADER, leader)
                cores.do(node, ResponseReceived(correlation, answer))
                return
        cores.advance(100)
    raise AssertionError("it sent no fetch")


def send_ahead(cores: Cores, node: Node, leader_id: int = NO_LEADER) -> None:
    """A false answer tells it of an epoch far ahead, with this leader or without one."""
    false = CurrentLeader(leader_id, MAX_LEAP_EPOCH, endpoints_of("nobody")[0])
    answer_fetch(cores, node, false)
    assert node.replica.epoch == MAX_LEAP_EPOCH


@pytest.mark.parametrize("leader_id", [NO_LEADER, 1])
def test_removed_leader_follows_the_voter_that_needs_its_log(leader_id: int) -> None:
    """It can't know of the commit of its removal, and only its log has the newest records."""
    cores = Cores()
    one = cores.quorum("1", "2")
    two = cores.nodes["2"]
    cores.partition(["1"], ["2"])
    cores.do(one, RequestReceived(1, RemoveVoterRequest(CLUSTER_ID, one.key, 3_000)))
    assert not one.replica.is_voter
    send_ahead(cores, two, leader_id)
    cores.advance(5_000)
    cores.heal()
    cores.advance(20_000)
    assert cores.leader is two
    assert two.replica.voters.latest_is_committed
    assert two.replica.voters.latest.voters.ordered_keys == (two.key,)


@pytest.mark.parametrize("is_witness", [False, True])
def test_leader_asks_the_voter_whose_removal_needs_its_acknowledgement(is_witness: bool) -> None:
    """A witness asks for no votes, so only its search for the leader tells of its epoch."""
    cores = Cores()
    one = cores.quorum("1", "2")
    two = cores.nodes["2"]
    if is_witness:
        two.config = replace(two.config, witness=True)
        cores.crash(two)
        cores.restart(two)
        cores.advance(1_000)
    cores.partition(["1"], ["2"])
    cores.do(one, RequestReceived(1, RemoveVoterRequest(CLUSTER_ID, two.key, 3_000)))
    send_ahead(cores, two)
    cores.heal()
    cores.advance(20_000)
    assert cores.leader is one
    assert one.replica.epoch > MAX_LEAP_EPOCH
    write = cores.propose(one, "written later")
    cores.advance(3_000)
    assert write in one.committed


def await_pre_vote(cores: Cores, node: Node) -> None:
    for _ in range(400):
        if isinstance(node.replica.role, Prospective):
            return
        cores.advance(20)
    raise AssertionError("it started no election")


def answer_pre_vote(cores: Cores, node: Node, told: int, *, error: RaftError, granted: bool) -> int:
    """Answer its latest pre-vote; the epoch of the next one, or -1."""
    asked = [
        (correlation, sent.request)
        for correlation, sent in node.replica.outstanding.items()
        if isinstance(sent.request, VoteRequest) and sent.request.pre_vote
    ]
    correlation, _ = asked[-1]
    leader = CurrentLeader(NO_LEADER, told, None)
    cores.do(node, ResponseReceived(correlation, VoteResponse(error, leader, granted)))
    later = [
        sent.request.candidate_epoch
        for number, sent in node.replica.outstanding.items()
        if isinstance(sent.request, VoteRequest) and number > correlation
    ]
    return later[-1] if later else -1


def test_candidate_asks_a_voter_far_behind_in_epochs_that_it_can_take() -> None:
    """A voter that does not know the candidate never asks it for its epoch."""
    cores = Cores()
    cores.quorum("1", "2")
    two = cores.nodes["2"]
    cores.partition(["1"], ["2"])
    send_ahead(cores, two)
    behind, own = MAX_LEAP_EPOCH - MAX_STEP - 3, two.replica.epoch
    await_pre_vote(cores, two)
    first = answer_pre_vote(cores, two, behind, error=RaftError.UNKNOWN_LEADER_EPOCH, granted=False)
    assert first == behind + MAX_STEP
    assert answer_pre_vote(cores, two, first, error=RaftError.NONE, granted=True) == own
    assert isinstance(two.replica.role, Prospective), "a grant in a lower epoch counts for nothing"
    answer_pre_vote(cores, two, own, error=RaftError.NONE, granted=True)
    assert isinstance(two.replica.role, Candidate)
    assert two.replica.epoch == own + 1


def test_voter_that_takes_no_epoch_is_not_asked_again_and_again() -> None:
    cores = Cores()
    cores.quorum("1", "2")
    two = cores.nodes["2"]
    cores.partition(["1"], ["2"])
    send_ahead(cores, two)
    await_pre_vote(cores, two)
    refusal = RaftError.UNKNOWN_LEADER_EPOCH
    assert answer_pre_vote(cores, two, 7, error=refusal, granted=False) == 7 + MAX_STEP
    assert answer_pre_vote(cores, two, 7, error=refusal, granted=False) == -1


def added_without_its_knowledge() -> tuple[Cores, Node, Node]:
    """The voter has the record that makes the new replica a voter; then it is down. The new replica has no leader."""

    def cut(node: Node, output: Output) -> None:
        if node.name == "1" and isinstance(output, VotersChanged) and len(output.voters) > 1:
            cores.partition(["1"], ["2"])

    cores = Cores(observer=cut)
    one = cores.quorum("1")
    two = cores.start("2", bootstrap=["1"])
    cores.advance(600)
    request = AddVoterRequest(CLUSTER_ID, two.key, two.config.endpoints, 3_000)
    cores.do(one, RequestReceived(1, request))
    assert two.key in one.replica.voters.latest.voters
    cores.observer = None
    cores.crash(one, lose_unflushed=False)
    cores.advance(10_000)
    assert not two.replica.is_voter
    assert two.replica.leader_id == NO_LEADER
    cores.restart(one)
    return cores, one, two


def test_new_replica_votes_for_the_voter_that_added_it_in_an_epoch_far_ahead() -> None:
    cores, one, two = added_without_its_knowledge()
    send_ahead(cores, one)
    cores.heal()
    cores.advance(20_000)
    assert cores.leader is one
    assert two.replica.is_voter
    assert one.replica.voters.latest_is_committed


def test_new_replica_enters_no_epoch_far_ahead_for_others() -> None:
    """Neither for a vote in the name of a replica that it does not know, nor without a request for its vote."""
    cores, one, two = added_without_its_knowledge()
    epoch = two.replica.epoch
    request = VoteRequest(
        CLUSTER_ID, cores.start("9", run=False).key, MAX_LEAP_EPOCH, epoch, 1_000, two.key
    )
    answer = cores.request(two, request)
    assert isinstance(answer, VoteResponse)
    assert not answer.vote_granted
    answer_fetch(cores, two, CurrentLeader(NO_LEADER, MAX_LEAP_EPOCH))
    assert two.replica.epoch == epoch
    assert one.replica.epoch < MAX_LEAP_EPOCH


@pytest.mark.parametrize("epoch", [60_000, MAX_LEAP_EPOCH])
def test_leader_adopts_the_epoch_of_a_replica_that_an_administrator_adds(epoch: int) -> None:
    """It was told of a false leader in that epoch before it was a voter, and can't follow the real one."""
    cores = Cores()
    one = cores.quorum("1", "2", "3")
    four = cores.start("4", bootstrap=["1", "2", "3"])
    cores.advance(600)
    cores.partition(["1", "2", "3"], ["4"])
    answer_fetch(cores, four, CurrentLeader(2, epoch, endpoints_of("nobody")[0]))
    cores.heal()
    cores.advance(10_000)
    assert four.replica.epoch == epoch
    assert (cores.leader, one.replica.epoch) == (one, 1), "nobody asks an observer"
    for _ in range(5):
        if cores.add_voter(cores.leader, four).error is RaftError.NONE:
            break
        cores.advance(5_000)
    assert four.key in cores.leader.replica.voters.committed.voters
    assert cores.leader.replica.epoch > epoch


def test_new_replica_with_a_leader_stays_with_it() -> None:
    """A candidate far ahead asks for its vote, and confirms its epoch."""
    cores = Cores()
    one = cores.quorum("1", "2", "3")
    four = cores.start("4", bootstrap=["1"])
    cores.advance(600)
    epoch = four.replica.epoch
    cores.do(
        four,
        RequestReceived(
            9, VoteRequest(CLUSTER_ID, cores.nodes["2"].key, MAX_LEAP_EPOCH, epoch, 99, four.key)
        ),
    )
    answer_fetch(cores, four, CurrentLeader(NO_LEADER, MAX_LEAP_EPOCH))
    cores.advance(1_000)
    assert (four.replica.epoch, four.replica.leader_id) == (epoch, one.key.id)
