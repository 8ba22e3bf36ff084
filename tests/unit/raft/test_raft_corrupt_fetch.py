"""Damaged batches: what a follower reports and does, how the leader detects them, and how it reacts."""

from dataclasses import replace
from itertools import pairwise

import pytest

from quorum_node.raft.messages import FetchRequest
from quorum_node.raft.outputs import CorruptionReported, HaltReason, Output, Send
from quorum_node.raft.roles import CorruptFetch
from quorum_node.records.identity import ReplicaKey
from support.raft.cores import Cores, Node

pytestmark = [pytest.mark.requirement("K595-02")]


class RecordingCores(Cores):
    """Cores that record the fetches of one node, and the reports of damage."""

    def __init__(self, watched: str) -> None:
        super().__init__(self._note)
        self.watched = watched
        self.fetches: list[tuple[float, FetchRequest]] = []
        self.told: list[CorruptFetch] = []
        self.reports: list[CorruptionReported] = []

    def _note(self, node: Node, output: Output) -> None:
        if isinstance(output, CorruptionReported):
            self.reports.append(output)
        if node.name == self.watched and isinstance(output, CorruptFetch):
            self.told.append(output)
        request = output.request if isinstance(output, Send) else None
        if node.name == self.watched and isinstance(request, FetchRequest):
            self.fetches.append((self.now_ms, request))


def spoil(node: Node, place: int) -> int:
    """Flip a bit in a batch on that node's disk; its base offset."""
    batch = node.batches[place]
    data = bytearray(batch.data)
    data[-5] ^= 1
    node.batches[place] = replace(batch, data=bytes(data))
    return batch.base_offset


def reason(node: Node) -> HaltReason | None:
    return None if node.halted is None else node.halted.reason


def described(leader: Node) -> dict[ReplicaKey, int]:
    """Which replicas report damage, and from which offset on."""
    found = leader.replica.describe(0)
    replicas = (*found.voters_progress, *found.observers_progress)
    return {each.key: each.damaged_from for each in replicas if each.damaged_from is not None}


def filled(cores: Cores) -> Node:
    leader = cores.quorum("1", "2", "3")
    for number in range(5):
        cores.propose(leader, f"v{number}")
        cores.advance(30)
    return leader


def test_follower_reports_corruption_and_the_leader_checks_its_disk_and_stops() -> None:
    cores = RecordingCores("4")
    one = filled(cores)
    spoil(one, -3)
    four = cores.start("4", bootstrap=["1"])
    cores.advance(20_000)
    assert cores.told[0].leader_id == 1
    assert one.halted is not None
    assert one.halted.reason is HaltReason.STORAGE_FAILED
    others = [cores.nodes[name] for name in "23"]
    assert [each.halted for each in others] == [None, None], "another replica was reported"
    assert cores.leader in others
    assert four.log_end == cores.leader.log_end, "it does not continue with the next leader"
    assert four.replica.describe(cores.now_ms).corrupt_fetch is None


@pytest.mark.parametrize("says", [True, False])
def test_leader_detects_corruption_by_a_report_or_a_repeated_fetch(says: bool) -> None:
    """A stock replica can't report it: it only fetches the same records again."""
    cores = RecordingCores("4")
    one = filled(cores)
    spoil(one, -3)
    request = FetchRequest(
        one.replica.cluster_id, cores.nodes["2"].key, 1, 1, 1, max_wait_ms=0, answer=0
    )
    stranger = replace(request, replica=replace(request.replica, id=9), fetch_offset=0)
    stranger = replace(stranger, last_fetched_epoch=0)
    cores.request(one, stranger)
    assert reason(one) is None
    cores.request(one, replace(stranger, corrupt=says))
    assert reason(one) is HaltReason.STORAGE_FAILED


def test_leader_with_a_valid_disk_continues_and_the_follower_backs_off() -> None:
    """The damage is on the way: here in what the harness reads, which no check of the disk can see."""
    cores = RecordingCores("4")
    one = filled(cores)
    place = spoil(one, -3)
    good = one.batches[-3]
    # The check finds the disk valid, and the data is damaged again before it arrives.
    real = cores._respond

    def damage(node: Node, output: object) -> None:
        response = output.response  # type: ignore[attr-defined]
        wanted = getattr(response, "range", None)
        if wanted is not None and wanted.checked:
            output = replace(
                output, response=replace(response, range=replace(wanted, checked=False))
            )  # type: ignore[type-var]
        real(node, output)  # type: ignore[arg-type]

    cores._respond = damage  # type: ignore[method-assign]
    four = cores.start("4", bootstrap=["1"])
    cores.advance(60_000)
    assert one.halted is None
    assert one.is_leader
    assert [each.times for each in cores.told[:3]] == [1, 2, 3]
    late = [at for at, _ in cores.fetches][-6:]
    gaps = [after - before for before, after in pairwise(late)]
    config = four.config
    assert min(gaps) >= config.retry_backoff_max_ms / 2, "it repeats the request without a pause"
    assert all(request.corrupt for _, request in cores.fetches[-6:])
    assert cores.reports[-1] == CorruptionReported(four.key, cores.fetches[-1][1].fetch_offset)
    found = four.replica.describe(cores.now_ms).corrupt_fetch
    assert found is not None
    assert found.times == len(cores.told)
    assert described(one) == {four.key: found.offset}
    one.batches[-3] = replace(good, data=cores.nodes["2"].batches[-3].data)
    cores.advance(5_000)
    assert four.log_end == one.log_end > place
    assert four.replica.describe(cores.now_ms).corrupt_fetch is None
    assert not cores.fetches[-1][1].corrupt
    assert described(one) == {}


def test_complete_batches_before_the_corruption_are_kept_and_flushed() -> None:
    """Its epoch or offset is damaged, which no checksum covers: the previous batches are accepted."""
    cores = RecordingCores("4")
    one = filled(cores)
    batch = one.batches[-2]
    data = bytearray(batch.data)
    data[7] ^= 4  # of the base offset
    one.batches[-2] = replace(batch, data=bytes(data))
    four = cores.start("4", bootstrap=["1"])
    cores.advance(3_000)
    assert cores.told
    assert four.log_end == batch.base_offset
    assert four.replica.durable_end == four.log_end


def test_last_batch_with_a_smaller_base_offset_is_not_treated_as_a_duplicate() -> None:
    """No later batch would contradict it: only the end of the answer before the requested offset shows the damage."""
    cores = RecordingCores("4")
    one = filled(cores)
    batch = one.batches[-1]
    data = bytearray(batch.data)
    data[7] ^= 1 << (batch.base_offset.bit_length() - 1)
    assert int.from_bytes(data[:8], "big") < batch.base_offset
    one.batches[-1] = replace(batch, data=bytes(data))
    four = cores.start("4", bootstrap=["1"])
    cores.advance(3_000)
    assert cores.told
    assert four.log_end == batch.base_offset
    assert len(cores.fetches) < 50, "it repeats the request without a pause"
