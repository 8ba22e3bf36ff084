"""Downloading a snapshot: cut, resumed, from one leader or several, damaged, verified, installed."""

import pytest

from quorum_node.raft import RaftError
from quorum_node.raft.messages import FetchSnapshotResponse
from quorum_node.raft.outputs import ResetLog, Send
from quorum_node.records.snapshot_id import NO_SNAPSHOT, SnapshotId
from support.raft.cores import CLUSTER_ID, Node, key_of
from support.raft.snapshot_env import (
    RecordingCores,
    delete_prefix,
    interrupt,
    left_behind,
    release_finish,
    small_parts,
    take_snapshot,
    until,
)

K853_08 = pytest.mark.requirement("K853-08")


@K853_08
def test_slow_follower_gets_the_snapshot_and_then_the_log() -> None:
    cores = RecordingCores()
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
def test_new_replica_joins_from_snapshot_and_log_and_becomes_a_voter() -> None:
    cores = RecordingCores()
    one = left_behind(cores, "1", "2", "3")
    cores.heal()
    four = cores.start("4", bootstrap=["1"])
    cores.advance(500)
    assert len(cores.of("4", ResetLog)) == 1
    assert four.replica.cluster_id == CLUSTER_ID
    assert four.replica.formed
    assert not four.replica.is_voter
    answer = cores.add_voter(one, four)
    assert answer.error is RaftError.NONE
    assert four.replica.is_voter
    cores.crash(cores.nodes["2"])
    cores.crash(cores.nodes["3"])
    cores.advance(100)
    assert four.values() == one.values()


@K853_08
def test_interrupted_download_is_resumed() -> None:
    cores = RecordingCores()
    left_behind(cores, "1", "2", "3")
    small_parts(cores.nodes["3"])
    interrupt(cores, "3", 3)
    cores.heal()
    cores.advance(3000)
    written = cores.written("3")
    assert written == sorted(set(written)), "nothing was fetched twice"
    assert cores.nodes["3"].values() == cores.leader.values()


@K853_08
def test_download_is_resumed_after_a_restart() -> None:
    cores = RecordingCores()
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


def resume_from_another_leader(*, same_bytes: bool) -> tuple[RecordingCores, Node]:
    """1 fails in the middle of 3's download; 2 has a snapshot of the same id."""
    cores = RecordingCores()
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
    assert three.values() == two.values()
    assert not three.snapshots.rejected
    return cores, three


@K853_08
def test_download_of_the_same_snapshot_is_resumed_from_another_leader() -> None:
    cores, _ = resume_from_another_leader(same_bytes=True)
    assert cores.written("3") == sorted(set(cores.written("3")))


@K853_08
def test_different_bytes_under_the_same_snapshot_id_are_not_combined() -> None:
    cores, _ = resume_from_another_leader(same_bytes=False)
    assert cores.written("3").count(0) == 2, "it restarted from the beginning"


@K853_08
@pytest.mark.parametrize("how", ["restart", "other leader"])
def test_download_without_a_checksum_restarts_from_the_beginning(how: str) -> None:
    cores = RecordingCores()
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
def test_download_without_a_checksum_is_resumed_from_the_same_leader() -> None:
    cores = RecordingCores()
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
def test_new_leader_may_have_the_log_instead() -> None:
    cores = RecordingCores()
    one = cores.quorum("1", "2", "3")
    three = cores.nodes["3"]
    cores.propose(one, "kept")
    cores.partition(["1", "2"], ["3"])
    for number in range(8):
        cores.propose(one, f"v{number}")
    cores.advance(100)
    take_snapshot(cores, one)
    delete_prefix(cores, one)
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
def test_new_leader_may_have_another_snapshot() -> None:
    cores = RecordingCores()
    one = left_behind(cores, "1", "2", "3")
    two, three = cores.nodes["2"], cores.nodes["3"]
    small_parts(three)
    interrupt(cores, "3", 2)
    cores.partition(["1", "2"], ["3"])
    cores.propose(one, "more")
    cores.advance(100)
    newer = take_snapshot(cores, two)
    delete_prefix(cores, two)
    cores.crash(one)
    cores.heal()
    until(cores, lambda: three.replica.start != NO_SNAPSHOT, 9000)
    assert three.replica.start == newer
    assert list(three.snapshots.whole) == [newer]
    assert not three.snapshots.partial
    assert three.values() == two.values()


def newer_snapshot_after_a_cut(*, old_is_there: bool) -> tuple[RecordingCores, Node, SnapshotId]:
    """An observer's download is cut; by the time it is back there is a newer snapshot."""
    cores = RecordingCores()
    one = left_behind(cores, "1", "2", "3")
    cores.heal()
    four = cores.start("4", bootstrap=["1"], run=False)
    small_parts(four)
    interrupt(cores, "4", 3)
    old = one.snapshots.latest
    assert old is not None
    cores.propose(one, "more")
    cores.advance(100)
    take_snapshot(cores, one)
    if not old_is_there:
        one.snapshots.withheld = {old}
    cores.heal()
    cores.advance(3000)
    assert four.values() == one.values()
    return cores, four, old


@K853_08
def test_interrupted_download_is_resumed_although_a_newer_snapshot_exists() -> None:
    cores, four, old = newer_snapshot_after_a_cut(old_is_there=True)
    assert four.replica.start == old
    assert cores.written("4") == sorted(set(cores.written("4")))


@K853_08
def test_interrupted_download_is_abandoned_when_its_snapshot_was_deleted() -> None:
    cores, four, old = newer_snapshot_after_a_cut(old_is_there=False)
    assert four.replica.start > old
    assert cores.written("4").count(0) == 2
    assert not four.snapshots.partial


@K853_08
def test_snapshot_deleted_by_the_leader_during_the_download_is_replaced() -> None:
    cores = RecordingCores()
    one = left_behind(cores, "1", "2", "3")
    three = cores.nodes["3"]
    small_parts(three)
    interrupt(cores, "3", 2)
    cores.partition(["1", "2"], ["3"])
    (old,) = one.snapshots.whole
    cores.propose(one, "more")
    cores.advance(100)
    for node in (one, cores.nodes["2"]):
        take_snapshot(cores, node)
        delete_prefix(cores, node)
        del node.snapshots.whole[old]
    cores.heal()
    cores.advance(4000)
    assert three.values() == cores.leader.values()
    assert old not in three.snapshots.whole


@K853_08
def test_corrupted_download_is_repeated_and_never_used() -> None:
    cores = RecordingCores()
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
def test_leader_connection_stays_open_while_a_snapshot_is_verified() -> None:
    cores = RecordingCores()
    one = left_behind(cores, "1", "2", "3")
    three = cores.nodes["3"]
    three.hold_finish = True
    cores.heal()
    until(cores, lambda: three.finished is not None)
    epoch = one.replica.epoch
    cores.crash(cores.nodes["2"])
    cores.advance(20_000)
    assert one.is_leader
    assert one.replica.epoch == epoch, "one side stopped"
    assert not cores.of("3", ResetLog)
    sends = len(cores.of("3", Send))
    assert sends < 100, f"{sends} requests in 20 s"
    release_finish(cores, three)
    cores.advance(100)
    assert three.values() == one.values()


@K853_08
def test_snapshot_behind_the_log_resets_nothing() -> None:
    cores = RecordingCores()
    one = cores.quorum("1", "2", "3")
    three = cores.nodes["3"]
    cores.partition(["1", "2"], ["3"])
    for number in range(4):
        cores.propose(one, f"v{number}")
    cores.advance(100)
    taken = take_snapshot(cores, one)
    delete_prefix(cores, one)
    three.hold_finish = True
    cores.heal()
    until(cores, lambda: three.finished is not None)
    cores.crash(one)
    cores.advance(6000)
    assert cores.leader.name == "2"
    assert three.replica.log_end > taken.end_offset
    release_finish(cores, three)
    assert not cores.of("3", ResetLog)
    assert three.replica.snapshot == taken
    assert three.values() == cores.nodes["2"].values()


@K853_08
def test_slow_part_is_requested_again_in_smaller_parts() -> None:
    cores = RecordingCores()
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
