"""BeginQuorumEpoch, EndQuorumEpoch, and leaders that are cut off (KIP-595)."""

import pytest

from quorum_node.raft import RaftError, RoleName
from quorum_node.raft.events import ShutdownRequested, StorageFailed
from quorum_node.raft.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    DiscoverBrokersRequest,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    ResignRequest,
    ResignResponse,
    VoteRequest,
)
from quorum_node.raft.outputs import HaltReason, Output, Send
from quorum_node.raft.roles import Unattached
from support.raft.cores import CLUSTER_ID, Cores, Node, endpoints_of, formed_cores, key_of


def begin(cores: Cores, node: Node, leader_id: int, epoch: int) -> BeginQuorumEpochResponse:
    request = BeginQuorumEpochRequest(
        CLUSTER_ID, leader_id, epoch, node.key, endpoints_of(str(leader_id))[0]
    )
    answer = cores.request(node, request)
    assert isinstance(answer, BeginQuorumEpochResponse)
    return answer


def end(
    cores: Cores, node: Node, leader_id: int, epoch: int, *successors: Node
) -> EndQuorumEpochResponse:
    keys = tuple(successor.key for successor in successors)
    answer = cores.request(node, EndQuorumEpochRequest(CLUSTER_ID, leader_id, epoch, keys))
    assert isinstance(answer, EndQuorumEpochResponse)
    return answer


@pytest.mark.requirement("K595-11", "K595-14", "K595-15")
def test_begin_quorum_epoch_of_an_older_epoch_is_fenced() -> None:
    cores = Cores()
    cores.quorum("1", "2", "3")
    answer = begin(cores, cores.nodes["2"], 3, 0)
    assert answer.error is RaftError.FENCED_LEADER_EPOCH
    assert (answer.leader.leader_id, answer.leader.leader_epoch) == (1, 1)


@pytest.mark.requirement("K595-11", "K595-14", "K595-15")
@pytest.mark.parametrize("name", ["1", "2"])
def test_second_leader_of_an_epoch_is_rejected(name: str) -> None:
    cores = Cores()
    cores.quorum("1", "2", "3")
    answer = begin(cores, cores.nodes[name], 3, 1)
    assert answer.error is RaftError.INVALID_QUORUM_STATE
    assert (answer.leader.leader_id, answer.leader.leader_epoch) == (1, 1)
    assert cores.nodes[name].replica.leader_id == 1


@pytest.mark.requirement("K595-11")
def test_leader_of_an_epoch_is_persisted_across_a_crash() -> None:
    cores = Cores()
    cores.quorum("1", "2", "3")
    two = cores.nodes["2"]
    cores.partition(["1"], ["2"], ["3"])
    cores.crash(two)
    cores.restart(two)
    assert begin(cores, two, 3, 1).error is RaftError.INVALID_QUORUM_STATE
    assert begin(cores, two, 1, 1).error is RaftError.NONE


@pytest.mark.requirement("K595-11")
def test_begin_quorum_epoch_is_repeated_until_acknowledged() -> None:
    cores, one = formed_cores("1", "2", "3")
    three = cores.nodes["3"]
    cores.crash(three)
    cores.crash(one)
    cores.restart(one)
    cores.advance(4000)
    leader = cores.leader
    begins: list[str] = []

    def count(node: Node, output: object) -> None:
        if isinstance(output, Send) and isinstance(output.request, BeginQuorumEpochRequest):
            begins.append(output.destination.host)

    cores.observer = count
    cores.advance(5000)
    assert begins.count("3") >= 3
    assert begins.count("1") + begins.count("2") == 0
    cores.restart(three)
    cores.advance(1500)
    begins.clear()
    cores.advance(5000)
    assert begins == []
    assert three.replica.leader_id == leader.key.id


@pytest.mark.requirement("K595-11")
def test_fetch_acknowledges_the_leader_as_well() -> None:
    cores = Cores()
    cores.quorum("1", "2", "3")
    role = cores.nodes["1"].replica.role
    assert role.name is RoleName.LEADER
    assert getattr(role, "unendorsed") == set()  # noqa: B009 - the role is a union


@pytest.mark.requirement("K595-12")
def test_first_successor_campaigns_immediately_and_the_others_are_delayed() -> None:
    cores = Cores()
    cores.quorum("1", "2", "3", "4", "5")
    two, three, four, five = (cores.nodes[name] for name in "2345")
    cores.partition(["1"], ["2"], ["3"], ["4"], ["5"])
    order = (two, three, four, five)
    for node in order:
        assert end(cores, node, 1, 1, *order).error is RaftError.NONE
    assert two.replica.role.name is RoleName.CANDIDATE
    assert two.replica.epoch == 2
    waits = [getattr(n.replica.role, "election_deadline_ms") - cores.now_ms for n in order[1:]]  # noqa: B009
    assert waits == [20, 40, 80], "MIN(max, base * 2^(N-1))"


@pytest.mark.requirement("K595-12", "K595-14", "K595-15")
def test_end_quorum_epoch_is_validated() -> None:
    cores = Cores()
    cores.quorum("1", "2", "3")
    one, two, three = (cores.nodes[name] for name in "123")
    assert end(cores, two, 1, 0, two).error is RaftError.FENCED_LEADER_EPOCH
    assert end(cores, two, 3, 1, two).error is RaftError.INVALID_QUORUM_STATE
    assert end(cores, two, -1, 1, two).error is RaftError.INVALID_QUORUM_STATE
    assert end(cores, one, 1, 1, one).error is RaftError.INVALID_QUORUM_STATE
    assert two.replica.leader_id == 1, "nothing of that changed anything"
    cores.partition(["1"], ["2"], ["3"])
    answer = end(cores, two, 1, 1, three)
    assert answer.error is RaftError.INCONSISTENT_VOTER_SET
    assert answer.leader.leader_epoch == 1


@pytest.mark.requirement("K595-12")
def test_empty_list_of_successors_is_accepted_and_gives_no_order() -> None:
    """A restarted stock leader names no successors, and repeats a request that is refused."""
    cores = Cores()
    cores.quorum("1", "2", "3")
    two = cores.nodes["2"]
    cores.partition(["1"], ["2"], ["3"])
    answer = end(cores, two, 1, 1)
    assert answer.error is RaftError.NONE
    role = two.replica.role
    assert isinstance(role, Unattached), "the leader is gone"
    assert role.election_deadline_ms is not None
    assert role.election_deadline_ms > cores.now_ms, "nobody is first"


@pytest.mark.requirement("K595-12")
def test_candidate_may_end_its_epoch() -> None:
    """Only while no leader of that epoch is known, and no leader is deposed: a pre-vote goes first."""
    cores, two, three = leaderless()
    epoch = two.replica.epoch
    requested: list[VoteRequest] = []
    cores.observer = lambda node, output: (
        requested.append(output.request)
        if isinstance(output, Send) and isinstance(output.request, VoteRequest)
        else None
    )
    assert end(cores, two, -1, epoch, three, two).error is RaftError.NONE
    assert getattr(two.replica.role, "election_deadline_ms") == cores.now_ms + 20, "the second"  # noqa: B009
    assert end(cores, three, -1, epoch, three, two).error is RaftError.NONE
    assert three.replica.role.name is RoleName.PROSPECTIVE, "the first campaigns at once"
    assert all(request.pre_vote for request in requested)
    assert {request.candidate for request in requested} == {three.key}
    assert (two.replica.epoch, three.replica.epoch) == (epoch, epoch)


@pytest.mark.requirement("K595-12")
def test_candidate_that_ends_its_epoch_never_delays_a_campaign() -> None:
    cores, two, _ = leaderless()
    before_ms = getattr(two.replica.role, "election_deadline_ms")  # noqa: B009
    others = [key_of(number) for number in range(10, 30)]
    request = EndQuorumEpochRequest(CLUSTER_ID, -1, two.replica.epoch, (*others, two.key))
    for _ in range(5):
        cores.request(two, request)
        cores.advance(1)
    assert getattr(two.replica.role, "election_deadline_ms") <= before_ms  # noqa: B009


def leaderless() -> tuple[Cores, Node, Node]:
    """2 and 3 are cut off from all others, and in an epoch with an unknown leader."""
    cores, one = formed_cores("1", "2", "3")
    two, three = cores.nodes["2"], cores.nodes["3"]
    cores.crash(one)
    cores.partition(["1"], ["2"], ["3"])
    for node in (two, three):
        request = VoteRequest(CLUSTER_ID, one.key, 4, 0, 0, voter=node.key)
        cores.request(node, request)
        assert node.replica.known_leader_id == -1
        assert node.replica.role.name is RoleName.UNATTACHED
    return cores, two, three


@pytest.mark.requirement("K595-12")
@pytest.mark.parametrize("leader_id", [-1, 2, 3, 7])
@pytest.mark.parametrize("ahead", [0, 1, 2, 60_000])
@pytest.mark.parametrize("requested", ["1", "2"])
def test_epoch_is_ended_only_by_its_own_leader(leader_id: int, ahead: int, requested: str) -> None:
    """For any other sender, no voter campaigns, the epoch doesn't increase and the leader stays."""
    cores, one = formed_cores("1", "2", "3")
    node = cores.nodes[requested]
    others = (each for each in cores.nodes.values() if each is not node)
    answer = end(cores, node, leader_id, one.replica.epoch + ahead, node, *others)
    assert answer.error is not RaftError.NONE
    assert (answer.leader.leader_id, answer.leader.leader_epoch) == (1, 1)
    cores.advance(5000)
    assert cores.leader is one
    assert {each.replica.epoch for each in cores.nodes.values()} == {1}


@pytest.mark.requirement("K595-12")
def test_unknown_leader_cannot_end_the_epoch() -> None:
    """The answer is none that ends the process of a stock leader (INVALID_REQUEST on the wire)."""
    cores, two, _ = leaderless()
    epoch = two.replica.epoch
    answer = end(cores, two, 1, epoch, two)
    assert answer.error is RaftError.UNKNOWN_LEADER_EPOCH
    assert two.replica.epoch == epoch


@pytest.mark.requirement("K595-12")
def test_graceful_shutdown_transfers_leadership_without_a_timeout() -> None:
    cores, one = formed_cores("1", "2", "3")
    proposal = cores.propose(one, "last")
    start_ms = cores.now_ms
    cores.do(one, ShutdownRequested())
    cores.advance(30)
    assert proposal in one.committed
    assert cores.leader is not one
    assert cores.leader.committed_values() == ["last"]
    assert cores.now_ms - start_ms <= 50
    assert one.halted is not None
    assert one.halted.reason is HaltReason.SHUTDOWN


def test_resignation_prefers_the_requested_successor() -> None:
    cores, one = formed_cores("1", "2", "3")
    for name in ("3", "2"):
        leader = cores.leader
        answer = cores.request(leader, ResignRequest(cores.nodes[name].key))
        assert isinstance(answer, ResignResponse)
        assert answer.error is RaftError.NONE
        cores.advance(20)
        assert cores.leader is cores.nodes[name]
    refused = cores.request(one, ResignRequest())
    assert isinstance(refused, ResignResponse)
    assert refused.error is RaftError.NOT_QUORUM_LEADER
    assert refused.leader.leader_id == 2


def test_failed_storage_is_reported_once_and_nothing_more_is_acknowledged() -> None:
    cores, one = formed_cores("1", "2", "3")
    ends: list[object] = []
    cores.observer = lambda node, output: (
        ends.append(output)
        if isinstance(output, Send) and isinstance(output.request, EndQuorumEpochRequest)
        else None
    )
    cores.partition(["1"], ["2", "3"])
    proposal = cores.propose(one, "never")
    cores.heal()
    cores.do(one, StorageFailed("EIO"))
    assert len(ends) == 2
    assert one.failed[proposal] is RaftError.STORAGE_FAILED
    assert one.halted is not None
    assert one.halted.reason is HaltReason.STORAGE_FAILED
    later = cores.propose(one, "later")
    read = cores.read(one)
    assert one.failed[later] is RaftError.STORAGE_FAILED
    assert one.reads[read] is RaftError.STORAGE_FAILED
    assert cores.request(one, ResignRequest()) is None
    assert next(one.replica.step(ShutdownRequested(), cores.now_ms).__iter__(), None) is None


@pytest.mark.requirement("K595-16")
def test_partitioned_leader_resigns_then_finds_the_new_quorum_and_follows() -> None:
    cores, one = formed_cores("1", "2", "3")
    cores.partition(["1"], ["2", "3"])
    lost = cores.propose(one, "zombie")
    cores.advance(4500)
    assert not one.is_leader
    assert one.failed[lost] is RaftError.LEADERSHIP_LOST
    new = cores.leader
    assert new is not one
    cores.heal()
    cores.advance(3000)
    assert one.replica.leader_id == new.key.id
    assert one.replica.epoch == new.replica.epoch
    assert one.values() == []


@pytest.mark.requirement("K595-16")
def test_removed_partitioned_leader_becomes_an_observer() -> None:
    cores, one = formed_cores("1", "2", "3")
    cores.partition(["1"], ["2", "3"])
    cores.advance(4500)
    answer = cores.remove_voter(cores.leader, one.key)
    assert answer.error is RaftError.NONE
    cores.heal()
    cores.advance(5000)
    assert one.replica.leader_id == cores.leader.key.id
    assert not one.replica.is_voter


@pytest.mark.requirement("K595-16")
def test_leader_with_a_majority_keeps_leading() -> None:
    cores, one = formed_cores("1", "2", "3")
    cores.crash(cores.nodes["3"])
    cores.advance(30_000)
    assert one.is_leader
    assert one.replica.epoch == 1


@pytest.mark.parametrize("cluster_id", [CLUSTER_ID, "another"])
def test_begin_that_another_replica_refuses_goes_to_the_recorded_address(cluster_id: str) -> None:
    """Any process can announce an address for a voter."""
    sent: set[str] = set()

    def saw(node: Node, output: Output) -> None:
        if isinstance(output, Send) and isinstance(output.request, BeginQuorumEpochRequest):
            sent.add(output.destination.host)

    cores = Cores(saw)
    one = cores.quorum("1", "2", "3")
    eight = cores.start("8", founder=True)
    eight.replica.cluster_id = cluster_id
    cores.crash(cores.nodes["3"])
    forged = DiscoverBrokersRequest(key_of(3), 1 << 50, endpoints_of("8")[0])
    cores.request(one, forged)
    sent.clear()
    cores.advance(10_000)
    assert one.is_leader
    assert sent == {"3", "8"}
