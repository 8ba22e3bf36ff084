"""The checkers bite: every kind of broken history is found, and a good one is not blamed."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.workload.evaluation import (
    LoggedWrite,
    ReplicaLog,
    StateSample,
    VoterSet,
    double_steps,
    judge,
    longest_gap_ms,
    stale_reads,
)
from support.workload.history import Acknowledged, Event, Finished, Read, Refused, Unknown

FIRST_OFFSET = 10


def acknowledged(number: int) -> Acknowledged:
    """Number n at offset 9 + n, sent at 100 n and acknowledged 50 ms later."""
    return Acknowledged(
        number=number,
        attempt=1,
        offset=FIRST_OFFSET - 1 + number,
        epoch=3,
        start_ms=number * 100.0,
        end_ms=number * 100.0 + 50,
    )


def logged(number: int, *, attempt: int = 1, offset: int | None = None) -> LoggedWrite:
    at = FIRST_OFFSET - 1 + number if offset is None else offset
    return LoggedWrite(offset=at, epoch=3, number=number, attempt=attempt)


def voters(offset: int, *keys: str) -> VoterSet:
    return VoterSet(offset, 3, frozenset((int(key[0]), key) for key in keys))


def log(
    writes: Iterable[LoggedWrite], *, name: str = "a", sets: tuple[VoterSet, ...] = ()
) -> ReplicaLog:
    kept = tuple(writes)
    return ReplicaLog(name, max((w.offset for w in kept), default=-1) + 1, kept, sets)


def read(value: str | None, *, end_offset: int, start_ms: float) -> Read:
    return Read(value, end_offset, start_ms, start_ms + 5, "http://x")


WRITES: list[Event] = [*(acknowledged(number) for number in range(1, 6)), Finished(9e9)]
GOOD_LOG = log(logged(number) for number in range(1, 6))


def test_valid_history_has_no_problem() -> None:
    reads = [read("3.1", end_offset=13, start_ms=360)]
    verdict = judge(WRITES, reads, [GOOD_LOG, log(GOOD_LOG.writes, name="b")])
    assert verdict.problems == ()
    assert (verdict.acknowledged, verdict.reads) == (5, 1)


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(None, id="the record is gone"),
        pytest.param(LoggedWrite(12, 3, 4, 1), id="another number stands there"),
        pytest.param(LoggedWrite(12, 4, 3, 1), id="it has another epoch"),
        pytest.param(LoggedWrite(12, 3, 3, 2), id="it is another attempt"),
    ],
)
def test_lost_record_is_found_on_the_one_replica_that_lost_it(
    changed: LoggedWrite | None,
) -> None:
    writes = [write for write in GOOD_LOG.writes if write.number != 3]
    bad = log([*writes, changed] if changed else writes, name="bad")
    verdict = judge(WRITES, [], [GOOD_LOG, bad])
    assert len(verdict.lost) == 1
    assert verdict.lost[0].startswith("bad: ")
    assert verdict.diverged


def late(name: str, *, start: int, number: int, writes: Iterable[LoggedWrite]) -> ReplicaLog:
    """A replica that joined from a snapshot at offset `start`, and has that number as its value."""
    kept = tuple(write for write in writes if write.offset >= start)
    end = GOOD_LOG.end_offset
    return ReplicaLog(name, end, kept, (), start, StateSample(end, number, 1))


def test_replica_that_joined_from_a_snapshot_is_checked_by_its_records() -> None:
    joined = late("joined", start=13, number=5, writes=GOOD_LOG.writes)
    assert judge(WRITES, [], [joined, GOOD_LOG]).problems == ()
    lacking = late("lacking", start=13, number=5, writes=GOOD_LOG.writes[:4])
    assert [f.split(":")[0] for f in judge(WRITES, [], [GOOD_LOG, lacking]).lost] == ["lacking"]


def test_wrong_state_after_a_snapshot_is_found() -> None:
    wrong = late("wrong", start=15, number=4, writes=GOOD_LOG.writes)
    verdict = judge(WRITES, [], [GOOD_LOG, wrong])
    assert [f.split(":")[0] for f in verdict.diverged] == ["wrong"]


def test_records_on_no_replica_are_reported() -> None:
    joined = late("joined", start=13, number=5, writes=GOOD_LOG.writes)
    verdict = judge(WRITES, [], [joined])
    assert len(verdict.lost) == 1
    assert "metadata.max.retention.bytes" in verdict.lost[0]
    assert "3 acknowledged records" in verdict.lost[0]


def test_replica_with_a_short_log_has_lost_the_rest() -> None:
    short = log(list(GOOD_LOG.writes)[:3], name="short")
    assert len(judge(WRITES, [], [GOOD_LOG, short]).lost) == 2


def test_missing_log_is_reported() -> None:
    with pytest.raises(ValueError, match="no replica"):
        judge(WRITES, [], [])


def test_stale_read_is_found() -> None:
    # Number 4 (offset 13) was acknowledged at 450 ms; at 460 ms the read still shows number 3.
    stale = read("3.1", end_offset=13, start_ms=460)
    assert len(stale_reads(WRITES, [stale], GOOD_LOG)) == 1


def test_read_that_claims_an_offset_beyond_its_value_is_found() -> None:
    lying = read("3.1", end_offset=14, start_ms=460)
    assert len(stale_reads(WRITES, [lying], GOOD_LOG)) == 1


def test_read_that_started_before_the_acknowledgement_may_be_older() -> None:
    early = read("3.1", end_offset=13, start_ms=440)
    assert stale_reads(WRITES, [early], GOOD_LOG) == []


def test_empty_read_after_an_acknowledgement_is_stale() -> None:
    assert len(stale_reads(WRITES, [read(None, end_offset=99, start_ms=200)], GOOD_LOG)) == 1


def test_read_of_an_uncommitted_value_is_found() -> None:
    findings = stale_reads(WRITES, [read("7.1", end_offset=20, start_ms=600)], GOOD_LOG)
    assert len(findings) == 1
    assert "never committed" in findings[0]


def test_read_of_a_value_before_it_was_sent_is_found() -> None:
    findings = stale_reads(WRITES, [read("5.1", end_offset=15, start_ms=110)], GOOD_LOG)
    assert len(findings) == 1
    assert "not written yet" in findings[0]


def test_late_commit_of_an_unknown_attempt_is_no_stale_read() -> None:
    """Attempt 3.1 timed out, 3.2 and 4.1 were acknowledged, then 3.1 arrived and was committed."""
    writes: list[Event] = [
        Unknown(3, 1, start_ms=300, end_ms=310, error="timeout"),
        Acknowledged(3, 2, offset=12, epoch=3, start_ms=320, end_ms=330),
        Acknowledged(4, 1, offset=13, epoch=3, start_ms=340, end_ms=350),
        Finished(1e9),
    ]
    late = log([logged(3, attempt=2, offset=12), logged(4), logged(3, attempt=1, offset=14)])
    reads = [read("3.1", end_offset=15, start_ms=400)]
    assert judge(writes, reads, [late]).problems == ()
    too_old = [read("3.2", end_offset=15, start_ms=400)]
    assert len(judge(writes, too_old, [late]).stale) == 1


def test_rejected_write_in_the_log_is_found() -> None:
    writes = [*WRITES[:-1], Refused(6, 1, 600, 610, "409 NOT_FORMED"), Finished(1e9)]
    findings = judge(writes, [], [log([*GOOD_LOG.writes, logged(6)])]).invented
    assert len(findings) == 1
    assert "refused" in findings[0]


def test_record_that_was_never_sent_is_found() -> None:
    verdict = judge(WRITES, [], [log([*GOOD_LOG.writes, logged(6)])])
    assert len(verdict.invented) == 1


def test_killed_writer_may_leave_its_last_attempt_unrecorded() -> None:
    assert judge(WRITES[:-1], [], [log([*GOOD_LOG.writes, logged(6)])]).invented == ()


def test_replacement_in_two_records_is_accepted_in_either_order() -> None:
    one = [voters(2, "1a"), voters(5, "1a", "2b"), voters(9, "1a", "2b", "3c")]
    add_first = [voters(20, "1a", "2b", "3c", "3d"), voters(21, "1a", "2b", "3d")]
    remove_first = [voters(20, "1a", "2b"), voters(21, "1a", "2b", "3d")]
    assert double_steps(one + add_first) == []
    assert double_steps(one + remove_first) == []


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(("1a", "2b", "3d"), id="a UUID changed in one record"),
        pytest.param(("1a", "2b", "3c", "4d", "5e"), id="two added at once"),
        pytest.param(("1a",), id="two removed at once"),
        pytest.param(("1a", "2b", "3c"), id="a record that changed nothing"),
    ],
)
def test_voter_change_of_more_or_less_than_one_is_found(after: tuple[str, ...]) -> None:
    history = [voters(9, "1a", "2b", "3c"), voters(20, *after)]
    assert len(double_steps(history)) == 1
    equal = history[0].keys == history[1].keys
    assert len(double_steps(history, alters=True)) == (0 if equal else 1)
    verdict = judge(WRITES, [], [log(GOOD_LOG.writes, sets=tuple(history))])
    assert verdict.problems


def test_as_many_recoveries_as_confirmed_are_accepted() -> None:
    history = [voters(9, "1a", "2b", "3c"), voters(20, "2d"), voters(21, "2d", "1e")]
    assert len(double_steps(history)) == 1
    assert double_steps(history, recoveries=1) == []
    twice = [*history, voters(30, "1f")]
    assert len(double_steps(twice, recoveries=1)) == 1
    assert double_steps(twice, recoveries=2) == []


@pytest.mark.parametrize("after", [("2b",), ("4d",), ("2d", "3c"), ("2d", "1e")])
def test_other_jumps_are_not_accepted_as_recovery(after: tuple[str, ...]) -> None:
    history = [voters(9, "1a", "2b", "3c"), voters(20, *after)]
    assert len(double_steps(history, recoveries=1)) == 1


def test_voter_histories_of_two_replicas_must_match() -> None:
    ours = log(GOOD_LOG.writes, sets=(voters(2, "1a"), voters(3, "1a", "2b")))
    theirs = log(GOOD_LOG.writes, name="b", sets=(voters(2, "1a"), voters(3, "1a", "2x")))
    assert judge(WRITES, [], [ours, theirs]).diverged


def test_longest_gap_includes_the_edges_of_the_window() -> None:
    assert longest_gap_ms(WRITES, start_ms=150, end_ms=550) == 100
    assert longest_gap_ms(WRITES, start_ms=150, end_ms=1550) == 1000
    assert longest_gap_ms([], start_ms=0, end_ms=700) == 700


@given(st.integers(1, 60), st.data())
def test_any_single_change_to_a_log_is_found(count: int, data: st.DataObject) -> None:
    writes: list[Event] = [*(acknowledged(n) for n in range(1, count + 1)), Finished(9e9)]
    good = log(logged(number) for number in range(1, count + 1))
    victim = data.draw(st.integers(0, count - 1))
    kept = list(good.writes)
    kept.pop(victim)
    if data.draw(st.booleans()):
        kept.insert(victim, logged(count + 7, offset=FIRST_OFFSET + victim))
    assert judge(writes, [], [good]).problems == ()
    assert len(judge(writes, [], [log(kept), good]).lost) == 1
