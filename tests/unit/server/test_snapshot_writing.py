"""One snapshot, encoded between the turns of a real loop, and brought to a real disk by a thread."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from itertools import count, pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

from quorum_node.image.cluster_image import ClusterImage
from quorum_node.records.snapshot_format import SnapshotBounds, encode_snapshot
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.server.snapshots import writing as snapshot_writing
from quorum_node.server.snapshots.writing import (
    NotWritten,
    SnapshotWriting,
    Written,
    slice_seconds,
)
from quorum_node.storage.snapshot_writer import SnapshotWriter
from quorum_node.storage.snapshots import SnapshotStore
from support.metadata_records import config

ID, BOUNDS = SnapshotId(9, 2), SnapshotBounds(5)
VALUES = [b"%d" % number * 10 for number in range(20_000)]
CHUNK_BYTES = 1 << 20


async def written(store: SnapshotStore, values: Iterator[bytes | None]) -> Written | NotWritten:
    """The outcome."""
    ended: asyncio.Future[Written | NotWritten] = asyncio.get_running_loop().create_future()
    SnapshotWriting(store, ID, BOUNDS, values, ended.set_result).start()
    return await asyncio.wait_for(ended, 20)


def files(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_written_snapshot_contains_exactly_the_records(tmp_path: Path) -> None:
    result = asyncio.run(written(SnapshotStore(tmp_path), iter(VALUES)))
    assert isinstance(result, Written)
    whole = b"".join(encode_snapshot(ID, BOUNDS, VALUES))
    assert (tmp_path / ID.file_name).read_bytes() == whole
    assert (result.id, result.size_bytes) == (ID, len(whole))
    assert files(tmp_path) == [ID.file_name]


def test_slice_length_follows_the_previous_turn_within_bounds() -> None:
    assert slice_seconds(0.0) == 0.0003
    assert slice_seconds(0.0007) == 0.0007
    assert slice_seconds(0.05) == 0.001


async def test_loop_runs_between_two_slices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a clock that advances by 0.1 ms with each reading: three readings a slice, or four."""
    clock = count()

    class Clock:
        @staticmethod
        def perf_counter() -> float:
            return next(clock) / 10_000

    taken = 0
    slices: list[int] = []

    def counted() -> Iterator[bytes]:
        nonlocal taken
        for value in VALUES:
            taken += 1
            yield value

    monkeypatch.setattr(snapshot_writing, "time", Clock)
    loop = asyncio.get_running_loop()

    def turn() -> None:
        slices.append(taken)
        loop.call_soon(turn)

    turn()
    assert isinstance(await written(SnapshotStore(tmp_path), counted()), Written)
    steps = [after - before for before, after in pairwise(slices)]
    assert 0 < max(steps) <= 100
    assert sum(step > 0 for step in steps) >= len(VALUES) / 100


async def test_encoding_is_limited_by_a_slow_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on = threading.Event()
    original = SnapshotWriter.append
    taken = 0

    def held_up(writer: SnapshotWriter, data: bytes) -> None:
        assert may_go_on.wait(20)
        original(writer, data)

    def large() -> Iterator[bytes]:
        nonlocal taken
        for _ in range(20):
            taken += 1
            yield bytes(CHUNK_BYTES)

    monkeypatch.setattr(SnapshotWriter, "append", held_up)
    # One slice could take all: only the disk limits it.
    monkeypatch.setattr(snapshot_writing, "time", SimpleNamespace(perf_counter=lambda: 0.0))
    writing = asyncio.ensure_future(written(SnapshotStore(tmp_path), large()))
    before = -1
    while taken == 0 or taken != before:  # a slice takes what it may at once
        before = taken
        await asyncio.sleep(0.05)
    assert taken == snapshot_writing._MAX_CHUNKS_AHEAD
    may_go_on.set()
    assert isinstance(await writing, Written)
    assert taken == 20


def test_record_that_cannot_be_encoded_leaves_no_file(tmp_path: Path) -> None:
    def broken() -> Iterator[bytes]:
        yield b"one"
        raise ValueError("no such record")

    result = asyncio.run(written(SnapshotStore(tmp_path), broken()))
    assert isinstance(result, NotWritten)
    assert "no such record" in str(result.error)
    assert files(tmp_path) == []


async def test_cancelled_snapshot_leaves_no_file_and_no_event(tmp_path: Path) -> None:
    reported: list[object] = []
    taken = 0

    def endless() -> Iterator[bytes]:
        nonlocal taken
        while True:
            taken += 1
            yield b"x" * 1000

    writing = SnapshotWriting(SnapshotStore(tmp_path), ID, BOUNDS, endless(), reported.append)
    writing.start()
    await until(lambda: files(tmp_path) != [] and taken > 100)
    writing.close()
    before = taken
    await until(lambda: files(tmp_path) == [])
    assert taken == before
    assert reported == []


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - of another thread
            await asyncio.sleep(0.005)


def test_sorting_many_keys_yields_to_the_loop() -> None:
    """A million keys in one go would hold up the loop for a fifth of a second."""
    names = [f"k{number}" for number in range(2_000)]
    image = ClusterImage().replay_all([config(2, "t", name, "v") for name in names])
    values = list(image.snapshot_with_pauses())
    assert values.count(None) == 3
    assert [value for value in values if value is not None] == list(image.snapshot_records())
    assert sum(1 for _ in image.snapshot_records()) == len(names)
