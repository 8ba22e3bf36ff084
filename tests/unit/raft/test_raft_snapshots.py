"""Snapshots in the core: who is sent to one, what a leader serves, what stays of a log behind one."""

from dataclasses import replace

import pytest

from quorum_node.raft import QuorumState, RaftError
from quorum_node.raft.events import PrefixObsolete, RequestReceived, ResponseReceived
from quorum_node.raft.messages import (
    AddVoterRequest,
    CurrentLeader,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
)
from quorum_node.raft.outputs import (
    DeleteLogPrefix,
    HaltReason,
    ResetLog,
    TruncateLog,
)
from quorum_node.records.identity import ReplicaKey
from quorum_node.records.snapshot_id import NO_SNAPSHOT, SnapshotId
from support.raft.cores import CLUSTER_ID, Cores, Node, endpoints_of, formed_cores, key_of
from support.raft.snapshot_env import (
    RecordingCores,
    delete_prefix,
    left_behind,
    release_finish,
    take_snapshot,
)

K853_08 = pytest.mark.requirement("K853-08")


def part(cores: Cores, node: Node, **changes: object) -> FetchSnapshotResponse:
    latest = node.snapshots.latest or SnapshotId(1, 1)
    request = FetchSnapshotRequest(CLUSTER_ID, key_of(9), node.replica.epoch, latest, 0, 100)
    answer = cores.request(node, replace(request, **changes))  # type: ignore[arg-type]
    assert isinstance(answer, FetchSnapshotResponse)
    return answer


@K853_08
def test_fetch_snapshot_responses_of_a_leader() -> None:
    cores = Cores()
    one = left_behind(cores, "1", "2", "3")
    latest = one.snapshots.latest
    assert latest is not None
    size = len(one.snapshots.whole[latest])
    good = part(cores, one)
    assert (good.error, good.size_bytes, len(good.data)) == (RaftError.NONE, size, 100)
    assert good.leader.leader_id == 1
    assert part(cores, one, position=size - 1).error is RaftError.NONE
    for position in (-1, size, size + 7):
        assert part(cores, one, position=position).error is RaftError.POSITION_OUT_OF_RANGE
    for wrong in (SnapshotId(latest.end_offset - 1, 1), SnapshotId(latest.end_offset + 1, 1)):
        assert part(cores, one, snapshot_id=wrong).error is RaftError.SNAPSHOT_NOT_FOUND
    epoch = one.replica.epoch
    old = part(cores, one, current_leader_epoch=epoch - 1)
    assert old.error is RaftError.FENCED_LEADER_EPOCH
    assert old.leader == CurrentLeader(1, epoch, endpoints_of("1")[0])
    newer = part(cores, one, current_leader_epoch=epoch + 1)
    assert newer.error is RaftError.UNKNOWN_LEADER_EPOCH
    assert part(cores, one, cluster_id="B").error is RaftError.INVALID_CLUSTER_ID
    assert part(cores, cores.nodes["2"]).error is RaftError.NOT_QUORUM_LEADER
    assert one.is_leader


@K853_08
def test_voter_with_a_newer_epoch_is_followed() -> None:
    cores = Cores()
    one = left_behind(cores, "1", "2", "3")
    part(cores, one, replica=key_of(3), current_leader_epoch=one.replica.epoch + 1)
    cores.advance(1)
    assert one.replica.epoch == 1, (
        "any peer could have sent that, so 3 is asked, which has not answered yet"
    )
    three = cores.nodes["3"]
    three.state = QuorumState(2, cluster_id=CLUSTER_ID, formed=True)
    cores.crash(three)
    cores.restart(three)
    cores.heal()
    cores.advance(600)
    part(cores, one, replica=key_of(3), current_leader_epoch=2)
    cores.advance(50)
    assert cores.leader is one
    assert one.replica.epoch == 3


@pytest.mark.requirement("K595-16")
def test_fetch_snapshot_requests_keep_the_leader_from_resigning() -> None:
    cores = Cores()
    one = left_behind(cores, "1", "2", "3")
    cores.partition(["1"], ["2", "3"])
    for _ in range(20):
        part(cores, one, replica=key_of(3))
        cores.advance(300)
    assert one.is_leader
    cores.advance(2500)
    assert not one.is_leader


@pytest.mark.requirement("K595-26")
def test_new_replica_that_still_downloads_is_not_caught_up() -> None:
    cores = Cores()
    one = left_behind(cores, "1", "2", "3")
    cores.heal()
    four = cores.start("4", bootstrap=["1"], run=False)
    four.hold_finish = True
    cores.advance(500)
    request = AddVoterRequest(CLUSTER_ID, four.key, four.config.endpoints, 3000)
    number = cores._number()
    cores.do(one, RequestReceived(number, request))
    cores.advance(1500)
    assert number not in one.answers
    assert four.key not in one.replica.voters.latest.voters
    release_finish(cores, four)
    cores.advance(500)
    assert number in one.answers
    assert four.key in one.replica.voters.latest.voters


def ask(cores: Cores, node: Node, offset: int, epoch: int, id: int = 9) -> FetchResponse:
    key = key_of(id) if id >= 0 else ReplicaKey(-1, None)
    request = FetchRequest(CLUSTER_ID, key, node.replica.epoch, offset, epoch, 0)
    answer = cores.request(node, request)
    assert isinstance(answer, FetchResponse)
    return answer


@K853_08
def test_fetch_returns_snapshot_id_or_log_depending_on_its_offset() -> None:
    cores, one = formed_cores("1", "2", "3")
    cores.propose(one, "a")
    cores.advance(600)
    assert ask(cores, one, 0, 0).snapshot_id is None, "there is none"
    first = take_snapshot(cores, one)
    assert ask(cores, one, 0, 0).snapshot_id == first, "a snapshot is shorter than the log"
    assert ask(cores, one, 0, 0, id=-1).snapshot_id is None, "a consumer wants the records"
    assert ask(cores, one, 3, 1).records
    delete_prefix(cores, one)
    cores.crash(one)
    cores.advance(9000)
    cores.restart(one)
    cores.advance(2000)
    two = cores.leader
    cores.propose(two, "b", "c")
    cores.advance(700)
    assert two.replica.epoch > first.epoch
    taken = take_snapshot(cores, two)
    delete_prefix(cores, two)
    end, epoch = taken.end_offset, taken.epoch
    assert ask(cores, two, end - 1, epoch).snapshot_id == taken, "below the log's start"
    assert ask(cores, two, end, epoch - 1).snapshot_id == taken, "another epoch at its start"
    assert ask(cores, two, end + 5, 1).snapshot_id == taken, "an epoch from before its start"
    at_start = ask(cores, two, end, epoch)
    assert at_start.error is RaftError.NONE
    beyond = ask(cores, two, end + 50, epoch)
    assert beyond.snapshot_id is None
    assert beyond.diverging is not None
    assert (beyond.diverging.epoch, beyond.diverging.end_offset) == (epoch, two.replica.log_end)
    consumer = ask(cores, two, end - 1, -1, id=-1)
    assert consumer.error is RaftError.OFFSET_OUT_OF_RANGE
    assert (consumer.snapshot_id, consumer.log_start_offset) == (None, end)


@K853_08
def test_voters_of_a_snapshot_survive_the_removal_of_their_record() -> None:
    cores = Cores()
    one = left_behind(cores, "1", "2", "3")
    before = one.replica.voters.latest
    assert one.replica.start.end_offset > before.offset
    one.state = None  # not even quorum-state may be needed for it
    cores.crash(one, lose_unflushed=False)
    cores.restart(one)
    assert one.replica.voters.latest.position == before.position
    assert one.replica.voters.latest.voters.voters == before.voters.voters
    assert one.replica.voters.latest_is_committed
    assert one.replica.formed
    assert one.replica.cluster_id == CLUSTER_ID
    record = one.replica.voters_at(one.replica.log_end)
    assert record is not None
    assert record.log_position == (before.offset, before.epoch)
    assert one.replica.high_watermark >= one.replica.start.end_offset


@K853_08
def test_new_replica_knows_that_a_shrunken_quorum_has_formed() -> None:
    cores = Cores()
    one = cores.start("1", founder=True, initial_voters=2)
    two = cores.start("2", bootstrap=["1"])
    cores.advance(100)
    unformed = take_snapshot(cores, one)
    assert cores.add_voter(one, two) is not None
    cores.advance(600)
    assert cores.remove_voter(one, two.key) is not None
    cores.crash(two)
    cores.advance(100)
    take_snapshot(cores, one)
    delete_prefix(cores, one)
    three = cores.start("3", bootstrap=["1"])
    cores.advance(500)
    assert three.replica.formed
    early = one.snapshots.bounds(unformed).voters
    assert early is not None
    assert early.initial_voters == 2, "one of two had joined by then"


@K853_08
def test_voters_record_after_the_snapshot_takes_precedence() -> None:
    cores = Cores()
    one = left_behind(cores, "1", "2", "3")
    taken = one.snapshots.latest
    assert taken is not None
    cores.heal()
    cores.advance(500)
    answer = cores.remove_voter(one, key_of(3))
    assert answer.error is RaftError.NONE
    cores.crash(one, lose_unflushed=False)
    cores.restart(one)
    assert one.replica.voters.latest.voters.ordered_keys == (key_of(1), key_of(2))
    old = one.replica.voters_at(taken.end_offset)
    assert old is not None
    assert [voter.key for voter in old.voters] == [key_of(1), key_of(2), key_of(3)]


@K853_08
def test_snapshot_below_the_committed_offset_is_rejected() -> None:
    cores = RecordingCores()
    one = left_behind(cores, "1", "2", "3")
    two = cores.nodes["2"]
    cores.propose(one, "x")
    (correlation,) = (
        number
        for number, sent in two.replica.outstanding.items()
        if isinstance(sent.request, FetchRequest)
    )
    old = one.snapshots.latest
    answer = FetchResponse(
        RaftError.OFFSET_OUT_OF_RANGE,
        CurrentLeader(1, one.replica.epoch, endpoints_of("1")[0]),
        snapshot_id=old,
    )
    cores.do(two, ResponseReceived(correlation, answer))
    assert two.halted is not None
    assert two.halted.reason is HaltReason.CORRUPTION
    assert not cores.of("2", ResetLog)
    assert not cores.of("2", TruncateLog)


@K853_08
def test_log_prefix_is_deleted_only_when_nothing_is_lost() -> None:
    cores = RecordingCores()
    one = cores.quorum("1", "2", "3")
    cores.propose(one, "a")
    cores.advance(100)
    unknown = SnapshotId(one.replica.high_watermark, 1)
    cores.do(one, PrefixObsolete(unknown))
    assert not cores.of("1", DeleteLogPrefix), "there is no such snapshot"
    one.hold_flush = True
    cores.propose(one, "b")
    cores.advance(100)
    assert one.replica.durable_end < one.replica.high_watermark
    take_snapshot(cores, one)
    delete_prefix(cores, one)
    assert not cores.of("1", DeleteLogPrefix), "the log is not durable up to there"
    cores.release_flush(one)
    delete_prefix(cores, one)
    assert len(cores.of("1", DeleteLogPrefix)) == 1
    delete_prefix(cores, one)
    assert len(cores.of("1", DeleteLogPrefix)) == 1


@K853_08
def test_snapshot_is_kept_within_bounds_while_it_is_downloaded() -> None:
    cores = Cores()
    one = left_behind(cores, "1", "2", "3")
    taken = one.snapshots.latest
    assert one.replica.snapshots_in_use() == frozenset()
    part(cores, one, replica=key_of(3))
    assert one.replica.snapshots_in_use() == {taken}
    config = one.config
    cores.advance(config.snapshot_download_idle_ms + 1)
    cores.do(one, PrefixObsolete(NO_SNAPSHOT))
    assert one.replica.snapshots_in_use() == frozenset(), "not requested for a long time"
    steps = int(config.snapshot_download_max_ms / 20_000) + 1
    one.replica.config = replace(config, fetch_timeout_ms=1e9)
    for _ in range(steps):
        part(cores, one, replica=key_of(3))
        one.replica.now_ms += 20_000
    assert one.replica.snapshots_in_use() == frozenset(), "it takes too long"
