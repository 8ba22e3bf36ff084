"""Local snapshots of one replica: when they are written, from which state, and what is deleted afterwards.

Owns the sequence: due → keep the present image → write it → inform the core → retention. Must not know the format nor consensus: the core
decides whether the log may start later, the policy decides when it should. Everything here runs on the loop's thread; the worker threads
pass their results through the loop.
"""

import asyncio
import threading
import time
from collections.abc import Callable

from quorum_node.configuration.snapshots import SnapshotPolicy
from quorum_node.controller.snapshot_turns import SnapshotProgress
from quorum_node.records.snapshot_format import CorruptSnapshot, SnapshotBounds
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.server.ending.loop_calls import call_on_loop
from quorum_node.server.observing.metrics import PartitionMetrics
from quorum_node.server.snapshots.events import SnapshotEvents
from quorum_node.server.snapshots.policy import KnownSnapshot, Progress, is_due, obsolete_before
from quorum_node.server.snapshots.port import Outcome, SnapshottedReplica
from quorum_node.server.snapshots.writing import NotWritten, SnapshotWriting, Written
from quorum_node.storage.errors import DiskFull, StorageFailure
from quorum_node.storage.log import SegmentedLog
from quorum_node.storage.snapshots import SnapshotStore

_LOOK_SECONDS = 1.0
_BACKOFF_SECONDS = 60.0
"""In seconds: pause after a snapshot that could not be written."""
_CHECK_AGAIN_SECONDS = 600.0
"""In seconds: how long a verified snapshot counts as undamaged."""
_LEAST_ROOM_BYTES = 1 << 20


class Snapshotter:
    """See the module."""

    def __init__(
        self,
        store: SnapshotStore,
        log: SegmentedLog,
        replica: SnapshottedReplica,
        policy: SnapshotPolicy,
        metrics: PartitionMetrics,
        events: SnapshotEvents,
    ) -> None:
        self._store = store
        self._log = log
        self._replica = replica
        self._policy = policy
        self._metrics = metrics
        self._events = events
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False
        self._record_bytes = 0
        self._last_at = self._loop.time()
        self._not_before = 0.0
        self._writing: SnapshotId | None = None
        self._course: SnapshotWriting | None = None
        self._since_before = (0, self._last_at)
        self._answering: list[Callable[[Outcome], None]] = []
        self._waiting: list[Callable[[Outcome], None]] = []
        self._checked_at: dict[SnapshotId, float] = {}

    def start(self) -> None:
        """Check periodically from now on."""
        self._look()

    def close(self) -> None:
        """Write no more snapshots; one that is being written is aborted."""
        self._closed = True
        if self._course is not None:
            self._course.close()
        if self._timer is not None:
            self._timer.cancel()

    def request(self, done: Callable[[Outcome], None]) -> None:
        """Write a snapshot now. `done` is called once, with its id or with the reason of the failure."""
        self._waiting.append(done)
        self._begin_if_wanted()

    def progress(self) -> SnapshotProgress:
        """The progress that is reported to the active controller."""
        latest = self._store.latest()
        return SnapshotProgress(
            offset=latest.end_offset if latest is not None else 0,
            record_bytes=self._record_bytes,
            age_ms=(self._loop.time() - self._last_at) * 1000,
            writing=self._writing is not None,
        )

    def begin_turn(self) -> None:
        """Write a snapshot now, as the active controller requests."""
        self._begin()

    def installed(self, id: SnapshotId) -> None:
        """The log starts at the end of a downloaded snapshot now."""
        self._record_bytes, self._last_at = 0, self._loop.time()
        self._metrics.count("snapshots_installed")
        self._events.installed(id, self._store.size_bytes(id))
        self._delete_old()

    def applied(self, size_bytes: int) -> None:
        """This number of bytes of the log was replayed."""
        self._record_bytes += size_bytes
        limit_bytes = self._policy.max_record_bytes
        if self._record_bytes - size_bytes < limit_bytes <= self._record_bytes:
            self._begin_if_due()

    def verify_in_background(self, id: SnapshotId) -> None:
        """Verify a snapshot before it is sent to another replica: damage here must not prevent others from joining."""
        now = self._loop.time()
        if now - self._checked_at.get(id, -_CHECK_AGAIN_SECONDS) >= _CHECK_AGAIN_SECONDS:
            self._checked_at[id] = now
            threading.Thread(
                target=self._verify, args=(id,), name="snapshot-check", daemon=True
            ).start()

    # -- when

    def _look(self) -> None:
        self._timer = self._loop.call_later(_LOOK_SECONDS, self._look)
        self._begin_if_due()

    def _begin_if_due(self) -> None:
        ids = self._store.ids()
        now = self._loop.time()
        progress = Progress(
            record_bytes=self._record_bytes,
            since_last_ms=(now - self._last_at) * 1000,
            new_records=self._replica.committed.end_offset > (ids[-1].end_offset if ids else 0),
            is_only_copy=len(ids) == 1 and self._log.start_offset > 0,
        )
        if self._writing is not None or now < self._not_before:
            return
        # If it would be the only copy it is urgent: do not wait for others.
        if is_due(self._policy, progress) and (progress.is_only_copy or self._replica.may_begin()):
            self._begin()

    def _begin_if_wanted(self) -> None:
        if not self._waiting or self._writing is not None:
            return
        refusal = self._refusal()
        latest, end_offset = self._store.latest(), self._replica.committed.end_offset
        if refusal is None and latest is not None and end_offset <= latest.end_offset:
            self._answer(self._waiting, latest)
        elif refusal is not None:
            self._answer(self._waiting, refusal)
        else:
            self._begin()

    def _refusal(self) -> str | None:
        committed = self._replica.committed
        if self._replica.has_stopped or self._closed:
            return "the replica has stopped"
        if self._replica.is_loading:
            return "the state is still being loaded"
        left_out = committed.image.left_out
        if left_out:
            return (
                "the log has records that this node keeps, but whose meaning it does not know"
                f" ({', '.join(sorted(left_out))}): a snapshot would lose them, so the complete log is kept"
            )
        if committed.in_transaction:
            return "a transaction of another controller is open"
        if committed.end_offset == 0:
            return "nothing is committed yet"
        wanted = self._expected_bytes()
        if self._replica.free_bytes() < wanted:
            return (
                f"{self._replica.free_bytes()} bytes are free above metadata.log.reserve.bytes, but a snapshot needs"
                f" about {wanted}: enlarge the volume"
            )
        return None

    def _expected_bytes(self) -> int:
        latest = self._store.latest()
        known = self._store.size_bytes(latest) if latest is not None else 0
        return max(_LEAST_ROOM_BYTES, known * 5 // 4)

    # -- writing

    def _begin(self) -> None:
        if self._writing is not None:
            return
        refusal = self._refusal()
        if refusal is not None:
            self._not_before = self._loop.time() + _BACKOFF_SECONDS
            self._events.refused(refusal)
            self._answer(self._waiting, refusal)
            self._replica.ended()
            return
        committed, replica = self._replica.committed, self._replica
        # Not the epoch in the last batch: no checksum covers it, and the start does not read sealed segments.
        epoch = replica.epoch_at(committed.end_offset - 1)
        snapshot = SnapshotId(committed.end_offset, epoch)
        voters = replica.voters_at(committed.end_offset)
        bounds = SnapshotBounds(committed.timestamp_ms, replica.kraft_version, voters)
        self._writing = snapshot
        self._answering, self._waiting = self._waiting, []
        self._since_before = (self._record_bytes, self._last_at)
        self._record_bytes, self._last_at = 0, self._loop.time()
        self._course = SnapshotWriting(
            self._store, snapshot, bounds, committed.image.snapshot_with_pauses(), self._written
        )
        self._course.start()

    def _written(self, result: Written | NotWritten) -> None:
        self._writing = self._course = None
        outcome: Outcome
        if isinstance(result, Written):
            outcome = result.id
            self._metrics.count("snapshots_written")
            self._metrics.observe("snapshot_write_seconds", result.seconds)
            self._replica.created(result.id)
            self._events.written(result)
            self._delete_old()
        else:
            outcome = str(result.error)
            self._not_written(result)
        self._answer(self._answering, outcome)
        self._replica.ended()
        self._begin_if_wanted()

    def _not_written(self, result: NotWritten) -> None:
        reason = "disk_full" if isinstance(result.error, DiskFull) else "error"
        if isinstance(result.error, StorageFailure):
            reason = "storage_failed"
        self._metrics.count_labelled("snapshot_failures", reason)
        self._not_before = self._loop.time() + _BACKOFF_SECONDS
        # It is still due: the progress since the newest snapshot has not changed.
        record_bytes, self._last_at = self._since_before
        self._record_bytes += record_bytes
        self._events.not_written(result, _BACKOFF_SECONDS)
        match result.error:
            case StorageFailure() | DiskFull(at_sync=True):
                self._replica.fail_storage(result.error)

    def _answer(self, waiting: list[Callable[[Outcome], None]], outcome: Outcome) -> None:
        callbacks = list(waiting)
        waiting.clear()
        for done in callbacks:
            done(outcome)

    # -- deleting

    def _delete_old(self) -> None:
        store = self._store
        try:
            known = self._known()
        except (StorageFailure, DiskFull) as failure:
            self._replica.fail_storage(failure)
            return
        now_ms = time.time_ns() // 1_000_000
        start = obsolete_before(self._policy, known, self._log.size_bytes_from, now_ms)
        before = self._log.start_offset
        try:
            if start is not None and start.end_offset > before:
                self._replica.prefix_obsolete(start)
            in_use = self._replica.in_use()
            deleted = store.delete_before(self._log.start, keep=in_use)
            for gone in deleted:
                self._checked_at.pop(gone, None)
        except (StorageFailure, DiskFull) as failure:
            self._replica.fail_storage(failure)
            return
        if deleted or self._log.start_offset > before:
            self._events.deleted(self._log.start, deleted)

    def _known(self) -> list[KnownSnapshot]:
        """All snapshots, oldest first. Those whose header is damaged are set aside."""
        store, known = self._store, []
        for each in store.ids():
            try:
                timestamp_ms = store.timestamp_ms(each)
            except CorruptSnapshot as error:
                self._damaged(each, str(error))
                continue
            known.append(KnownSnapshot(each, store.size_bytes(each), timestamp_ms))
        return known

    # -- verifying the snapshots on the disk

    def scrub(self, id: SnapshotId, pause: Callable[[int], bool]) -> None:
        """Runs on the scrubber's thread: read the snapshot again, and handle damage."""
        self._check(id, lambda: self._store.scrub(id, pause))

    def _verify(self, id: SnapshotId) -> None:
        """Runs on a thread of its own."""
        self._check(id, lambda: self._store.verify(id))

    def _check(self, id: SnapshotId, check: Callable[[], object]) -> None:
        try:
            check()
        except CorruptSnapshot as error:
            if id in self._store.ids():
                text = str(error)
                call_on_loop(self._loop, lambda: self._damaged(id, text))
            return
        except (StorageFailure, DiskFull) as error:
            failure = error
            call_on_loop(self._loop, lambda: self._replica.fail_storage(failure))

    def _damaged(self, id: SnapshotId, detail: str) -> None:
        if id not in self._store.ids():
            return
        newest = id == self._store.latest()
        try:
            aside = self._store.set_aside(id)
        except (StorageFailure, DiskFull) as failure:
            self._replica.fail_storage(failure)
            return
        self._metrics.count("snapshots_damaged")
        self._events.damaged(id, detail, aside.name)
        if newest:  # the one that this replica offers to others
            self.request(lambda outcome: None)
