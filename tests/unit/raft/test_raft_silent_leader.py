"""A leader that answers no fetch for half the fetch timeout: pre-votes early, everything else as before (K650-01)."""

import pytest

from quorum_node.raft import RaftConfig
from quorum_node.raft.events import TimerExpired
from quorum_node.raft.messages import FetchRequest, VoteRequest, VoteResponse
from quorum_node.raft.outputs import Output, Send
from support.raft.cores import CLUSTER_ID, Cores, Node, formed_cores


def asks(cores: Cores, voter: Node, candidate: Node, *, pre_vote: bool) -> bool:
    """Whether the vote is granted, for the epoch after this one."""
    epoch = voter.replica.epoch + (0 if pre_vote else 1)
    request = VoteRequest(
        CLUSTER_ID, candidate.key, epoch, 9, 99, voter=voter.key, pre_vote=pre_vote
    )
    answer = cores.request(voter, request)
    assert isinstance(answer, VoteResponse)
    return answer.vote_granted


def moment_of_an_election(cores: Cores, limit_ms: int) -> float | None:
    """Milliseconds until another epoch, None if there is none."""
    epoch, start_ms = max(node.replica.epoch for node in cores.nodes.values()), cores.now_ms
    while cores.now_ms < start_ms + limit_ms:
        cores.advance(1)
        if max(node.replica.epoch for node in cores.nodes.values() if node.up) > epoch:
            return cores.now_ms - start_ms
    return None


@pytest.mark.requirement("K650-01")
def test_frozen_leader_is_replaced_after_half_the_fetch_timeout() -> None:
    cores, one = formed_cores("1", "2", "3")
    cores.partition(["1"], ["2", "3"])
    took_ms = moment_of_an_election(cores, 3000)
    assert took_ms is not None
    assert RaftConfig(()).silence_ms == 1000
    assert 700 < took_ms < 1150
    assert one.is_leader, "check-quorum lasts for the whole fetch timeout, as before"
    cores.advance(2000 - took_ms + 20)
    assert not one.is_leader


@pytest.mark.requirement("K650-01")
def test_one_voter_that_hears_the_leader_blocks_a_pre_vote() -> None:
    """One of three gets no messages from the leader: for a minute nothing changes."""
    cores, one = formed_cores("1", "2", "3")
    cores.cut = {("1", "3"), ("3", "1")}
    assert moment_of_an_election(cores, 60_000) is None
    assert one.is_leader


def test_voter_grants_a_pre_vote_only_after_its_own_fetch_is_unanswered_for_that_time() -> None:
    cores = Cores()
    cores.quorum("1", "2", "3")
    two, three = cores.nodes["2"], cores.nodes["3"]
    cores.partition(["1"], ["2"], ["3"])
    cores.advance(600)
    assert not asks(cores, two, three, pre_vote=True)
    cores.advance(420)
    assert asks(cores, two, three, pre_vote=True)
    assert two.replica.epoch == 1


def test_pre_vote_of_an_unknown_voter_is_rejected_before_the_fetch_timeout() -> None:
    """Silence counts only for the pre-vote of a known voter: the epoch of an unknown one is not adopted."""
    cores = Cores()
    cores.quorum("1", "2", "3")
    two = cores.nodes["2"]
    stranger = cores.start("9", bootstrap=["1"], cluster_id=CLUSTER_ID)
    cores.partition(["1"], ["2"], ["3"], ["9"])
    cores.advance(1400)
    assert not two.replica.has_responsive_leader()
    assert not asks(cores, two, stranger, pre_vote=False)
    assert two.replica.epoch == 1
    cores.advance(1500)
    asks(cores, two, stranger, pre_vote=False)
    assert two.replica.epoch == 2


def test_lost_fetch_is_resent_before_the_leader_counts_as_silent() -> None:
    cores = Cores()
    cores.quorum("1", "2", "3")
    cores.partition(["1"], ["2", "3"])
    cores.advance(240)  # answers that the leader sends meanwhile are lost; later ones arrive
    cores.heal()
    assert moment_of_an_election(cores, 5000) is None


def test_slow_own_disk_of_a_follower_does_not_count_as_a_silent_leader() -> None:
    """It does not fetch, so no fetch is unanswered: it neither requests pre-votes nor grants them."""
    cores, one = formed_cores("1", "2", "3")
    two, three = cores.nodes["2"], cores.nodes["3"]
    two.hold_flush = three.hold_flush = True
    sent: list[str] = []

    def watch(node: Node, output: Output) -> None:
        if isinstance(output, Send) and not isinstance(output.request, FetchRequest):
            sent.append(node.name)

    cores.propose(one, "a")
    cores.observer = watch
    cores.advance(1600)
    assert not asks(cores, two, three, pre_vote=True)
    assert sent == []


def test_paused_process_handles_leader_messages_before_its_timers() -> None:
    """All are paused for less than the fetch timeout and resume together: no timer fires before the answers are processed."""
    cores = Cores()
    cores.quorum("1", "2", "3")
    cores.now_ms += 1500
    for name in ("2", "3"):
        cores.do(cores.nodes[name], TimerExpired())
    cores.advance(5000)
    assert {node.replica.epoch for node in cores.nodes.values()} == {1}


@pytest.mark.parametrize("heal_after_ms", range(20_000, 24_000, 500))
def test_voter_without_pre_vote_counts_only_if_the_leader_does_not_respond_either(
    heal_after_ms: int,
) -> None:
    """Whenever the cut ends: the leader answers the pre-vote itself, so the epoch stays."""
    cores = Cores()
    cores.quorum("1", "2", "3")
    cores.without_pre_vote = {"2"}
    cores.partition(["1", "2"], ["3"])
    cores.advance(heal_after_ms)
    cores.heal()
    cores.advance(6000)
    assert {node.replica.epoch for node in cores.nodes.values()} == {1}


@pytest.mark.parametrize(
    ("fetch_timeout_ms", "silence_ms", "voter_ms", "observer_ms"),
    [(2000, 1000, 250, 500), (10_000, 5000, 500, 500), (700, 350, 87, 175)],
)
def test_silence_timers_follow_the_fetch_timeout(
    fetch_timeout_ms: int, silence_ms: int, voter_ms: int, observer_ms: int
) -> None:
    """Several answers fit into the time after which a leader counts as silent."""
    config = RaftConfig((), fetch_timeout_ms=fetch_timeout_ms)
    assert config.silence_ms == silence_ms
    assert config.fetch_max_wait_ms == voter_ms
    assert config.observer_fetch_max_wait_ms == observer_ms
