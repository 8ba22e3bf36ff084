"""Snapshots broken on purpose, one way at a time: what the simulation and the scenarios have to catch.

Same shape as `breaks.py`. A docstring says what is broken and, behind "Would:", what that would do.
"""

from collections.abc import Callable
from typing import Any

import pytest

from quorum_node.raft import fetch_following, fetch_serving, log_appends, snapshot_following
from quorum_node.raft.events import SnapshotInstalled, SnapshotRejected
from quorum_node.raft.outputs import DeleteLogPrefix, FinishSnapshot, TruncateLog
from quorum_node.raft.replica_state import ReplicaState
from quorum_node.raft.roles import Follower
from quorum_node.raft.voters import VoterHistory
from quorum_node.records.snapshot_format import CorruptSnapshot, SnapshotBounds, SnapshotReader
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.server.partition.driver import ReplicaDriver
from quorum_node.storage.atomic_file import read_file, sync_directory
from quorum_node.storage.snapshots import SnapshotStore
from quorum_simulation.snapshots import SimulatedSnapshots
from quorum_simulation.state import ServiceState

Patch = pytest.MonkeyPatch
Break = Callable[[Patch], None]


def snapshot_above_the_high_watermark(patch: Patch) -> None:
    """A snapshot reaches to the end of the log, beyond the committed offset.

    Would: make a record permanent that a later leader may overwrite.
    """

    def to_the_end(self: SimulatedSnapshots, state: ServiceState) -> int:
        return int(self._host.replica.log_end)

    patch.setattr(SimulatedSnapshots, "wanted_end_offset", to_the_end)


def install_unverified(patch: Patch) -> None:
    """What was downloaded is used as it is.

    Would: load what a cut or damaged download left.
    """

    def believed(self: SnapshotStore, id: SnapshotId, *reported: object) -> SnapshotBounds:
        path = self._partial_path(id)
        self._partials.pop(id, None)
        data = read_file(path, self._files) or b""
        self._sync_file(path)
        self._files.rename(path, self._path(id))
        sync_directory(self._directory, self._files)
        self._note(id, len(data), None)
        return SnapshotBounds(0, 1, _voters_anywhere(id, data))

    patch.setattr(SnapshotStore, "finish_partial", believed)


def _voters_anywhere(id: SnapshotId, data: bytes) -> Any:
    reader = SnapshotReader(id)
    try:
        reader.feed(data)
    except CorruptSnapshot:
        return None  # whatever it is, it is not looked at
    return reader._voters


def drop_the_voters_of_the_snapshot(patch: Patch) -> None:
    """The voters from before stay in force behind an installed snapshot.

    Would: count by voters that were replaced long ago.
    """
    patch.setattr(VoterHistory, "reset", lambda history, base: None)


def delete_before_the_snapshot_is_durable(patch: Patch) -> None:
    """The prefix goes when a snapshot is begun, not when it is durable.

    Would: lose the only copy of committed records in a crash.
    """

    def hasty(state: ReplicaState, id: SnapshotId) -> None:
        if state.start < id and id.end_offset <= min(state.high_watermark, state.durable_end):
            state.start = id
            state.epochs.delete_before(id)
            state.out.append(DeleteLogPrefix(id))

    patch.setattr(snapshot_following, "prefix_obsolete", hasty)


def install_before_durable(patch: Patch) -> None:
    """The log is dropped when the last byte arrives, before the snapshot is verified and durable.

    Would: leave neither the log nor the snapshot after a crash.
    """

    def at_once(driver: Any, output: FinishSnapshot) -> None:
        store = driver._snapshots._store
        data = read_file(store._partial_path(output.id), store._files) or b""
        reader = SnapshotReader(output.id)
        try:
            reader.feed(data)
            bounds = reader.finish()
        except CorruptSnapshot as error:
            driver.handle(SnapshotRejected(output.id, str(error)))
        else:
            driver.handle(SnapshotInstalled(output.id, bounds.voters, bounds.kraft_version))

    patch.setattr(ReplicaDriver, "_finish_snapshot", at_once)


def truncate_below_the_snapshot(patch: Patch) -> None:
    """A diverging follower truncates a little more than needed, also below a snapshot.

    Would: drop committed records during the truncation.
    """

    def deep(state: ReplicaState, follower: Any, diverging: Any) -> None:
        target = max(state.start.end_offset, diverging.end_offset - 40)
        state.high_watermark = min(state.high_watermark, target)
        if target < state.log_end:
            state.log_end, state.durable_end = target, min(state.durable_end, target)
            state.epochs.truncate(target)
            state.out.append(TruncateLog(target))

    patch.setattr(fetch_following, "_truncate_to_leader", deep)
    patch.setattr(log_appends, "truncate", lambda state, end_offset: None)


def serve_no_snapshot_id(patch: Patch) -> None:
    """A leader refers no follower to a snapshot.

    Would: exclude a slow follower for good once the log before a snapshot is deleted.
    """
    real = fetch_serving._not_from_the_log

    def from_the_log(state: ReplicaState, request: Any) -> Any:
        elsewhere = real(state, request)
        return None if isinstance(elsewhere, SnapshotId) else elsewhere

    patch.setattr(fetch_serving, "_not_from_the_log", from_the_log)


def lose_the_epoch_of_the_snapshot(patch: Patch) -> None:
    """A log that begins after a snapshot does not know the epoch of the record before it.

    Would: truncate a follower that agrees, or elect one that lacks records.
    """
    real = snapshot_following._begin_behind

    def forgetful(state: ReplicaState, id: SnapshotId, *rest: Any) -> None:
        real(state, id, *rest)
        state.epochs._epochs[0] = 0

    patch.setattr(snapshot_following, "_begin_behind", forgetful)


def combine_parts_of_different_snapshots(patch: Patch) -> None:
    """A download continues with another leader for any size and checksum.

    Would: have every download from two different snapshots of one id rejected at its end.
    """
    real = snapshot_following._fits

    def broken(state: ReplicaState, follower: Any, partial: Any, response: Any) -> bool:
        partial.size_bytes, partial.checksum = None, None
        partial.source = (follower.leader_id, state.epoch)
        return real(state, follower, partial, response)

    patch.setattr(snapshot_following, "_fits", broken)


def match_an_answer_from_before_the_reset(patch: Patch) -> None:
    """The answer to a fetch from before a reset is matched to a fetch from after it.

    Would: stop followers for a divergence that does not exist.
    """
    real = snapshot_following._finished

    def forgetful(state: ReplicaState, id: SnapshotId) -> None:
        role = state.role
        fetching = getattr(role, "fetching", None)
        real(state, id)
        if isinstance(role, Follower):
            role.fetching = fetching

    patch.setattr(snapshot_following, "_finished", forgetful)


def ignore_that_the_quorum_had_formed(patch: Patch) -> None:
    """The voters record in a snapshot requires as many initial voters as it did in the log.

    Would: reject writes for ever in a quorum that shrank, under a leader that started from a snapshot.
    """
    patch.setattr(ReplicaState, "forms", lambda state, entry: False)


def delete_what_is_not_durable_elsewhere(patch: Patch) -> None:
    """The prefix of the log goes as far as a snapshot reaches, though the log is not durable there.

    Would: leave a log that ends before its own beginning after a crash.
    """
    real = snapshot_following.prefix_obsolete

    def hasty(state: ReplicaState, id: SnapshotId) -> None:
        durable, state.durable_end = state.durable_end, state.log_end
        real(state, id)
        state.durable_end = durable

    patch.setattr(snapshot_following, "prefix_obsolete", hasty)


BY_SIMULATION: tuple[Break, ...] = (
    snapshot_above_the_high_watermark,
    install_unverified,
    drop_the_voters_of_the_snapshot,
    delete_before_the_snapshot_is_durable,
    install_before_durable,
    truncate_below_the_snapshot,
    serve_no_snapshot_id,
    lose_the_epoch_of_the_snapshot,
)

BY_SCENARIO: tuple[tuple[Break, str], ...] = (
    (drop_the_voters_of_the_snapshot, "newcomer-joins-from-a-snapshot"),
    (serve_no_snapshot_id, "slow-follower-after-a-snapshot"),
)

_UNIT = "tests/unit/raft/test_raft_snapshot"
BY_TEST: tuple[tuple[Break, str], ...] = (
    (
        combine_parts_of_different_snapshots,
        f"{_UNIT}_downloads.py::test_different_bytes_under_the_same_snapshot_id_are_not_combined",
    ),
    (
        match_an_answer_from_before_the_reset,
        f"{_UNIT}_downloads.py::test_slow_follower_gets_the_snapshot_and_then_the_log",
    ),
    (
        ignore_that_the_quorum_had_formed,
        f"{_UNIT}s.py::test_new_replica_knows_that_a_shrunken_quorum_has_formed",
    ),
    (
        delete_what_is_not_durable_elsewhere,
        f"{_UNIT}s.py::test_log_prefix_is_deleted_only_when_nothing_is_lost",
    ),
)

FAULTS_FOR: dict[Break, frozenset[str]] = {
    install_unverified: frozenset({"damaged download", "crash"}),
}
"""Where only some faults bring it to light: the others would only take time."""
