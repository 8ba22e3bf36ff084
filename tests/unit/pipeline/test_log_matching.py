"""Who is wrong where replicas differ, and what none of them has to answer for."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from quorum_pipeline.audit.digests import BLOCK_OFFSETS, Table, blocks_of
from quorum_pipeline.audit.findings import Finding
from quorum_pipeline.audit.log_matching import (
    MAX_PER_BLOCK,
    BatchFingerprint,
    Matching,
    ReplicaRange,
    agreement,
    compare,
    matching,
)

Range = tuple[int, int]


@dataclass
class Log:
    """A replica's batches, as tasks have read them."""

    name: str
    start: int
    batches: list[BatchFingerprint]
    damaged: list[Range] = field(default_factory=list)
    is_cut: bool = False

    def range(self) -> ReplicaRange:
        end = self.batches[-1].end_offset if self.batches else self.start
        backs = [
            (batch, before.epoch)
            for before, batch in zip(self.batches, self.batches[1:], strict=False)
            if batch.epoch < before.epoch
        ]
        last = self.batches[-1].epoch if self.batches else 0
        return ReplicaRange(
            self.name, self.start, end, tuple(self.damaged), tuple(backs), self.is_cut, last
        )

    def table(self) -> Table:
        rows = [(m.base_offset, m.end_offset, m.epoch, m.crc, m.position, 0) for m in self.batches]
        return blocks_of(np.array(rows, np.int64).reshape(len(rows), 6))


def replica(name: str, *ranges: Range, epoch: int = 1, start: int = 0) -> Log:
    """Batches of these offsets, each 100 bytes behind the one before."""
    batches = [
        BatchFingerprint(base, end, epoch, 7 * base + end, f"{start}.log", 100 * number)
        for number, (base, end) in enumerate(ranges)
    ]
    return Log(name, start, batches)


def match_logs(logs: list[Log]) -> Matching:
    """Digests first; then the batches of the blocks that differ, each block by itself."""
    ranges = [each.range() for each in logs]
    agreed = agreement(ranges, [each.table() for each in logs])
    compared = [
        compare(
            ranges,
            [
                (number, [m for m in each.batches if m.base_offset // BLOCK_OFFSETS == block])
                for number, each in enumerate(logs)
            ],
        )
        for block in agreed.blocks
    ]
    return matching(ranges, agreed, compared)


def found(*replicas: Log) -> list[Finding]:
    return list(match_logs(list(replicas)).findings)


def test_batch_missing_within_one_log_is_reported() -> None:
    """As a disk leaves it that lost a write between two others: the log itself is read as one with a gap."""
    a, b = (replica(name, (0, 2), (2, 4), (4, 6)) for name in "ab")
    c = replica("c", (0, 2), (4, 6))
    assert found(a, b, c) == [Finding("c", "", None, 2, "the batch is missing")]
    c.damaged.append((2, 4))
    assert found(a, b, c) == [], "already reported with the reason"


def test_records_before_the_log_start_or_after_the_log_end_are_not_missing() -> None:
    a, b = (replica(name, (0, 2), (2, 4), (4, 6)) for name in "ab")
    behind = replica("c", (0, 2), (2, 4))
    begun_later = replica("c", (4, 6), start=4)
    for third in (behind, begun_later):
        outcome = match_logs([a, b, third])
        assert (outcome.findings, outcome.committed_end) == ((), 6)
        assert outcome.tails == ()
        assert outcome.compared == 3


def test_majority_of_three_decides_and_file_and_offset_of_the_third_are_reported() -> None:
    a, b = (replica(name, (0, 2), (2, 4), (4, 6)) for name in "ab")
    c = replica("c", (0, 2), (2, 4), (4, 6))
    c.batches[1] = c.batches[1]._replace(crc=1)
    (finding,) = found(a, b, c)
    what = f"a different batch (CRC 00000001, not {a.batches[1].crc:08x}) than on a, b"
    assert finding == Finding("c", "0.log", 100, 2, what)


def test_decreasing_epoch_is_reported() -> None:
    """Also where there is no other replica to be compared with."""
    log = replica("a", (0, 2), (2, 4), (4, 6))
    log.batches[0] = log.batches[0]._replace(epoch=3)
    (finding,) = found(log)
    assert (finding.position, finding.offset) == (100, 2)
    assert finding.what == "epoch 1 after epoch 3"


def test_two_differing_replicas_are_reported_without_a_verdict() -> None:
    a, b = replica("a", (0, 2), (2, 4), (4, 6)), replica("b", (0, 2), (2, 3), (4, 6))
    outcome = match_logs([a, b])
    assert {each.replica for each in outcome.findings} == {"a", "b"}
    assert {each.offset for each in outcome.findings} == {2}
    assert all("end offset" in each.what for each in outcome.findings)


def long_log(name: str, blocks: int = 4, size: int = 64) -> Log:
    """Batches of so many offsets, a few blocks long."""
    count = blocks * BLOCK_OFFSETS // size
    return replica(name, *((size * n, size * (n + 1)) for n in range(count)))


@pytest.mark.requirement("SP-04")
def test_only_differing_blocks_are_compared() -> None:
    """Any field that differs does it, and nothing else does; the digests of parts add up."""
    a, b, c = (long_log(name) for name in "abc")
    ranges = [each.range() for each in (a, b, c)]
    agreed = agreement(ranges, [each.table() for each in (a, b, c)])
    assert (agreed.committed_end, agreed.compared, agreed.blocks) == (
        4 * BLOCK_OFFSETS,
        len(a.batches),
        (),
    )
    place = BLOCK_OFFSETS // 64 * 2 + 5
    for change in ({"epoch": 2}, {"crc": 1}, {"end_offset": 7}):
        c.batches[place] = a.batches[place]._replace(**change)
        agreed = agreement(ranges, [each.table() for each in (a, b, c)])
        assert agreed.blocks == (2,)
        assert agreed.committed_end == 4 * BLOCK_OFFSETS
    (finding,) = found(a, b, c)
    assert (finding.replica, finding.offset) == ("c", 64 * place)


def test_swapped_batches_change_the_digest() -> None:
    a, b = (long_log(name, 1) for name in "ab")
    first, second = b.batches[:2]
    b.batches[0], b.batches[1] = first._replace(crc=second.crc), second._replace(crc=first.crc)
    assert {each.offset for each in found(a, b)} == {0, 64}


def test_archive_may_end_within_a_batch() -> None:
    a, b = (replica(name, (0, 2), (2, 6)) for name in "ab")
    archive = replica("archive", (0, 2), (2, 4))
    archive.batches[1] = archive.batches[1]._replace(crc=a.batches[1].crc)
    assert [each.replica for each in found(a, b, archive)] == ["archive"]
    archive.is_cut = True
    assert found(a, b, archive) == []
    archive.batches[1] = archive.batches[1]._replace(crc=1)
    assert [each.replica for each in found(a, b, archive)] == ["archive"]


@pytest.mark.requirement("SP-04")
def test_first_batches_of_a_completely_different_block_are_reported() -> None:
    a, b = long_log("a", 2, 16), long_log("b", 2, 16)
    c = Log("c", 0, [each._replace(crc=1) for each in a.batches])
    reported = found(a, b, c)
    assert len(reported) == 2 * (MAX_PER_BLOCK + 1)
    more = [each for each in reported if each.replica == "several replicas"]
    assert {each.what.split()[0] for each in more} == {f"{4096 - MAX_PER_BLOCK:,}"}
    assert replace(more[0], what="") == Finding(
        "several replicas", "", None, 16 * (MAX_PER_BLOCK - 1), ""
    )


def diverged_replicas(first: int, size: int = 16, epoch: int = 1, blocks: int = 3) -> list[Log]:
    """Three long logs; one has other batches from the one with this number on, and the others a later epoch."""
    logs = [long_log(name, blocks, size) for name in "abc"]
    for log in logs:
        tail = log.batches[first:]
        if log.name == "a":
            tail = [each._replace(epoch=epoch, crc=each.crc + 1) for each in tail[:-size]]
        else:
            tail = [each._replace(epoch=2) for each in tail]
        log.batches[first:] = tail
    return logs


@pytest.mark.parametrize("first", [0, 100, BLOCK_OFFSETS // 16, BLOCK_OFFSETS // 8 - 1])
def test_end_of_a_log_that_was_left_behind_is_no_finding(first: int) -> None:
    """However long it is, and in how many blocks."""
    logs = diverged_replicas(first)
    outcome = match_logs(logs)
    assert outcome.findings == ()
    end = logs[0].range().end_offset
    assert outcome.sound_ends == (16 * first, 3 * BLOCK_OFFSETS, 3 * BLOCK_OFFSETS)
    assert outcome.tails == (
        f"a has offsets {16 * first} to {end}, where a majority has records of later epochs",
    )


@pytest.mark.parametrize("first", [100, BLOCK_OFFSETS // 16])
def test_other_batches_are_findings(first: int) -> None:
    """Of the epoch of the others or a later one; of a log that agrees again; of an archive, in which they stay; of the content
    of the others, as an epoch is not covered by a checksum.
    """
    place = 16 * first
    for epoch in (2, 3):
        assert reported(diverged_replicas(first, epoch=epoch)) == ("a", place)
    again = diverged_replicas(first)
    again[0].batches[-1] = again[1].batches[len(again[0].batches) - 1]
    assert reported(again) == ("a", place)
    archive = diverged_replicas(first)
    archive[0].is_cut = True
    assert reported(archive) == ("a", place)
    flipped = diverged_replicas(first)
    flipped[0].batches[first:] = [flipped[1].batches[first]._replace(epoch=1)]
    assert reported(flipped) == ("a", place)


def reported(logs: list[Log]) -> tuple[str, int | None]:
    first, *_ = found(*logs)
    return first.replica, first.offset
