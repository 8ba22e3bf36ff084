"""How votes are granted (KIP-595, "Vote Request Handling"; KIP-853, replica keys)."""

from typing import Any

import pytest

from quorum_node.raft import RaftError, RoleName
from quorum_node.raft.election import start_candidacy
from quorum_node.raft.events import RequestReceived, ResponseReceived, TimerExpired
from quorum_node.raft.messages import (
    CurrentLeader,
    EndQuorumEpochRequest,
    VoteRequest,
    VoteResponse,
)
from quorum_node.raft.outputs import PersistQuorumState, Respond, RoleChanged, Send
from quorum_node.raft.transitions import become_unattached
from quorum_node.records.identity import ReplicaKey
from support.raft.cores import CLUSTER_ID, Cores, Node, formed_cores, key_of


def leaderless() -> tuple[Cores, Node, Node, Node]:
    """Voters 1, 2, 3; 1 led and failed, 2 and 3 have just detected it and know no other leader."""
    cores, one = formed_cores("1", "2", "3")
    two, three = cores.nodes["2"], cores.nodes["3"]
    cores.partition(["1"], ["2"], ["3"])
    cores.crash(one)
    return cores, one, two, three


def ask(cores: Cores, requested: Node, **changes: Any) -> VoteResponse:
    """A Vote of node 3 for an epoch beyond the voter's, with changes."""
    three = cores.nodes["3"]
    values: dict[str, Any] = {
        "cluster_id": CLUSTER_ID,
        "candidate": three.key,
        "candidate_epoch": requested.replica.epoch + 1,
        "last_epoch": three.replica.epochs.last_epoch,
        "last_epoch_end_offset": three.replica.log_end,
        "voter": requested.key,
    }
    answer = cores.request(requested, VoteRequest(**{**values, **changes}))
    assert isinstance(answer, VoteResponse)
    return answer


@pytest.mark.requirement("K595-06", "K595-07")
def test_vote_is_durable_before_it_is_sent() -> None:
    cores, _, two, three = leaderless()
    request = VoteRequest(CLUSTER_ID, three.key, two.replica.epoch + 1, 9, 999, voter=two.key)
    outputs = two.replica.step(RequestReceived(1, request), cores.now_ms)
    reported = next(i for i, output in enumerate(outputs) if isinstance(output, Respond))
    saved = [output for output in outputs[:reported] if isinstance(output, PersistQuorumState)]
    assert saved[-1].state.voted == three.key
    assert saved[-1].state.leader_epoch == request.candidate_epoch


@pytest.mark.requirement("K595-06", "K595-07")
def test_candidate_has_its_own_vote_on_disk_before_it_requests_votes() -> None:
    log: list[tuple[str, object]] = []
    cores = Cores(lambda node, output: log.append((node.name, output)))
    one = cores.quorum("1", "2", "3")
    log.clear()
    cores.crash(one)
    cores.advance(2000)
    for name in {name for name, _ in log}:
        own: set[int] = set()
        for who, output in log:
            if who != name:
                continue
            if isinstance(output, PersistQuorumState) and output.state.voted is not None:
                own.add(output.state.leader_epoch)
            request = getattr(output, "request", None)
            if isinstance(request, VoteRequest) and not request.pre_vote:
                assert request.candidate_epoch in own
    assert cores.leader.replica.epoch == 2


@pytest.mark.requirement("K595-07")
def test_only_one_candidate_key_gets_the_vote_of_an_epoch() -> None:
    cores, _, two, three = leaderless()
    epoch = two.replica.epoch + 1
    assert ask(cores, two, candidate_epoch=epoch).vote_granted
    assert ask(cores, two, candidate_epoch=epoch).vote_granted, "the same key may ask again"
    other = ask(cores, two, candidate_epoch=epoch, candidate=key_of(1))
    assert (other.vote_granted, other.error) == (False, RaftError.NONE)
    assert two.state is not None
    assert two.state.voted == three.key


@pytest.mark.requirement("K595-07")
def test_vote_survives_a_crash() -> None:
    cores, _, two, three = leaderless()
    epoch = two.replica.epoch + 1
    assert ask(cores, two, candidate_epoch=epoch).vote_granted
    cores.crash(two)
    cores.restart(two)
    assert not ask(cores, two, candidate_epoch=epoch, candidate=key_of(1)).vote_granted
    assert ask(cores, two, candidate_epoch=epoch).vote_granted
    assert two.replica.voted == three.key


@pytest.mark.requirement("K595-07")
@pytest.mark.parametrize(
    ("last_epoch", "end_offset_delta", "granted"),
    [(1, 0, True), (1, 1, True), (1, -1, False), (0, 100, False), (2, -3, True)],
)
def test_lagging_log_gets_no_vote(last_epoch: int, end_offset_delta: int, granted: bool) -> None:
    cores, _, two, _ = leaderless()
    answer = ask(
        cores,
        two,
        last_epoch=last_epoch,
        last_epoch_end_offset=two.replica.log_end + end_offset_delta,
    )
    assert answer.vote_granted is granted
    assert two.replica.epoch == 2, "the newer epoch is taken in any case"


@pytest.mark.requirement("K595-07", "K595-14", "K595-15")
def test_older_epoch_is_fenced_and_the_response_has_the_newer_one() -> None:
    cores, one = formed_cores("1", "2", "3")
    answer = ask(cores, cores.nodes["2"], candidate_epoch=0)
    assert (answer.error, answer.vote_granted) == (RaftError.FENCED_LEADER_EPOCH, False)
    assert (answer.leader.leader_id, answer.leader.leader_epoch) == (1, 1)
    assert answer.leader.endpoint == one.config.endpoints[0]


@pytest.mark.requirement("K595-07")
def test_candidate_that_sees_a_larger_epoch_steps_down() -> None:
    cores, _, two, three = leaderless()
    cores.advance(2600)
    cores.heal()
    cores.partition(["1"], ["2", "3"])
    assert ask(cores, two, candidate_epoch=9, last_epoch=0).leader.leader_epoch == 9
    cores.advance(3000)
    assert min(two.replica.epoch, three.replica.epoch) >= 10
    assert cores.leader in (two, three)


@pytest.mark.requirement("K595-07")
@pytest.mark.parametrize("pre_vote", [False, True])
def test_candidate_that_gets_a_response_with_a_larger_epoch_steps_down(pre_vote: bool) -> None:
    """It takes the epoch over, on disk, and leads nothing however many votes come afterwards."""
    cores, _, two, three = leaderless()
    cores.advance(2600)
    cores.do(two, TimerExpired())
    if not pre_vote:
        start_candidacy(two.replica)
    sent = [
        (number, each.request)
        for number, each in two.replica.outstanding.items()
        if isinstance(each.request, VoteRequest) and each.request.pre_vote is pre_vote
    ]
    sent = sent[-2:]
    assert {request.voter for _, request in sent} == {key_of(1), key_of(3)}
    epoch = two.replica.epoch
    larger = CurrentLeader(-1, epoch + 5)
    cores.do(two, ResponseReceived(sent[0][0], VoteResponse(RaftError.NONE, larger, False)))
    assert two.replica.role.name is RoleName.UNATTACHED
    assert two.replica.epoch == epoch + 5
    assert two.state is not None
    assert (two.state.leader_epoch, two.state.voted) == (epoch + 5, None)
    granted = VoteResponse(RaftError.NONE, CurrentLeader(-1, epoch), True)
    cores.do(two, ResponseReceived(sent[1][0], granted))
    assert not two.is_leader
    assert not three.is_leader


@pytest.mark.requirement("K853-02", "K853-06")
def test_request_for_another_key_of_the_same_id_is_rejected() -> None:
    cores, _, two, _ = leaderless()
    answer = ask(cores, two, voter=key_of(2, incarnation=7))
    assert (answer.error, answer.vote_granted) == (RaftError.INVALID_VOTER_KEY, False)
    assert two.replica.epoch == 1


@pytest.mark.requirement("K853-06")
def test_replica_with_an_empty_disk_never_votes_under_its_old_key() -> None:
    cores, _, two, three = leaderless()
    old_key = two.key
    cores.lose_disk(two, incarnation=2)
    as_old = ask(cores, two, voter=old_key, candidate_epoch=5)
    assert (as_old.error, as_old.vote_granted) == (RaftError.INVALID_VOTER_KEY, False)
    cores.heal()
    cores.advance(10_000)
    assert not three.is_leader, "one vote of three is no majority"
    assert two.state is None or two.state.voted is None


@pytest.mark.requirement("K853-02")
@pytest.mark.parametrize("candidate", [ReplicaKey(3, None), key_of(3, incarnation=2)])
def test_candidate_is_identified_by_id_and_uuid(candidate: ReplicaKey) -> None:
    cores, _, two, _ = leaderless()
    answer = ask(cores, two, candidate=candidate)
    assert (answer.error, answer.vote_granted) == (RaftError.INCONSISTENT_VOTER_SET, False)


@pytest.mark.requirement("K595-08", "K650-01")
def test_unknown_candidate_changes_nothing_while_a_leader_is_alive() -> None:
    cores = Cores()
    cores.quorum("1", "2", "3")
    for name in ("1", "2"):
        node = cores.nodes[name]
        before = node.state
        answer = ask(cores, node, candidate=key_of(9), candidate_epoch=8, last_epoch=7)
        assert not answer.vote_granted
        assert answer.leader.leader_epoch == 1
        assert node.state == before
    assert cores.leader.replica.epoch == 1


@pytest.mark.requirement("K595-08")
def test_unknown_candidate_is_rejected_without_a_leader_and_the_voter_campaigns_itself() -> None:
    cores, _, two, _ = leaderless()
    answer = ask(cores, two, candidate=key_of(9), candidate_epoch=8, last_epoch=7)
    assert (answer.vote_granted, answer.leader.leader_epoch) == (False, 8)
    assert two.state is not None
    assert two.state.leader_epoch == 8
    cores.heal()
    cores.advance(100)
    assert cores.leader.replica.epoch > 8


@pytest.mark.requirement("K595-08")
def test_voter_whose_campaign_failed_votes_for_an_unknown_candidate() -> None:
    cores, _, two, _ = leaderless()
    cores.advance(8000)
    assert two.replica.campaigns > 0
    answer = ask(cores, two, candidate=key_of(9), last_epoch=7)
    assert answer.vote_granted


@pytest.mark.requirement("K595-17")
def test_observer_never_votes_unless_its_own_key_is_requested_as_a_voter() -> None:
    cores = Cores()
    cores.quorum("1", "2", "3")
    observer = cores.start("4", bootstrap=["1"])
    cores.advance(100)
    for voter in (None, key_of(4, incarnation=2)):
        answer = ask(cores, observer, voter=voter, candidate_epoch=5, last_epoch=5)
        assert not answer.vote_granted
        assert answer.leader.leader_epoch == 1


@pytest.mark.requirement("K595-17")
def test_observer_never_campaigns() -> None:
    """For any requests and however long there is no leader, it requests no vote and raises no epoch."""
    cores, one = formed_cores("1", "2", "3")
    observers = [cores.start(name, bootstrap=["1", "2", "3"]) for name in ("4", "5")]
    cores.advance(600)
    requested: list[str] = []
    cores.observer = lambda node, output: (
        requested.append(node.name)
        if isinstance(output, Send) and isinstance(output.request, VoteRequest)
        else None
    )
    for name in ("2", "3"):
        cores.crash(cores.nodes[name])
    for observer in observers:
        cores.request(observer, EndQuorumEpochRequest(CLUSTER_ID, 1, 1, (observer.key,)))
    cores.crash(one)
    cores.advance(60_000)
    assert not set(requested) & {"4", "5"}
    assert [observer.replica.epoch for observer in observers] == [1, 1]
    assert not any(observer.is_leader for observer in observers)


@pytest.mark.requirement("K595-09")
def test_candidate_that_cannot_win_steps_down_immediately() -> None:
    cores, one = formed_cores("1", "2", "3")
    two, three = cores.nodes["2"], cores.nodes["3"]
    cores.partition(["1", "2"], ["3"])
    cores.propose(one, "three lags now")
    cores.crash(one)
    cores.heal()
    start_ms = cores.now_ms
    roles: list[RoleName] = []
    cores.observer = lambda node, output: (
        roles.append(output.role) if node is three and isinstance(output, RoleChanged) else None
    )
    cores.request(three, EndQuorumEpochRequest(CLUSTER_ID, 1, 1, (three.key, two.key)))
    assert roles[-2:] == [RoleName.CANDIDATE, RoleName.UNATTACHED]
    assert cores.now_ms == start_ms
    assert three.replica.epoch == 2


@pytest.mark.requirement("K595-09")
def test_election_delays_differ() -> None:
    delays = set()
    for jitter in (0.1, 0.5, 0.9):
        cores = Cores()
        cores.quorum("1", "2", "3")
        node = cores.nodes["2"]
        node.jitter = jitter
        cores.crash(node)
        cores.crash(cores.nodes["1"])
        node.state = None
        cores.restart(node)
        delays.add(node.replica.next_deadline_ms())
        role = node.replica.role
        delays.add(getattr(role, "election_deadline_ms", None))
    assert len(delays) >= 3


@pytest.mark.parametrize("pre_vote", [False, True])
@pytest.mark.requirement("K595-09")
def test_candidate_with_a_shorter_log_delays_no_campaign(pre_vote: bool) -> None:
    """A candidate without pre-vote requests votes repeatedly, in ever newer epochs."""
    cores, _, two, _ = leaderless()
    become_unattached(two.replica, two.replica.epoch)
    campaigned: list[Send] = []

    def note(node: Node, output: object) -> None:
        if node is two and isinstance(output, Send) and isinstance(output.request, VoteRequest):
            campaigned.append(output)

    cores.observer = note
    for _ in range(25):
        answer = ask(cores, two, last_epoch=0, last_epoch_end_offset=0, pre_vote=pre_vote)
        assert not answer.vote_granted
        cores.advance(200)
        if campaigned:
            return
    pytest.fail("2 did not campaign for five seconds, though it alone can win")
