"""Snapshots in the core: who is sent to one, how it is downloaded, what an installed one changes."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from quorum_node.raft import RaftError
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
    Output,
    ResetLog,
    Send,
    TruncateLog,
    WriteSnapshotChunk,
)
from quorum_node.records.identity import ReplicaKey
from quorum_node.records.snapshot_id import NO_SNAPSHOT, SnapshotId
from support.raft.cores import CLUSTER_ID, Cores, Node, endpoints_of, key_of

K853_08 = pytest.mark.requirement("K853-08")


class Watched(Cores):
    """Writes down what was asked for and what was done, by node."""

    def __init__(self) -> None:
        super().__init__(self._saw)
        self.done: list[tuple[str, Output]] = []

    def _saw(self, node: Node, output: Output) -> None:
        self.done.append((node.name, output))

    def of(self, name: str, kind: type) -> list[Output]:
        return [output for who, output in self.done if who == name and isinstance(output, kind)]

    def positions(self, name: str) -> list[int]:
        """Positions of the parts that a node asked for, in order."""
        return [
            output.request.position
            for output in self.of(name, Send)
            if isinstance(output, Send) and isinstance(output.request, FetchSnapshotRequest)
        ]

    def written(self, name: str) -> list[int]:
        return [
            output.position
            for output in self.of(name, WriteSnapshotChunk)
            if isinstance(output, WriteSnapshotChunk)
        ]


def small_parts(node: Node, size_bytes: int = 40) -> None:
    node.config = replace(node.config, snapshot_part_bytes=size_bytes)
    node.replica.config = node.config


def left_behind(cores: Cores, *names: str, values: int = 8) -> Node:
    """A quorum led by the first; the last one hears nothing while the log before its place goes."""
    leader = cores.quorum(*names)
    cores.partition(names[:-1], names[-1:])
    for number in range(values):
        cores.propose(leader, f"v{number}")
    cores.advance(100)
    for name in names[:-1]:
        cores.take_snapshot(cores.nodes[name])
        cores.delete_prefix(cores.nodes[name])
    return leader


def until(cores: Cores, done: Callable[[], bool], ms: int = 4000) -> None:
    for _ in range(ms // 5):
        if done():
            return
        cores.advance(5)
    raise AssertionError("it never came to that")


def interrupt(cores: Watched, reader: str, parts: int) -> None:
    """Let the reader get so many parts, then cut it off in the middle of the download."""
    real = cores._respond
    seen = 0

    def respond(node: Node, output: object) -> None:
        nonlocal seen
        response = getattr(output, "response", None)
        if isinstance(response, FetchSnapshotResponse):
            seen += 1
            if seen > parts:
                cores.partition([n for n in cores.nodes if n != reader], [reader])
        real(node, output)  # type: ignore[arg-type]

    cores._respond = respond  # type: ignore[method-assign, assignment]
    cores.heal()
    cores.advance(3000)
    cores._respond = real  # type: ignore[method-assign]
    assert len(cores.written(reader)) == parts


@K853_08
def test_a_slow_follower_gets_the_snapshot_and_then_the_log() -> None:
    cores = Watched()
    one = left_behind(cores, "1", "2", "3")
    cores.propose(one, "after")
    three = cores.nodes["3"]
    small_parts(three)
    cores.heal()
    cores.advance(3000)
    assert len(cores.written("3")) > 3
    assert three.values() == one.values() == [*(f"v{n}" for n in range(8)), "after"]
    assert three.replica.start == one.replica.snapshot == three.replica.snapshot
    assert three.replica.high_watermark == one.replica.high_watermark
    assert three.replica.voters.latest.position == one.replica.voters.latest.position
    assert three.replica.voters.committed.voters.ordered_keys == (key_of(1), key_of(2), key_of(3))
    proposal = cores.propose(one, "next")
    cores.crash(cores.nodes["2"])
    cores.advance(500)
    assert proposal in one.committed, "its acknowledgement counts again"


@K853_08
@pytest.mark.requirement("K595-17")
def test_a_newcomer_joins_from_snapshot_and_log_and_becomes_a_voter() -> None:
    cores = Watched()
    one = left_behind(cores, "1", "2", "3")
    cores.heal()
    four = cores.start("4", bootstrap=["1"])
    cores.advance(500)
    assert len(cores.of("4", ResetLog)) == 1
    assert four.replica.cluster_id == CLUSTER_ID
    assert four.replica.formed
    assert not four.replica.is_voter
    answer = cores.add_voter(one, four)
    assert answer is not None
    assert answer.error is RaftError.NONE
    assert four.replica.is_voter
    cores.crash(cores.nodes["2"])
    cores.crash(cores.nodes["3"])
    cores.advance(100)
    assert four.values() == one.values()


@K853_08
def test_a_cut_download_goes_on_where_it_stopped() -> None:
    cores = Watched()
    left_behind(cores, "1", "2", "3")
    small_parts(cores.nodes["3"])
    interrupt(cores, "3", 3)
    cores.heal()
    cores.advance(3000)
    written = cores.written("3")
    assert written == sorted(set(written)), "nothing was fetched twice"
    assert cores.nodes["3"].values() == cores.leader.values()


@K853_08
def test_a_download_goes_on_after_a_restart() -> None:
    cores = Watched()
    left_behind(cores, "1", "2", "3")
    three = cores.nodes["3"]
    small_parts(three)
    interrupt(cores, "3", 3)
    cores.crash(three)
    cores.heal()
    cores.restart(three)
    cores.advance(3000)
    assert cores.written("3") == sorted(set(cores.written("3")))
    assert three.values() == cores.leader.values()


def hand_over(cores: Cores, to: str, keep_out: str) -> Node:
    """Another leader, while one node hears nothing of it."""
    old = cores.leader
    cores.partition([n for n in cores.nodes if n not in (keep_out, old.name)], [keep_out])
    until(cores, lambda: any(n.is_leader and n is not old for n in cores.nodes.values()), 9000)
    new = next(n for n in cores.nodes.values() if n.is_leader and n is not old)
    cores.heal()
    assert new.name == to
    return new


@K853_08
@pytest.mark.parametrize("same_bytes", [True, False])
def test_another_leader_goes_on_with_the_same_snapshot_only(same_bytes: bool) -> None:
    cores = Watched()
    left_behind(cores, "1", "2", "3")
    two, three = cores.nodes["2"], cores.nodes["3"]
    small_parts(three)
    interrupt(cores, "3", 3)
    if not same_bytes:
        (snapshot,) = two.snapshots.whole
        voters = two.replica.voters_at(snapshot.end_offset)
        two.snapshots.write(snapshot, voters, [f"w{n}" for n in range(8)])
    cores.crash(cores.nodes["1"])
    cores.heal()
    until(cores, lambda: three.replica.start != NO_SNAPSHOT, 9000)
    assert two.is_leader
    if same_bytes:
        assert cores.written("3") == sorted(set(cores.written("3")))
    else:
        assert cores.written("3").count(0) == 2, "it began anew"
    assert three.values() == two.values()
    assert not three.snapshots.rejected


@K853_08
@pytest.mark.parametrize("how", ["restart", "other leader"])
def test_without_a_checksum_a_download_begins_anew(how: str) -> None:
    cores = Watched()
    left_behind(cores, "1", "2", "3")
    three = cores.nodes["3"]
    small_parts(three)
    for node in cores.nodes.values():
        node.snapshots.tells_checksum = False
    interrupt(cores, "3", 3)
    if how == "restart":
        cores.crash(three)
        cores.restart(three)
    else:
        cores.crash(cores.nodes["1"])
    cores.heal()
    until(cores, lambda: three.replica.start != NO_SNAPSHOT, 9000)
    assert cores.written("3").count(0) == 2
    assert three.values() == cores.leader.values()


@K853_08
def test_without_a_checksum_the_same_leader_is_trusted() -> None:
    cores = Watched()
    left_behind(cores, "1", "2", "3")
    small_parts(cores.nodes["3"])
    cores.nodes["1"].snapshots.tells_checksum = False
    interrupt(cores, "3", 3)
    cores.heal()
    cores.advance(3000)
    if cores.leader.name == "1" and cores.leader.replica.epoch == 1:
        assert cores.written("3").count(0) == 1
    assert cores.nodes["3"].values() == cores.leader.values()


@K853_08
def test_another_leader_may_have_the_log_itself() -> None:
    cores = Watched()
    one = cores.quorum("1", "2", "3")
    three = cores.nodes["3"]
    cores.propose(one, "kept")
    cores.partition(["1", "2"], ["3"])
    for number in range(8):
        cores.propose(one, f"v{number}")
    cores.advance(100)
    cores.take_snapshot(one)
    cores.delete_prefix(one)
    small_parts(three)
    interrupt(cores, "3", 2)
    cores.crash(one)
    cores.heal()
    cores.advance(6000)
    assert cores.leader.name == "2"
    assert three.replica.start == NO_SNAPSHOT
    assert three.values() == cores.nodes["2"].values()
    assert not three.snapshots.partial, "the partial file is dropped"
    assert three.replica.partial is None


@K853_08
def test_another_leader_may_have_another_snapshot() -> None:
    cores = Watched()
    one = left_behind(cores, "1", "2", "3")
    two, three = cores.nodes["2"], cores.nodes["3"]
    small_parts(three)
    interrupt(cores, "3", 2)
    cores.partition(["1", "2"], ["3"])
    cores.propose(one, "more")
    cores.advance(100)
    newer = cores.take_snapshot(two)
    cores.delete_prefix(two)
    cores.crash(one)
    cores.heal()
    until(cores, lambda: three.replica.start != NO_SNAPSHOT, 9000)
    assert three.replica.start == newer
    assert list(three.snapshots.whole) == [newer]
    assert not three.snapshots.partial
    assert three.values() == two.values()


@K853_08
def test_a_snapshot_that_the_leader_deletes_meanwhile_is_replaced() -> None:
    cores = Watched()
    one = left_behind(cores, "1", "2", "3")
    three = cores.nodes["3"]
    small_parts(three)
    interrupt(cores, "3", 2)
    cores.partition(["1", "2"], ["3"])
    (old,) = one.snapshots.whole
    cores.propose(one, "more")
    cores.advance(100)
    for node in (one, cores.nodes["2"]):
        cores.take_snapshot(node)
        cores.delete_prefix(node)
        del node.snapshots.whole[old]
    cores.heal()
    cores.advance(4000)
    assert three.values() == cores.leader.values()
    assert old not in three.snapshots.whole


@K853_08
def test_a_damaged_download_is_fetched_again_and_never_used() -> None:
    cores = Watched()
    one = left_behind(cores, "1", "2", "3")
    three = cores.nodes["3"]
    small_parts(three)
    interrupt(cores, "3", 3)
    (snapshot,) = three.snapshots.partial
    flipped = bytearray(three.snapshots.partial[snapshot])
    flipped[50] ^= 1
    three.snapshots.partial[snapshot] = bytes(flipped)
    cores.heal()
    cores.advance(4000)
    assert len(three.snapshots.rejected) == 1
    assert len(cores.of("3", ResetLog)) == 1
    assert three.values() == one.values()


@K853_08
def test_the_link_to_the_leader_stays_open_while_a_snapshot_is_verified() -> None:
    cores = Watched()
    one = left_behind(cores, "1", "2", "3")
    three = cores.nodes["3"]
    three.hold_finish = True
    cores.heal()
    until(cores, lambda: three.finished is not None)
    epoch = one.replica.epoch
    cores.crash(cores.nodes["2"])
    cores.advance(20_000)
    assert one.is_leader
    assert one.replica.epoch == epoch, "neither side gave up"
    assert not cores.of("3", ResetLog)
    sends = len(cores.of("3", Send))
    assert sends < 100, f"{sends} requests in 20 s"
    cores.release_finish(three)
    cores.advance(100)
    assert three.values() == one.values()


@K853_08
def test_a_snapshot_that_the_log_overtook_resets_nothing() -> None:
    cores = Watched()
    one = cores.quorum("1", "2", "3")
    three = cores.nodes["3"]
    cores.partition(["1", "2"], ["3"])
    for number in range(4):
        cores.propose(one, f"v{number}")
    cores.advance(100)
    taken = cores.take_snapshot(one)
    cores.delete_prefix(one)
    three.hold_finish = True
    cores.heal()
    until(cores, lambda: three.finished is not None)
    cores.crash(one)
    cores.advance(6000)
    assert cores.leader.name == "2"
    assert three.replica.log_end > taken.end_offset
    cores.release_finish(three)
    assert not cores.of("3", ResetLog)
    assert three.replica.snapshot == taken
    assert three.values() == cores.nodes["2"].values()


def part(cores: Cores, node: Node, **changes: object) -> FetchSnapshotResponse:
    latest = node.snapshots.latest or SnapshotId(1, 1)
    request = FetchSnapshotRequest(CLUSTER_ID, key_of(9), node.replica.epoch, latest, 0, 100)
    answer = cores.request(node, replace(request, **changes))  # type: ignore[arg-type]
    assert isinstance(answer, FetchSnapshotResponse)
    return answer


@K853_08
def test_what_a_leader_answers_to_a_fetch_of_a_snapshot() -> None:
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
def test_a_voter_with_a_newer_epoch_is_joined() -> None:
    cores = Cores()
    one = left_behind(cores, "1", "2", "3")
    part(cores, one, replica=key_of(3), current_leader_epoch=one.replica.epoch + 1)
    cores.advance(1)
    assert not one.is_leader or one.replica.epoch > 1


@pytest.mark.requirement("K595-16")
def test_whoever_fetches_a_snapshot_keeps_the_leader_from_resigning() -> None:
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
def test_a_newcomer_that_still_downloads_is_not_caught_up() -> None:
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
    cores.release_finish(four)
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
@pytest.mark.requirement("K595-05")
def test_who_is_sent_to_a_snapshot_and_who_to_the_log() -> None:
    cores = Cores()
    one = cores.quorum("1", "2", "3")
    cores.propose(one, "a")
    cores.advance(600)
    assert ask(cores, one, 0, 0).snapshot_id is None, "there is none"
    first = cores.take_snapshot(one)
    assert ask(cores, one, 0, 0).snapshot_id == first, "a snapshot is shorter than the log"
    assert ask(cores, one, 0, 0, id=-1).snapshot_id is None, "a consumer wants the records"
    assert ask(cores, one, 3, 1).records
    cores.delete_prefix(one)
    cores.crash(one)
    cores.advance(9000)
    cores.restart(one)
    cores.advance(2000)
    two = cores.leader
    cores.propose(two, "b", "c")
    cores.advance(700)
    assert two.replica.epoch > first.epoch
    taken = cores.take_snapshot(two)
    cores.delete_prefix(two)
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
@pytest.mark.requirement("K595-04")
def test_the_voters_of_a_snapshot_outlive_the_prefix_that_held_their_record() -> None:
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
def test_a_record_in_the_log_behind_the_snapshot_says_more_than_its_voters() -> None:
    cores = Cores()
    one = left_behind(cores, "1", "2", "3")
    taken = one.snapshots.latest
    assert taken is not None
    cores.heal()
    cores.advance(500)
    answer = cores.remove_voter(one, key_of(3))
    assert answer is not None
    assert answer.error is RaftError.NONE
    cores.crash(one, lose_unflushed=False)
    cores.restart(one)
    assert one.replica.voters.latest.voters.ordered_keys == (key_of(1), key_of(2))
    old = one.replica.voters_at(taken.end_offset)
    assert old is not None
    assert [voter.key for voter in old.voters] == [key_of(1), key_of(2), key_of(3)]


@K853_08
def test_a_leader_that_wants_a_snapshot_below_what_is_committed_is_not_believed() -> None:
    cores = Watched()
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
def test_the_prefix_goes_only_when_nothing_is_lost_by_it() -> None:
    cores = Watched()
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
    cores.take_snapshot(one)
    cores.delete_prefix(one)
    assert not cores.of("1", DeleteLogPrefix), "the log is not durable up to there"
    cores.release_flush(one)
    cores.delete_prefix(one)
    assert len(cores.of("1", DeleteLogPrefix)) == 1
    cores.delete_prefix(one)
    assert len(cores.of("1", DeleteLogPrefix)) == 1


@K853_08
def test_a_snapshot_is_kept_while_somebody_downloads_it_within_bounds() -> None:
    cores = Cores()
    one = left_behind(cores, "1", "2", "3")
    taken = one.snapshots.latest
    assert one.replica.snapshots_in_use() == frozenset()
    part(cores, one, replica=key_of(3))
    assert one.replica.snapshots_in_use() == {taken}
    config = one.config
    cores.advance(config.snapshot_download_idle_ms + 1)
    cores.do(one, PrefixObsolete(NO_SNAPSHOT))
    assert one.replica.snapshots_in_use() == frozenset(), "nobody asked for long"
    steps = int(config.snapshot_download_max_ms / 20_000) + 1
    one.replica.config = replace(config, fetch_timeout_ms=1e9)
    for _ in range(steps):
        part(cores, one, replica=key_of(3))
        one.replica.now_ms += 20_000
    assert one.replica.snapshots_in_use() == frozenset(), "it takes too long"


@K853_08
def test_a_part_that_takes_too_long_is_asked_for_in_smaller_parts() -> None:
    cores = Watched()
    left_behind(cores, "1", "2", "3", values=4)
    small_parts(cores.nodes["3"], 1 << 20)
    real = cores._respond

    def too_slow(node: Node, output: object) -> None:
        response = getattr(output, "response", None)
        part = response.part if isinstance(response, FetchSnapshotResponse) else None
        if part is not None and part.max_bytes > 1 << 18:
            name, correlation = node.waiting.pop(output.request_id)  # type: ignore[attr-defined]
            cores._timeouts.append((cores.now_ms + 1000, name, correlation))
            return
        real(node, output)  # type: ignore[arg-type]

    cores._respond = too_slow  # type: ignore[method-assign, assignment]
    cores.heal()
    cores.advance(9000)
    assert cores.nodes["3"].values() == cores.leader.values()
