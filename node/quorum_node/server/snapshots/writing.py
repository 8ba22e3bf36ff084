"""Writes one snapshot: the loop encodes it in short slices, and a thread writes it to the disk.

Owns the pace. Must not know when a snapshot is due.

Encoding is Python code, so it can't run in parallel to the loop that answers clients (GIL): two threads would wait for each other longer
than the work takes. So the loop encodes a slice between two turns, for as long as the previous turn took, within bounds: at most half of
the time on a busy loop, all of it on an idle one. Writing and syncing release the interpreter lock, and run on a thread.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from queue import SimpleQueue

from quorum_node.records.snapshot_format import SnapshotBounds, encode_snapshot
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.server.ending.loop_calls import call_on_loop
from quorum_node.storage.snapshots import SnapshotStore

_LEAST_SLICE_SECONDS = 0.0003
_LONGEST_SLICE_SECONDS = 0.001
"""In seconds: how long a client may have to wait, at each step of its request."""
_LOOK_AT_CLOCK_EVERY = 16
_CHUNK_BYTES = 1 << 20
"""Bytes that are passed to the thread together."""
_MAX_CHUNKS_AHEAD = 4
"""Number of chunks in memory that a slow disk has not written yet; no more are encoded until one is written."""


@dataclass(frozen=True, slots=True)
class Written:
    """A snapshot that is durable."""

    id: SnapshotId
    size_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class NotWritten:
    """`error`: the reason. No file of the snapshot is left."""

    id: SnapshotId
    error: Exception


@dataclass(frozen=True, slots=True)
class _End:
    """End of the data; with an error, the file is discarded."""

    error: Exception | None = None


def slice_seconds(turn_seconds: float) -> float:
    """How long to encode after a turn of the loop that took this long."""
    return min(max(turn_seconds, _LEAST_SLICE_SECONDS), _LONGEST_SLICE_SECONDS)


class SnapshotWriting:
    """Writes one snapshot of these records. `done` is called once, on the loop's thread, unless `close` was called before."""

    def __init__(
        self,
        store: SnapshotStore,
        id: SnapshotId,
        bounds: SnapshotBounds,
        values: Iterator[bytes | None],
        done: Callable[[Written | NotWritten], None],
    ) -> None:
        self._store = store
        self._id = id
        self._done = done
        self._pieces = encode_snapshot(id, bounds, _with_pauses(values))
        self._loop = asyncio.get_running_loop()
        self._began = self._slice_ended = time.perf_counter()
        self._chunk: list[bytes] = []
        self._chunk_bytes = 0
        self._chunks_ahead = 0
        self._waits_for_disk = False
        self._ended = False
        self._queue: SimpleQueue[list[bytes] | _End] = SimpleQueue()

    def start(self) -> None:
        """Returns at once."""
        threading.Thread(target=self._write, name="snapshot-writer", daemon=True).start()
        self._loop.call_soon(self._slice)

    def close(self) -> None:
        """Abort: the result is not needed any more."""
        self._done = lambda result: None
        self._end(RuntimeError("this replica ends"))

    # -- on the loop

    def _slice(self) -> None:
        if self._ended:
            return
        began = time.perf_counter()
        turn_seconds = began - self._slice_ended
        try:
            is_whole = self._encode(began + slice_seconds(turn_seconds))
        except Exception as error:
            self._end(error)
            return
        self._slice_ended = time.perf_counter()
        if is_whole:
            self._hand_over()
            self._end(None)
        elif self._chunks_ahead >= _MAX_CHUNKS_AHEAD:
            self._waits_for_disk = True
        else:
            self._loop.call_soon(self._slice)

    def _encode(self, until: float) -> bool:
        """Returns whether all records are encoded. Stops at `until`, and when the disk is too far behind."""
        for piece in self._pieces:
            if piece:
                self._chunk.append(piece)
                self._chunk_bytes += len(piece)
                if self._chunk_bytes >= _CHUNK_BYTES:
                    self._hand_over()
            if time.perf_counter() >= until or self._chunks_ahead >= _MAX_CHUNKS_AHEAD:
                return False
        return True

    def _hand_over(self) -> None:
        self._queue.put(self._chunk)
        self._chunk, self._chunk_bytes = [], 0
        self._chunks_ahead += 1

    def _end(self, error: Exception | None) -> None:
        if not self._ended:
            self._ended = True
            self._queue.put(_End(error))

    def _chunk_is_written(self) -> None:
        self._chunks_ahead -= 1
        if self._waits_for_disk:
            self._waits_for_disk = False
            self._slice_ended = time.perf_counter()
            self._loop.call_soon(self._slice)

    def _thread_ended(self, result: Written | NotWritten) -> None:
        self._ended = True
        self._done(result)

    # -- on the thread

    def _write(self) -> None:
        """Any exception is passed to the loop."""
        writer = None
        result: Written | NotWritten
        try:
            writer = self._store.create(self._id)
            while not isinstance(chunk := self._queue.get(), _End):
                for data in chunk:
                    writer.append(data)
                call_on_loop(self._loop, self._chunk_is_written)
            if chunk.error is not None:
                raise chunk.error
            writer.freeze()
            seconds = time.perf_counter() - self._began
            result = Written(self._id, writer.size_bytes, seconds)
        except Exception as error:
            if writer is not None:
                writer.abort()
            result = NotWritten(self._id, error)
        call_on_loop(self._loop, lambda: self._thread_ended(result))


def _with_pauses(values: Iterator[bytes | None]) -> Iterator[bytes | None]:
    """Yields None from time to time, so that other work can run."""
    for number, value in enumerate(values):
        yield value
        if number % _LOOK_AT_CLOCK_EVERY == 0:
            yield None
