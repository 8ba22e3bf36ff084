"""Who is wrong where replicas differ, and what none of them has to answer for."""

from quorum_pipeline.audit.findings import Finding
from quorum_pipeline.audit.log_matching import BatchMark, Matching, ReplicaLog, match_logs

Range = tuple[int, int]


def replica(name: str, *ranges: Range, epoch: int = 1, start: int = 0) -> ReplicaLog:
    """Batches of these offsets, each 100 bytes behind the one before."""
    log = ReplicaLog(name, start, [f"{start}.log"])
    for number, (base, end) in enumerate(ranges):
        log.marks.append(BatchMark(base, end, epoch, 7 * base + end, 0, 100 * number))
    return log


def found(*replicas: ReplicaLog) -> list[Finding]:
    return list(match_logs(replicas).findings)


def test_a_batch_that_one_lacks_within_its_log_is_missing() -> None:
    """As a disk leaves it that lost a write between two others: the log itself is read as one with a gap."""
    a, b = (replica(name, (0, 2), (2, 4), (4, 6)) for name in "ab")
    c = replica("c", (0, 2), (4, 6))
    assert found(a, b, c) == [Finding("c", "", None, 2, "the batch is missing")]
    c.damaged.append((2, 4))
    assert found(a, b, c) == [], "it was told with the reason"


def test_what_a_replica_does_not_have_yet_or_any_more_is_not_missing() -> None:
    a, b = (replica(name, (0, 2), (2, 4), (4, 6)) for name in "ab")
    behind = replica("c", (0, 2), (2, 4))
    begun_later = replica("c", (4, 6), start=4)
    for third in (behind, begun_later):
        matching = match_logs([a, b, third])
        assert (matching.findings, matching.committed_end) == ((), 6)
        assert matching.tails == ()
        assert matching.compared == 3


def test_two_of_three_are_right_and_file_byte_and_offset_of_the_third_are_told() -> None:
    a, b = (replica(name, (0, 2), (2, 4), (4, 6)) for name in "ab")
    c = replica("c", (0, 2), (2, 4), (4, 6))
    c.marks[1] = c.marks[1]._replace(crc=1)
    (finding,) = found(a, b, c)
    what = f"another batch (CRC 00000001, not {a.marks[1].crc:08x}) than on a, b"
    assert finding == Finding("c", "0.log", 100, 2, what)


def test_an_epoch_never_goes_back() -> None:
    """Also where there is no other replica to be compared with."""
    log = replica("a", (0, 2), (2, 4), (4, 6))
    log.marks[0] = log.marks[0]._replace(epoch=3)
    (finding,) = found(log)
    assert (finding.position, finding.offset) == (100, 2)
    assert finding.what == "epoch 1 after epoch 3"


def test_of_two_nobody_knows_who_is_right() -> None:
    a, b = replica("a", (0, 2), (2, 4), (4, 6)), replica("b", (0, 2), (2, 3), (4, 6))
    matching: Matching = match_logs([a, b])
    assert {each.replica for each in matching.findings} == {"a", "b"}
    assert {each.offset for each in matching.findings} == {2}
    assert all("end offset" in each.what for each in matching.findings)
