"""The epochs of a log, with and without its beginning, against a list of every record."""

from hypothesis import given
from hypothesis import strategies as st

from quorum_node.raft.log_state import EpochStarts
from quorum_node.records.snapshot_id import NO_SNAPSHOT, SnapshotId

RECORDS = st.lists(st.integers(1, 3), min_size=1, max_size=30).map(
    lambda steps: [1 + sum(step == 3 for step in steps[: index + 1]) for index in range(len(steps))]
)
"""Epoch of every record, never going back."""


def starts_of(epochs: list[int], first: int) -> list[tuple[int, int]]:
    """What storage finds: (epoch, first offset) of the records from `first` on."""
    found: list[tuple[int, int]] = []
    for offset in range(first, len(epochs)):
        if not found or found[-1][0] != epochs[offset]:
            found.append((epochs[offset], offset))
    return found


def check(log: EpochStarts, epochs: list[int], start: SnapshotId) -> None:
    end = len(epochs)
    assert log.last_epoch == (epochs[-1] if epochs else 0)
    for offset in range(max(0, start.end_offset - 1), end):
        assert log.epoch_at(offset) == epochs[offset]
    for epoch in range(start.epoch, (epochs[-1] if epochs else 0) + 3):
        known = [each for each in epochs if each <= epoch]
        largest = known[-1] if known else 0
        expected = (largest, max(len(known), start.end_offset))
        assert log.end_of(epoch, start.end_offset, end) == expected


@given(RECORDS, st.data())
def test_epoch_starts_match_the_records(epochs: list[int], data: st.DataObject) -> None:
    start_offset = data.draw(st.integers(0, len(epochs)))
    start = SnapshotId(start_offset, epochs[start_offset - 1]) if start_offset else NO_SNAPSHOT
    opened = EpochStarts(starts_of(epochs, start_offset), start)
    check(opened, epochs, start)
    whole = EpochStarts(starts_of(epochs, 0))
    if start_offset:
        whole.delete_before(start)
    check(whole, epochs, start)
    keep = data.draw(st.integers(start_offset, len(epochs)))
    for log in (opened, whole):
        log.truncate(keep)
        check(log, epochs[:keep], start)
        newer = (epochs[keep - 1] if keep else 0) + data.draw(st.integers(0, 2))
        if newer:
            log.append(newer, keep)
            check(log, [*epochs[:keep], newer], start)
            log.truncate(keep)


def test_storage_may_report_epochs_from_before_the_log_start() -> None:
    """Its first segment may begin before the place at which the log starts."""
    log = EpochStarts([(1, 0), (2, 5), (4, 9)], SnapshotId(7, 2))
    assert (log.epoch_at(6), log.epoch_at(8), log.epoch_at(9)) == (2, 2, 4)
    assert log.end_of(3, 7, 12) == (2, 9)
    assert log.end_of(1, 7, 12) == (0, 7)
