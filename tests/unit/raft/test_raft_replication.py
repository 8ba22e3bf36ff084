"""Replication, divergence, the high watermark, and what is durable when (KIP-595, "Fetch")."""

from typing import Any

import pytest

from quorum_node.raft import RaftError
from quorum_node.raft.events import DiskLow, RequestReceived, ResponseReceived
from quorum_node.raft.messages import (
    BeginQuorumEpochRequest,
    CurrentLeader,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DivergingEpoch,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    KeepingUp,
    ResignRequest,
    VoteRequest,
)
from quorum_node.raft.outputs import (
    AheadOfLeader,
    AppendBatch,
    FlushLog,
    HaltReason,
    Output,
    Respond,
    Send,
)
from quorum_node.records.batches import decode_records, split_batches
from quorum_node.records.control import LeaderChange, decode_control
from quorum_node.records.identity import ReplicaKey
from support.raft.cores import CLUSTER_ID, Cores, Node, endpoints_of, formed_cores, key_of
from support.raft.snapshot_env import take_snapshot


def fetch(cores: Cores, node: Node, **changes: Any) -> FetchResponse | None:
    values: dict[str, Any] = {
        "cluster_id": CLUSTER_ID,
        "replica": key_of(9),
        "current_leader_epoch": node.replica.epoch,
        "fetch_offset": node.replica.log_end,
        "last_fetched_epoch": node.replica.epochs.last_epoch,
        "max_wait_ms": 0,
    }
    answer = cores.request(node, FetchRequest(**{**values, **changes}))
    assert answer is None or isinstance(answer, FetchResponse)
    return answer


@pytest.mark.requirement("K595-06")
def test_fetch_acknowledges_only_durable_records() -> None:
    cores, one = formed_cores("1", "2", "3")
    two = cores.nodes["2"]
    cores.crash(cores.nodes["3"])
    two.hold_flush = True
    proposal = cores.propose(one, "a")
    cores.advance(400)
    assert two.values() == ["a"]
    assert proposal not in one.committed
    cores.release_flush(two)
    assert proposal in one.committed


@pytest.mark.requirement("K595-06")
def test_leader_counts_itself_only_for_durable_records() -> None:
    cores, one = formed_cores("1", "2", "3")
    cores.crash(cores.nodes["3"])
    one.hold_flush = True
    proposal = cores.propose(one, "a")
    assert cores.nodes["2"].durable_batches == len(cores.nodes["2"].batches)
    assert proposal not in one.committed
    cores.release_flush(one)
    assert proposal in one.committed


@pytest.mark.requirement("K595-06")
def test_fsync_of_the_leader_may_come_last() -> None:
    cores, one = formed_cores("1", "2", "3")
    one.hold_flush = True
    proposal = cores.propose(one, "a")
    assert proposal in one.committed, "two of three have it durably"


@pytest.mark.requirement("K595-06")
def test_followers_are_answered_before_the_leader_flushes() -> None:
    cores, one = formed_cores("1", "2", "3")
    outputs: list[object] = []
    cores.observer = lambda node, output: outputs.append(output) if node is one else None
    cores.propose(one, "a")
    kinds = [type(output) for output in outputs]
    assert kinds.index(AppendBatch) < kinds.index(Respond) < kinds.index(FlushLog)
    assert [kinds[i] for i in range(4)] == [AppendBatch, Respond, Respond, FlushLog]


@pytest.mark.requirement("K595-29")
def test_batch_is_acknowledged_when_all_of_it_is_committed() -> None:
    cores, one = formed_cores("1", "2", "3")
    cores.partition(["1"], ["2", "3"])
    proposal = cores.propose(one, "a", "b", "c")
    assert (proposal in one.committed, proposal in one.failed) == (False, False)
    cores.heal()
    cores.advance(2500)
    done = one.committed[proposal]
    assert done.end_offset - done.base_offset == 3
    assert one.replica.high_watermark >= done.end_offset
    assert one.committed_values() == ["a", "b", "c"]


@pytest.mark.requirement("K595-10")
def test_new_leader_writes_a_leader_change_record_first() -> None:
    cores, one = formed_cores("1", "2", "3")
    cores.crash(one)
    cores.advance(500)
    leader = cores.leader
    first = next(b for b in leader.batches if b.leader_epoch == leader.replica.epoch)
    change = decode_control(decode_records(split_batches(first.data)[0][0])[0])
    assert isinstance(change, LeaderChange)
    assert change.leader_id == leader.key.id
    assert set(change.voters) == {node.key for node in cores.nodes.values()}
    assert set(change.granting_voters) == {cores.nodes["2"].key, cores.nodes["3"].key}


@pytest.mark.requirement("K595-10")
def test_high_watermark_waits_for_a_record_of_the_current_epoch() -> None:
    cores, one = formed_cores("1", "2", "3")
    two, three = cores.nodes["2"], cores.nodes["3"]
    cores.partition(["1", "2"], ["3"])
    three.up = False
    one.hold_flush = True  # so that the commit is not sent
    cores.propose(one, "old")
    before = two.replica.high_watermark
    cores.crash(one, lose_unflushed=False)
    three.up = True
    cores.partition(["1"], ["2", "3"])
    two.hold_flush = three.hold_flush = True
    cores.advance(5000)
    assert two.replica.high_watermark == before
    leader = cores.leader
    assert leader.values() == ["old"]
    for node in (two, three):
        cores.release_flush(node)
    cores.advance(100)
    assert leader.replica.high_watermark == leader.replica.log_end


@pytest.mark.requirement("K595-13")
def test_any_two_logs_converge() -> None:
    cores, one = formed_cores("1", "2", "3")
    two, three = cores.nodes["2"], cores.nodes["3"]
    for round_ in range(3):  # leave several epochs of uncommitted records on 1
        cores.partition(["1"], ["2", "3"])
        for _ in range(round_ + 2):
            cores.propose(one, f"lost {round_}") if one.is_leader else None
        cores.advance(4500)
        other = cores.leader
        for number in range(3):
            cores.propose(other, f"kept {round_} {number}")
        if round_ < 2:
            cores.heal()
            cores.advance(5000)
    cores.heal()
    cores.advance(5000)
    cores.propose(cores.leader, "end")
    cores.advance(100)
    assert one.values() == two.values() == three.values()
    assert [b.data for b in one.batches] == [b.data for b in two.batches]


@pytest.mark.requirement("K595-13", "K595-14", "K595-15")
@pytest.mark.parametrize(
    ("fetch_offset", "last_epoch", "epoch", "end_offset"),
    [
        (99, 3, 3, 8),  # longer than the leader's log
        (7, 2, 1, 6),  # an epoch that the leader never saw
        (7, 1, 1, 6),  # right epoch, too many records of it
        (5, 9, 3, 8),  # a later epoch
    ],
)
def test_leader_returns_the_diverging_epoch_and_end_offset(
    fetch_offset: int, last_epoch: int, epoch: int, end_offset: int
) -> None:
    cores, one = formed_cores("1", "2", "3")  # epoch 1: offsets 0 to 4
    cores.propose(one, "a")
    one.replica.epoch = 3  # as if two elections had passed
    cores.propose(one, "b", "c")
    answer = fetch(cores, one, fetch_offset=fetch_offset, last_fetched_epoch=last_epoch)
    assert answer is not None
    assert answer.error is RaftError.OFFSET_OUT_OF_RANGE
    assert answer.diverging is not None
    assert (answer.diverging.epoch, answer.diverging.end_offset) == (epoch, end_offset)
    assert (answer.leader.leader_id, answer.leader.leader_epoch) == (1, 3)
    assert answer.range is None


def test_replica_that_would_truncate_committed_records_stops() -> None:
    cores = Cores()
    cores.quorum("1", "2", "3")
    liar = Cores()
    liar.quorum("1", "2", "3")
    two = cores.nodes["2"]
    sends: list[Send] = []
    cores.observer = lambda node, output: (
        sends.append(output) if isinstance(output, Send) and node is two else None
    )
    cores.propose(cores.nodes["1"], "a", "b")
    cores.advance(100)
    answer = FetchResponse(
        RaftError.OFFSET_OUT_OF_RANGE, CurrentLeader(1, 1), diverging=DivergingEpoch(1, 2)
    )
    cores.do(two, ResponseReceived(sends[-1].correlation, answer))
    assert two.halted is not None
    assert two.halted.reason is HaltReason.CORRUPTION
    assert two.values() == ["a", "b"]


@pytest.mark.requirement("K595-14", "K595-15")
def test_every_error_response_contains_leader_and_epoch() -> None:
    cores, one = formed_cores("1", "2", "3")
    two = cores.nodes["2"]
    seen = {}
    for node, changes in (
        (one, {"current_leader_epoch": 0}),
        (one, {"current_leader_epoch": 5}),
        (one, {"fetch_offset": -1}),
        (one, {"cluster_id": "another"}),
        (two, {}),
    ):
        answer = fetch(cores, node, **changes)
        assert answer is not None
        seen[answer.error] = answer
        assert (answer.leader.leader_id, answer.leader.leader_epoch) == (1, 1)
        assert answer.leader.endpoint == endpoints_of("1")[0]
    assert set(seen) == {
        RaftError.FENCED_LEADER_EPOCH,
        RaftError.UNKNOWN_LEADER_EPOCH,
        RaftError.OFFSET_OUT_OF_RANGE,
        RaftError.INVALID_CLUSTER_ID,
        RaftError.NOT_QUORUM_LEADER,
    }


@pytest.mark.requirement("K595-14", "K595-15", "K595-20")
def test_other_cluster_id_is_rejected_in_every_request() -> None:
    cores = Cores()
    cores.quorum("1", "2", "3")
    two, three = cores.nodes["2"], cores.nodes["3"]
    requests = (
        VoteRequest("another", three.key, 5, 5, 99, voter=two.key),
        VoteRequest("another", three.key, 5, 5, 99, voter=two.key, pre_vote=True),
        BeginQuorumEpochRequest("another", 3, 5, two.key, endpoints_of("3")[0]),
        EndQuorumEpochRequest("another", 1, 1, (two.key,)),
        FetchRequest("another", three.key, 1, 0, 0),
    )
    for request in requests:
        answer = cores.request(two, request)
        assert getattr(answer, "error", None) is RaftError.INVALID_CLUSTER_ID
        leader = getattr(answer, "leader", None)
        assert (leader.leader_id, leader.leader_epoch) == (1, 1)  # type: ignore[union-attr]
    assert two.replica.epoch == 1
    assert two.replica.leader_id == 1


@pytest.mark.requirement("K595-15")
def test_stale_follower_is_redirected_in_one_round_trip() -> None:
    cores, one = formed_cores("1", "2", "3")
    three = cores.nodes["3"]
    three.up = False
    cores.partition(["1", "3"], ["2"])
    cores.crash(three)
    cores.heal()
    cores.request(one, EndQuorumEpochRequest(CLUSTER_ID, 1, 1, ()))
    cores.request(one, ResignRequest())
    cores.advance(50)
    assert cores.leader is cores.nodes["2"]
    sends: list[Send] = []
    cores.observer = lambda node, output: (
        sends.append(output)
        if isinstance(output, Send) and isinstance(output.request, FetchRequest) and node is three
        else None
    )
    cores.restart(three)  # its quorum-state contains: leader 1, epoch 1
    assert [send.destination.host for send in sends[:2]] == ["1", "2"]
    assert three.replica.leader_id == 2


@pytest.mark.requirement("K853-02")
def test_fetch_without_a_uuid_never_counts_as_one_of_a_voter() -> None:
    cores, one = formed_cores("1", "2", "3")
    cores.crash(cores.nodes["2"])
    cores.crash(cores.nodes["3"])
    cores.restart(one) if not one.up else None
    proposal = cores.propose(one, "a")
    for replica in (ReplicaKey(2, None), key_of(2, incarnation=5), key_of(9)):
        fetch(cores, one, replica=replica)
    assert proposal not in one.committed
    fetch(cores, one, replica=cores.nodes["2"].key)
    assert proposal in one.committed


def test_observer_fetch_never_moves_the_high_watermark() -> None:
    cores, one = formed_cores("1", "2", "3")
    cores.start("4", bootstrap=["1"])
    cores.start("5", bootstrap=["1"])
    cores.advance(100)
    cores.crash(cores.nodes["2"])
    cores.crash(cores.nodes["3"])
    proposal = cores.propose(one, "a")
    cores.advance(300)
    assert cores.nodes["4"].values() == ["a"]
    assert proposal not in one.committed


@pytest.mark.requirement("K595-17")
def test_observer_finds_the_leader_through_any_server_and_follows_a_change() -> None:
    cores, one = formed_cores("1", "2", "3")
    observer = cores.start("4", bootstrap=["3"])
    cores.advance(200)
    assert observer.replica.leader_id == 1
    cores.propose(one, "a")
    cores.advance(50)
    assert observer.committed_values() == ["a"]
    cores.crash(one)
    cores.advance(1500)
    cores.propose(cores.leader, "b")
    cores.advance(600)
    assert observer.replica.leader_id == cores.leader.key.id
    assert observer.committed_values() == ["a", "b"]
    assert not observer.replica.is_voter


@pytest.mark.requirement("K595-22", "K595-14")
def test_describe_is_served_by_the_leader_with_the_progress_of_all_replicas() -> None:
    cores, one = formed_cores("1", "2", "3")
    observer = cores.start("4", bootstrap=["1"])
    cores.crash(cores.nodes["3"])
    cores.propose(one, "a", "b")
    cores.advance(2500)
    answer = cores.request(one, DescribeQuorumRequest())
    assert isinstance(answer, DescribeQuorumResponse)
    assert (answer.leader.leader_id, answer.leader.leader_epoch) == (1, 1)
    assert answer.high_watermark == one.replica.log_end
    by_id = {each.key.id: each for each in answer.voters}
    assert [each.key.id for each in answer.voters] == [1, 2, 3]
    assert [by_id[n].log_end_offset for n in (1, 2, 3)] == [7, 7, 5]
    assert [by_id[n].caught_up for n in (1, 2, 3)] == [True, True, False]
    assert by_id[3].last_fetch_ms is not None
    assert cores.now_ms - by_id[3].last_fetch_ms > 2000
    assert [each.key for each in answer.observers] == [observer.key]
    assert answer.observers[0].last_caught_up_ms is not None
    refused = cores.request(cores.nodes["2"], DescribeQuorumRequest())
    assert isinstance(refused, DescribeQuorumResponse)
    assert (refused.error, refused.leader.leader_id) == (RaftError.NOT_QUORUM_LEADER, 1)


def test_parked_fetch_is_answered_when_a_record_is_appended() -> None:
    cores, one = formed_cores("1")
    request = FetchRequest(CLUSTER_ID, key_of(9), 1, one.replica.log_end, 1, max_wait_ms=500)
    one.replica.step(RequestReceived(77, request), cores.now_ms)
    assert 77 not in one.answers
    cores.propose(one, "a")
    answer = one.answers[77]
    assert isinstance(answer, FetchResponse)
    assert answer.records


def test_consumer_sees_only_committed_records() -> None:
    cores, one = formed_cores("1", "2", "3")
    cores.partition(["1"], ["2", "3"])
    committed = one.replica.high_watermark
    cores.propose(one, "uncommitted")
    consumer = ReplicaKey(-1, None)
    answer = fetch(cores, one, replica=consumer, fetch_offset=0, last_fetched_epoch=-1)
    assert answer is not None
    assert split_batches(answer.records)[0][-1].header.end_offset == committed


def test_leader_low_on_disk_space_rejects_writes_and_continues() -> None:
    """No other voter can lead."""
    cores, one = formed_cores("1")
    cores.do(one, DiskLow(True))
    refused = cores.propose(one, "a")
    assert one.failed[refused] is RaftError.DISK_LOW
    cores.do(one, DiskLow(False))
    assert cores.propose(one, "b") in one.committed


def test_leader_low_on_disk_space_hands_over_to_another_voter() -> None:
    cores, one = formed_cores("1", "2", "3")
    cores.do(one, DiskLow(True))
    cores.advance(1_000)
    leader = cores.leader
    assert leader is not one
    assert cores.propose(leader, "a") in leader.committed


def test_leadership_is_handed_over_once_by_each_voter_with_a_low_disk() -> None:
    cores, one = formed_cores("1", "2", "3")
    epoch = one.replica.epoch
    for node in cores.nodes.values():
        cores.do(node, DiskLow(True))
    cores.advance(20_000)
    leader = cores.leader
    assert epoch < leader.replica.epoch <= epoch + 3
    assert leader.failed[cores.propose(leader, "a")] is RaftError.DISK_LOW
    cores.do(leader, DiskLow(False))
    proposal = cores.propose(leader, "b")
    cores.advance(100)
    assert proposal in leader.committed


@pytest.mark.requirement("K595-17")
def test_server_that_names_a_dead_leader_does_not_keep_an_observer_from_the_live_one() -> None:
    cores, one = formed_cores("1", "2")
    stale = cores.start("7", bootstrap=["2"])
    cores.advance(100)
    assert stale.replica.leader_id == 1
    cores.crash(cores.nodes["2"])
    cores.partition(["7"], ["1", "2"])  # 7 receives nothing more and continues to name 1
    cores.restart(cores.nodes["2"])
    cores.request(one, ResignRequest())
    cores.advance(100)
    assert cores.leader is cores.nodes["2"]
    answer = cores.remove_voter(cores.leader, one.key)
    assert answer.error is RaftError.NONE
    cores.crash(one)
    cores.heal()
    cores.cut = {("7", "2"), ("2", "7")}
    observer = cores.start("9", bootstrap=["7", "2"])
    cores.advance(3000)
    assert observer.replica.leader_id == 2


@pytest.mark.requirement("K595-30")
def test_observer_knows_its_own_lag() -> None:
    """KIP-595, "Log Compaction": the last caught-up time, and the boundary of the newest snapshot."""
    cores, one = formed_cores("1", "2", "3")
    observer = cores.start("4", bootstrap=["1"])
    cores.propose(one, "seen")
    cores.advance(1000)
    reported = observer.replica.describe(cores.now_ms).keeping_up
    assert reported == KeepingUp(0, 0)
    assert cores.nodes["2"].replica.describe(cores.now_ms).keeping_up is None, (
        "voters do not need it"
    )
    behind = FetchRequest(CLUSTER_ID, observer.key, 1, one.replica.log_end - 1, 1, max_wait_ms=0)
    cores.partition(["1", "2", "3"], ["4"])
    cores.advance(5000)
    answer = cores.request(one, behind)
    assert isinstance(answer, FetchResponse)
    assert answer.keeping_up is not None
    assert 5000 <= answer.keeping_up.caught_up_age_ms <= 6000


@pytest.mark.requirement("K595-30")
def test_observer_gets_the_end_of_the_newest_snapshot_of_the_leader() -> None:
    """The draft's dirty offset: what replaces the log up to there is one state, and the same on every replica."""
    cores, one = formed_cores("1", "2", "3")
    observer = cores.start("4", bootstrap=["1"])
    ends = [0]
    for round_number in range(3):
        cores.propose(one, f"round {round_number}")
        cores.advance(1000)
        reported = observer.replica.describe(cores.now_ms).keeping_up
        assert reported is not None
        assert reported.dirty_offset == ends[-1]
        take_snapshot(cores, one)
        ends.append(one.replica.high_watermark)
    assert len(set(ends)) == 4


def test_leader_reports_replicas_with_a_higher_committed_offset() -> None:
    """That happens only where a majority's disks were lost. A longer log alone is nothing special."""
    cores, one = formed_cores("1", "2", "3")
    end = one.replica.log_end

    def told(known_offset: int) -> list[Output]:
        request = FetchRequest(
            CLUSTER_ID, key_of(9), one.replica.epoch, end + 5, 1, 0, high_watermark=known_offset
        )
        outputs = one.replica.step(RequestReceived(77, request), cores.now_ms)
        return [each for each in outputs if isinstance(each, AheadOfLeader)]

    assert told(end) == []
    assert told(-1) == []
    assert told(end + 3) == [AheadOfLeader(key_of(9), end + 3, end)]
