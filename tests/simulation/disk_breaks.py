"""What disks lose or damage after it was acknowledged, and code that does not detect it.

Same shape as `breaks.py`. A docstring says what is broken and, behind "Would:", what that would do.
"""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from quorum_node.raft import acknowledgements, fetch_answers, fetch_following
from quorum_node.raft.leadership import Leader, Progress
from quorum_node.raft.replica_state import ReplicaState
from quorum_node.raft.roles import Follower
from quorum_node.records.batches import Batch, CorruptBatch, split_batches
from quorum_node.storage import log_opening
from quorum_node.storage.errors import StorageFailure

Patch = pytest.MonkeyPatch
Break = Callable[[Patch], None]


def count_what_was_acknowledged_once(patch: Patch) -> None:
    """An acknowledged offset counts for ever, whatever a replica fetches later.

    Would: commit records that are on a minority of the disks, after one of them was rolled back.
    """

    def highest(replica: ReplicaState, leader: Leader, progress: Progress, request: Any) -> bool:
        progress.end_offset = max(progress.end_offset, request.fetch_offset)
        return True

    patch.setattr(acknowledgements, "acknowledge", highest)


def count_by_the_order_of_arrival(patch: Patch) -> None:
    """The fetch that arrives last counts, whichever process sent it.

    Would: count a copy that is gone as soon as a late acknowledgement of it arrives.
    """
    patch.setattr(acknowledgements, "_is_doubtful", lambda leader, progress, request: False)


def report_every_lower_fetch(patch: Patch) -> None:
    """A lower fetch is reported before a later one confirms it.

    Would: report lost records whenever a request arrives late or twice.
    """
    real = acknowledgements.acknowledge

    def hasty(replica: ReplicaState, leader: Leader, progress: Progress, request: Any) -> bool:
        before = progress.end_offset
        in_order = real(replica, leader, progress, request)
        if request.fetch_offset < before:
            acknowledgements._report(replica, progress, before, request.fetch_offset)
        return in_order

    patch.setattr(acknowledgements, "acknowledge", hasty)


def send_damaged_records_again(patch: Patch) -> None:
    """A leader with reported damage sends the records again unchanged.

    Would: keep a replica from joining for ever, while the leader has a bad disk.
    """
    real = fetch_answers.RecordsRange
    patch.setattr(fetch_answers, "RecordsRange", lambda *values: real(*values[:3]))


def fetch_damaged_records_without_backoff(patch: Patch) -> None:
    """A follower that was sent damaged records fetches again without backoff.

    Would: load leader and network with useless data.
    """
    real = fetch_following._damaged

    def hasty(replica: ReplicaState, follower: Follower, offset: int, error: Any) -> None:
        real(replica, follower, offset, error)
        follower.retry_deadline_ms = replica.now_ms + replica.config.retry_backoff_ms

    patch.setattr(fetch_following, "_damaged", hasty)


def skip_batches_that_end_too_early(patch: Patch) -> None:
    """A batch that ends before the requested offset is treated as a duplicate.

    Would: have a follower fetch a smaller offset repeatedly, without a report of the damage.
    """
    real = fetch_following.append_fetched

    def lenient(replica: ReplicaState, batches: Sequence[Batch]) -> bool:
        return real(replica, [each for each in batches if each.header.end_offset > replica.log_end])

    patch.setattr(fetch_following, "append_fetched", lenient)


def trust_unread_control_batches(patch: Patch) -> None:
    """A start trusts the offset and epoch of control batches in a sealed segment.

    Would: start with voters that were replaced long ago, as the damaged record of the latest ones is skipped.
    """

    def unlocated(data: bytes, *where: object) -> bytes:
        try:
            split_batches(data)
        except CorruptBatch as error:
            raise StorageFailure(str(error)) from error
        return data

    patch.setattr(log_opening, "_checked", unlocated)


_CORRUPT = "tests/unit/raft/test_raft_corrupt_fetch.py::test_"
_WENT_BACK = "tests/unit/raft/test_raft_lost_records.py::test_"

BY_SIMULATION: tuple[Break, ...] = (trust_unread_control_batches,)
FAULTS_FOR: dict[Break, frozenset[str]] = {
    trust_unread_control_batches: frozenset({"bit rot in the log", "resign"})
}
"""No other kind of fault shows it; the other one makes the epochs change."""
BY_TEST: tuple[tuple[Break, str], ...] = (
    (
        skip_batches_that_end_too_early,
        f"{_CORRUPT}last_batch_with_a_smaller_base_offset_is_not_treated_as_a_duplicate",
    ),
    (count_what_was_acknowledged_once, f"{_WENT_BACK}commit_does_not_count_a_lost_copy"),
    (
        count_by_the_order_of_arrival,
        f"{_WENT_BACK}late_fetches_of_an_ended_process_raise_nothing",
    ),
    (
        send_damaged_records_again,
        f"{_CORRUPT}follower_reports_corruption_and_the_leader_checks_its_disk_and_stops",
    ),
    (
        fetch_damaged_records_without_backoff,
        f"{_CORRUPT}leader_with_a_valid_disk_continues_and_the_follower_backs_off",
    ),
    (
        report_every_lower_fetch,
        f"{_WENT_BACK}late_first_fetch_of_a_process_is_not_reported",
    ),
)
"""Caught by a unit test, which then fails."""
