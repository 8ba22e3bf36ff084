"""How far others can raise an epoch: no message leaves a quorum without a next one."""

import pytest

from quorum_node.raft import QuorumState, RaftError, epoch_bound
from quorum_node.raft.epoch_bound import MAX_EPOCH, MAX_LEAP_EPOCH, MAX_STEP, learned, within_step
from quorum_node.raft.events import ResponseReceived
from quorum_node.raft.messages import (
    BeginQuorumEpochRequest,
    CurrentLeader,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    Request,
    VoteRequest,
)
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.storage.sole_voter import EPOCH_DISTANCE
from support.raft.cores import CLUSTER_ID, Cores, Node, endpoints_of, formed_cores

INT32_MAX = 2**31 - 1
TOO_FAR = (INT32_MAX, INT32_MAX - 1, INT32_MAX - EPOCH_DISTANCE, MAX_EPOCH, 1 << 30, MAX_STEP + 2)
KINDS = ("vote", "pre-vote", "begin", "end", "fetch", "fetch snapshot")


def request_of(kind: str, sender: Node, requested: Node, epoch: int) -> Request:
    match kind:
        case "begin":
            place = endpoints_of(sender.name)[0]
            return BeginQuorumEpochRequest(CLUSTER_ID, sender.key.id, epoch, requested.key, place)
        case "end":
            return EndQuorumEpochRequest(CLUSTER_ID, sender.key.id, epoch, (requested.key,))
        case "fetch":
            return FetchRequest(CLUSTER_ID, sender.key, epoch, 0, 0)
        case "fetch snapshot":
            return FetchSnapshotRequest(CLUSTER_ID, sender.key, epoch, SnapshotId(1, 1), 0, 1000)
    pre_vote = kind == "pre-vote"
    return VoteRequest(CLUSTER_ID, sender.key, epoch, 99, 99, requested.key, pre_vote=pre_vote)


@pytest.mark.requirement("K595-07")
@pytest.mark.parametrize("epoch", TOO_FAR)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("requested", ["1", "2"])
def test_no_request_uses_up_the_remaining_epochs(kind: str, epoch: int, requested: str) -> None:
    """Neither from a leader nor from a follower, with and without a leader that lives."""
    for leaderless in (False, True):
        cores, one = formed_cores("1", "2", "3")
        node = cores.nodes[requested]
        if leaderless:
            cores.crash(one)
            cores.restart(one)
            cores.partition(["1"], ["2"], ["3"])
            cores.advance(3000)
        answer = cores.request(node, request_of(kind, cores.nodes["3"], node, epoch))
        assert answer is not None
        assert answer.error is not RaftError.NONE  # type: ignore[union-attr]
        cores.heal()
        cores.advance(10_000)
        assert cores.leader.replica.epoch < 100
        assert all(each.state.leader_epoch < 100 for each in cores.nodes.values() if each.state)


@pytest.mark.requirement("K595-07")
def test_epoch_increase_of_a_recovery_is_accepted() -> None:
    assert EPOCH_DISTANCE < MAX_STEP
    cores = Cores()
    cores.quorum("1", "2", "3")
    two, three = cores.nodes["2"], cores.nodes["3"]
    cores.crash(cores.nodes["1"])
    cores.partition(["1"], ["2"], ["3"])
    epoch = 1 + EPOCH_DISTANCE
    assert cores.request(two, request_of("vote", three, two, epoch)).vote_granted  # type: ignore[union-attr]
    assert two.replica.epoch == epoch


@pytest.mark.requirement("K595-07")
@pytest.mark.parametrize("ahead", [MAX_STEP + 1, 10 * MAX_STEP, MAX_LEAP_EPOCH - 5])
@pytest.mark.parametrize("behind", [("1",), ("2",), ("1", "2")])
def test_honest_voter_with_a_much_newer_epoch_is_accepted(
    ahead: int, behind: tuple[str, ...]
) -> None:
    """Its request is rejected; the others query it, and its answer is accepted."""
    cores = Cores()
    cores.quorum("1", "2", "3")
    before = [node for name, node in cores.nodes.items() if name not in behind]
    for node in before:
        cores.crash(node)
    for node in before:
        assert node.state is not None
        node.state = QuorumState(1 + ahead, formed=True, cluster_id=CLUSTER_ID)
        cores.restart(node)
    cores.advance(10_000)
    leader = cores.leader
    assert leader.replica.epoch > ahead
    written = cores.propose(leader, "later")
    cores.advance(100)
    assert written in leader.committed
    assert {node.replica.epoch for node in cores.nodes.values()} == {leader.replica.epoch}


@pytest.mark.requirement("K595-07")
@pytest.mark.parametrize("bound", [1, 2])
def test_elections_continue_when_only_responses_raise_the_epoch(
    bound: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(epoch_bound, "MAX_STEP", bound)
    cores = Cores()
    cores.quorum("1", "2", "3")
    for number in range(6):
        old = cores.leader
        cores.crash(old)
        cores.advance(8000)
        assert cores.leader is not old, number
        written = cores.propose(cores.leader, str(number))
        cores.advance(100)
        assert written in cores.leader.committed
        cores.restart(old)
        cores.advance(3000)
        assert old.replica.leader_id == cores.leader.key.id


@pytest.mark.requirement("K595-07")
@pytest.mark.parametrize("reported", [INT32_MAX, INT32_MAX - 1, MAX_EPOCH + 1, MAX_EPOCH, 1 << 30])
@pytest.mark.parametrize("leader_id", [-1, 3])
def test_single_response_leaves_enough_epochs(reported: int, leader_id: int) -> None:
    """In a false answer of a peer; the quorum elects a leader, and can be recovered."""
    cores = Cores()
    cores.quorum("1", "2", "3")
    two = cores.nodes["2"]
    fetch = next(
        each for each, sent in two.replica.outstanding.items() if type(sent.request) is FetchRequest
    )
    place = endpoints_of("3")[0] if leader_id >= 0 else None
    answer = FetchResponse(RaftError.FENCED_LEADER_EPOCH, CurrentLeader(leader_id, reported, place))
    cores.do(two, ResponseReceived(fetch, answer))
    cores.advance(20_000)
    leader = cores.leader
    assert leader.replica.epoch + EPOCH_DISTANCE + 1000 < MAX_EPOCH
    written = cores.propose(leader, "later")
    cores.advance(100)
    assert written in leader.committed


@pytest.mark.requirement("K595-07")
def test_replica_without_an_epoch_adopts_any_from_responses() -> None:
    for epoch in (5, MAX_STEP + 1, MAX_LEAP_EPOCH, MAX_LEAP_EPOCH + 3 * MAX_STEP, MAX_EPOCH):
        known = answers = 0
        while known < epoch:
            known, answers = learned(known, epoch), answers + 1
            assert answers < 10_000
        assert known == epoch
    assert learned(7, MAX_EPOCH + 1) == 7
    assert learned(7, 3) == 7
    assert within_step(0, MAX_STEP)
    assert not within_step(0, MAX_STEP + 1)
    assert not within_step(MAX_EPOCH, MAX_EPOCH + 1)


@pytest.mark.requirement("K595-07")
def test_no_voter_campaigns_beyond_the_last_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = Cores()
    cores.quorum("1", "2", "3")
    monkeypatch.setattr("quorum_node.raft.replica_state.MAX_EPOCH", 3)
    for _ in range(5):
        cores.crash(cores.leader)
        cores.advance(8000)
        for node in cores.nodes.values():
            if not node.up:
                cores.restart(node)
        if not any(node.is_leader for node in cores.nodes.values()):
            break
    assert max(node.replica.epoch for node in cores.nodes.values()) == 3


@pytest.mark.requirement("K595-07")
def test_largest_int32_epoch_is_never_used() -> None:
    """Neither of a voter that lives without a leader, nor after its restart."""
    cores, one = formed_cores("1", "2", "3")
    two, three = cores.nodes["2"], cores.nodes["3"]
    cores.crash(one)
    cores.advance(30)
    answer = cores.request(two, request_of("vote", three, two, INT32_MAX))
    assert answer is not None
    assert answer.error is RaftError.UNKNOWN_LEADER_EPOCH  # type: ignore[union-attr]
    cores.crash(two)
    cores.restart(two)
    cores.advance(6000)
    assert cores.leader.replica.epoch < 10


@pytest.mark.requirement("K595-07")
def test_voter_with_a_much_newer_epoch_is_accepted_in_responses() -> None:
    cores, one = formed_cores("1", "2", "3")
    cores.crash(one)
    one.state = QuorumState(10 * MAX_STEP, formed=True, cluster_id=CLUSTER_ID)
    cores.restart(one)
    cores.advance(8000)
    assert {node.replica.leader_id for node in cores.nodes.values()} == {cores.leader.key.id}
    assert cores.leader.replica.epoch > 10 * MAX_STEP
