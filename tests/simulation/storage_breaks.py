"""What storage does against power cuts, failed syncs, full disks and bits that turn over, broken on purpose.

Same shape as `breaks.py`. Each is caught by one sort of faults alone, and those about an invariant by that alone
(`test_new_invariants.py`).
"""

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from quorum_node.raft import acknowledgements, election, vote
from quorum_node.raft.leadership import Leader, Progress
from quorum_node.raft.replica_state import ReplicaState
from quorum_node.raft.roles import Prospective
from quorum_node.server.partition.driver import ReplicaDriver
from quorum_node.storage import atomic_file, errors, log_end, log_opening, quorum_state
from quorum_node.storage.checked_text import CheckedText
from quorum_node.storage.file_system import FileSystem
from quorum_node.storage.log import SegmentedLog
from quorum_node.storage.segment import Segment
from quorum_node.storage.snapshots import SnapshotStore
from quorum_simulation import scrubbing
from quorum_simulation.files.file_system import SimulatedFiles

Patch = pytest.MonkeyPatch
Break = Callable[[Patch], None]


def take_an_unsynced_end_for_damage(patch: Patch) -> None:
    """Whatever can't be read at the end of a log is damage.

    Would: condemn the disks of all voters in one power cut.
    """
    patch.setattr(
        log_end.KnownSynced, "verdict", lambda known, offset, epoch: log_end.Verdict.DAMAGE
    )


def begin_an_epoch_on_a_cut_that_may_be_undone(patch: Patch) -> None:
    """The entry of a new epoch is durable before the preceding truncation.

    Would: have the log treated as damaged when a power cut reverts the truncation.
    """
    patch.setattr(SegmentedLog, "_sync_cut", lambda log: None)


def vote_before_the_name_is_durable(patch: Patch) -> None:
    """quorum-state is renamed to its final name, and the directory is not synced.

    Would: lose a vote in a power cut, and give it a second time.
    """

    def unsynced(path: Path, content: bytes, files: FileSystem) -> None:
        temp = path.with_name(path.name + atomic_file.TEMP_SUFFIX)
        descriptor = files.open(temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        atomic_file.write_fully(descriptor, content, files)
        files.fsync(descriptor)
        files.close(descriptor)
        files.rename(temp, path)

    patch.setattr(quorum_state, "replace_file", unsynced)


def trust_the_page_cache_after_a_failed_sync(patch: Patch) -> None:
    """A start reads the log from the page cache, and ignores the synced end.

    Would: acknowledge records that a failed sync has lost.
    """
    patch.setattr(SimulatedFiles, "fadvise_dontneed", lambda files, fd: None)
    patch.setattr(log_opening, "cut_unsynced", lambda *where: 0)


def fail_on_a_full_disk(patch: Patch) -> None:
    """A sync that finds no space is treated as a failed disk.

    Would: replace every voter of a quorum with disks in a shared pool that is full.
    """
    patch.setattr(errors, "_FULL", ())


def count_a_lost_copy(patch: Patch) -> None:
    """An acknowledged offset of a replica counts for ever, whatever it fetches later.

    Would: commit records that are on a minority of the disks, after one of them was rolled back.
    """

    def highest(replica: ReplicaState, leader: Leader, progress: Progress, request: Any) -> bool:
        progress.end_offset = max(progress.end_offset, request.fetch_offset)
        return True

    patch.setattr(acknowledgements, "acknowledge", highest)
    patch.setattr(acknowledgements, "_lower", lambda leader, progress, offset: None)


def read_no_segment_again(patch: Patch) -> None:
    """Older segments are never scrubbed.

    Would: detect damaged records when the last good copy is gone.
    """

    def nothing(segments: Sequence[Segment]) -> None:
        return None

    patch.setattr(scrubbing, "scrub", nothing)


def trust_quorum_state(patch: Patch) -> None:
    """quorum-state is accepted with any checksum.

    Would: vote twice in an epoch, or start in one that never existed, after a bit flip.
    """
    patch.setattr(CheckedText, "check", lambda checked, content: True)


def campaign_without_a_pre_vote(patch: Patch) -> None:
    """A voter that hears no leader starts an epoch at once.

    Would: let every voter that was cut off depose the leader that all others hear.
    """
    patch.setattr(election, "_ask_everyone", _without_a_pre_vote(election._ask_everyone))


def _without_a_pre_vote(real: Callable[[ReplicaState], None]) -> Callable[..., None]:
    def ask(replica: ReplicaState) -> None:
        if isinstance(replica.role, Prospective):
            election.start_candidacy(replica)
        else:
            real(replica)

    return ask


def grant_any_pre_vote(patch: Patch) -> None:
    """A pre-vote is granted to every candidate, also while a leader is alive.

    Would: let a voter that was cut off depose a leader that all others hear.
    """
    patch.setattr(vote, "_would_grant", lambda replica, request, eligible: True)


def commit_what_a_failed_sync_left(patch: Patch) -> None:
    """A failed flush counts as one that came back, once.

    Would: acknowledge records that are on no disk.
    """

    def ignored(driver: ReplicaDriver, error: Exception) -> None:
        driver.flush_completed(driver._truncations, driver._log.end_offset)

    patch.setattr(ReplicaDriver, "flush_failed", ignored)


def read_no_snapshot_again(patch: Patch) -> None:
    """Snapshots are never scrubbed.

    Would: detect a damaged snapshot when the log before it is deleted everywhere.
    """
    patch.setattr(SnapshotStore, "scrub", lambda store, *arguments: None)


def vote_without_space(patch: Patch) -> None:
    """A full disk is no reason not to vote: quorum-state is saved when there is room.

    Would: vote twice in an epoch after a restart.
    """
    real = quorum_state.QuorumStateFile.save

    def save(file: quorum_state.QuorumStateFile, state: Any) -> None:
        with contextlib.suppress(errors.DiskFull):
            real(file, state)

    patch.setattr(quorum_state.QuorumStateFile, "save", save)


def acknowledge_without_space(patch: Patch) -> None:
    """A flush for which a shared pool has no space counts as one that came back.

    Would: acknowledge records that are on no disk.
    """
    real = ReplicaDriver.flush_failed

    def ignored(driver: ReplicaDriver, error: Exception) -> None:
        if isinstance(error, errors.DiskFull) and error.at_sync:
            driver.flush_completed(driver._truncations, driver._log.end_offset)
        else:
            real(driver, error)  # type: ignore[arg-type]

    patch.setattr(ReplicaDriver, "flush_failed", ignored)


BY_SIMULATION: tuple[Break, ...] = (
    take_an_unsynced_end_for_damage,
    vote_before_the_name_is_durable,
    trust_the_page_cache_after_a_failed_sync,
    fail_on_a_full_disk,
    count_a_lost_copy,
    read_no_segment_again,
    trust_quorum_state,
    campaign_without_a_pre_vote,
    grant_any_pre_vote,
    commit_what_a_failed_sync_left,
    read_no_snapshot_again,
    vote_without_space,
    acknowledge_without_space,
)
BY_TEST: tuple[tuple[Break, str], ...] = (
    (
        begin_an_epoch_on_a_cut_that_may_be_undone,
        "tests/unit/storage/test_power_loss.py::test_truncation_is_durable_before_a_new_epoch",
    ),
)
_POWER = frozenset({"power cut in a write", "crash", "power cut of all", "crash leader"})
_CUT_OFF = frozenset({"partition", "isolate leader", "one-way cut"})
FAULTS_FOR: dict[Break, frozenset[str]] = {
    take_an_unsynced_end_for_damage: _POWER,
    vote_before_the_name_is_durable: _POWER,
    trust_the_page_cache_after_a_failed_sync: frozenset({"sync fails once", "pool full"}),
    fail_on_a_full_disk: frozenset({"pool full", "resign"}),
    count_a_lost_copy: frozenset({"older image", "resign"}),
    read_no_segment_again: frozenset({"bit rot in the log", "resign"}),
    trust_quorum_state: frozenset({"bit rot in quorum-state", "crash"}),
    campaign_without_a_pre_vote: _CUT_OFF,
    grant_any_pre_vote: _CUT_OFF,
    commit_what_a_failed_sync_left: frozenset({"sync fails once"}),
    read_no_snapshot_again: frozenset({"bit rot in a snapshot"}),
    vote_without_space: frozenset({"disk full", "resign"}),
    acknowledge_without_space: frozenset({"disk full at sync"}),
}
"""No other kind of fault shows them, or it would only take time. Some are there so that enough strikes."""
