"""The file system of the simulation: it behaves as a real one, and loses what was not synced."""

import ast
import errno
import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum_node import storage
from quorum_node.storage.file_system import POSIX, FileSystem
from quorum_simulation.files.file_system import PowerLost, SimulatedFiles
from quorum_simulation.files.stored_file import SECTOR_BYTES, StoredFile

FOLDER = Path("/data")
FILE = FOLDER / "file"
_CREATE = os.O_RDWR | os.O_CREAT


def files(seed: int = 1, *, shuffled: bool = False) -> SimulatedFiles:
    made = SimulatedFiles(Random(seed), shuffled=shuffled)
    made.make_directories(FOLDER)
    return made


def sync_folder(made: SimulatedFiles) -> None:
    made.fsync(made.open(FOLDER, os.O_RDONLY | os.O_DIRECTORY))


def content(made: SimulatedFiles, path: Path = FILE) -> bytes:
    file = made.file(path)
    assert file is not None
    return bytes(file.content)


CALL = st.one_of(
    st.tuples(st.just("write"), st.binary(max_size=30), st.just(0)),
    st.tuples(st.just("pwrite"), st.binary(max_size=30), st.integers(0, 60)),
    st.tuples(st.just("ftruncate"), st.just(b""), st.integers(0, 60)),
    st.tuples(st.just("rename"), st.sampled_from([b"a", b"b"]), st.just(0)),
    st.tuples(st.just("create"), st.sampled_from([b"a", b"b"]), st.just(0)),
    st.tuples(st.just("unlink"), st.sampled_from([b"a", b"b"]), st.just(0)),
    st.tuples(st.just("reopen"), st.booleans().map(lambda cut: b"cut" if cut else b""), st.just(0)),
)


def act(on: FileSystem, folder: Path, calls: list[tuple[str, bytes, int]]) -> list[object]:
    """What a process sees of all that."""
    seen: list[object] = []
    fd = on.open(folder / "file", _CREATE)
    for call, data, number in calls:
        if call == "write":
            seen.append(on.write(fd, data))
        elif call == "pwrite":
            seen.append(on.pwrite(fd, data, number))
        elif call == "ftruncate":
            on.ftruncate(fd, number)
        elif call == "rename" and on.exists(folder / "file"):
            on.rename(folder / "file", folder / data.decode())
        elif call == "create":
            on.close(on.open(folder / data.decode(), _CREATE))
        elif call == "unlink":
            on.unlink(folder / data.decode(), missing_ok=True)
        elif call == "reopen":
            on.close(fd)
            fd = on.open(folder / "file", _CREATE | (os.O_TRUNC if data else 0))
        on.fsync(fd)
        seen += [on.size_bytes(fd), on.pread(fd, 100, 0), sorted(on.names(folder))]
        seen.append([on.size_of(folder / name) for name in sorted(on.names(folder))])
    on.seek(fd, 3)
    seen.append(on.read(fd, 100))
    on.close(fd)
    return seen


@given(st.lists(CALL, max_size=12), st.randoms(use_true_random=False))
def test_simulated_files_behave_like_real_ones(
    tmp_path_factory: pytest.TempPathFactory, calls: list[tuple[str, bytes, int]], random: Random
) -> None:
    real = tmp_path_factory.mktemp("real")
    assert act(files(), FOLDER, calls) == act(POSIX, real, calls)


@pytest.mark.parametrize("on", [files(), POSIX], ids=["simulated", "real"])
def test_errors_for_missing_files_are_the_same(on: FileSystem, tmp_path: Path) -> None:
    folder = tmp_path if on is POSIX else FOLDER
    for call in (
        lambda: on.open(folder / "none", os.O_RDONLY),
        lambda: on.size_of(folder / "none"),
        lambda: on.unlink(folder / "none"),
        lambda: on.rename(folder / "none", folder / "other"),
        lambda: on.names(folder / "none"),
    ):
        with pytest.raises(FileNotFoundError):
            call()
    assert not on.exists(folder / "none")


@pytest.mark.parametrize("on", [files(), POSIX], ids=["simulated", "real"])
def test_files_know_when_they_were_changed(on: FileSystem, tmp_path: Path) -> None:
    folder = tmp_path if on is POSIX else FOLDER
    if isinstance(on, SimulatedFiles):
        on.clock_ms = lambda: 7_000
    fd = on.open(folder / "changed", _CREATE)
    changes: tuple[Callable[[], object], ...] = (
        lambda: on.pwrite(fd, b"abc", 0),
        lambda: on.write(fd, b"abc"),
        lambda: on.ftruncate(fd, 1),
        lambda: on.close(on.open(folder / "changed", os.O_RDWR | os.O_TRUNC)),
    )
    for change in changes:
        on.set_modified_ms(fd, 1_234)
        assert on.modified_ms(fd) == 1_234
        change()
        assert on.modified_ms(fd) >= 7_000
    on.set_modified_ms(fd, 1_234)
    on.pread(fd, 3, 0)
    on.fsync(fd)
    on.rename(folder / "changed", folder / "renamed")
    assert on.modified_ms(fd) == 1_234


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("shuffled", [False, True])
def test_only_synced_data_is_guaranteed_to_survive(seed: int, shuffled: bool) -> None:
    made = files(seed, shuffled=shuffled)
    fd = made.open(FILE, _CREATE)
    made.pwrite(fd, b"a" * 700, 0)
    made.fdatasync(fd)
    sync_folder(made)
    made.pwrite(fd, b"b" * 2000, 700)
    assert made.safe_bytes(FILE) == 700
    made.lose_power()
    assert content(made)[:700] == b"a" * 700
    assert set(content(made)[700:]) <= {ord("b"), 0}


def test_every_state_between_nothing_and_everything_is_restored() -> None:
    tails = set()
    for seed in range(300):
        made = files(seed, shuffled=True)
        fd = made.open(FILE, _CREATE)
        sync_folder(made)
        made.pwrite(fd, b"x" * (4 * SECTOR_BYTES), 0)
        made.lose_power()
        data = content(made)
        sectors = [data[at : at + SECTOR_BYTES] for at in range(0, len(data), SECTOR_BYTES)]
        tails.add("".join("x" if sector.strip(b"\0") else "0" for sector in sectors))
    assert {"xxxx", "0000", "x0x0", "0xxx", "xxx0"} <= tails, "in any order"
    assert any(len(each) < 4 for each in tails), "not even the size is certain"


@pytest.mark.parametrize("seed", range(10))
def test_name_is_durable_after_the_sync_of_its_directory(seed: int) -> None:
    made = files(seed)
    fd = made.open(FILE, _CREATE)
    made.pwrite(fd, b"x", 0)
    made.fsync(fd)
    assert made.safe_bytes(FILE) == 0, "an unlinked file is lost"
    sync_folder(made)
    made.rename(FILE, FOLDER / "other")
    made.lose_power()
    assert made.names(FOLDER) in (["file"], ["other"]), "a rename is atomic"


def test_unsynced_names_become_durable_in_order() -> None:
    found = set()
    for seed in range(100):
        made = files(seed)
        for name in "abc":
            made.open(FOLDER / name, _CREATE)
        made.lose_power()
        found.add("".join(made.names(FOLDER)))
    assert found == {"", "a", "ab", "abc"}


def test_unsynced_truncation_may_be_undone() -> None:
    found = set()
    for seed in range(60):
        made = files(seed)
        fd = made.open(FILE, _CREATE)
        made.pwrite(fd, b"before", 0)
        made.fsync(fd)
        sync_folder(made)
        made.ftruncate(fd, 2)
        made.pwrite(fd, b"XY", 2)
        assert made.safe_bytes(FILE) == 2
        made.lose_power()
        found.add(content(made))
    assert b"before" in found
    assert found <= {b"before", b"be", b"beX", b"beXY"}


def test_sync_covers_data_written_before_it_started() -> None:
    made = files()
    fd = made.open(FILE, _CREATE)
    sync_folder(made)
    made.pwrite(fd, b"before", 0)
    made.begin_sync(fd)
    made.pwrite(fd, b"after", 6)
    made.fdatasync(fd)
    assert made.safe_bytes(FILE) == 6
    made.fdatasync(fd)
    assert made.safe_bytes(FILE) == 11


def test_sync_that_its_process_never_completed_does_not_limit_later_ones() -> None:
    made = files()
    fd = made.open(FILE, _CREATE)
    sync_folder(made)
    made.pwrite(fd, b"before", 0)
    made.begin_sync(fd)
    made.pwrite(fd, b"after", 6)
    made.end_process()
    made.fdatasync(made.open(FILE, os.O_RDWR))
    assert made.safe_bytes(FILE) == 11


def test_sync_does_not_cover_a_truncation_started_after_it() -> None:
    file = StoredFile(b"abcdef")
    file.write(b"gh", 6)
    file.begin_sync()
    file.cut(3)
    file.write(b"XYZ", 3)
    file.sync()
    assert file.safe_bytes() == 3
    assert file.on_disk().startswith(b"abc")
    file.sync()
    assert file.on_disk() == b"abcXYZ"


@pytest.mark.parametrize("seed", [1, 2, 5])
def test_pages_count_as_written_and_are_lost_after_a_failed_sync(seed: int) -> None:
    made = files(seed)
    fd = made.open(FILE, _CREATE)
    sync_folder(made)
    made.failing_sync = errno.ENOSPC
    made.pwrite(fd, b"lost", 0)
    with pytest.raises(OSError, match="ENOSPC"):
        made.fdatasync(fd)
    made.pwrite(fd, b"kept", 4)
    made.fdatasync(fd)
    assert content(made) == b"lostkept", "the page cache has all of it"
    assert made.durable_content(FILE) != b"lostkept", "the disk has not"
    made.fadvise_dontneed(fd)
    assert content(made).endswith(b"kept")
    assert content(made) != b"lostkept"


def test_older_image_is_restored_completely() -> None:
    made = files()
    fd = made.open(FILE, _CREATE)
    made.pwrite(fd, b"old", 0)
    made.fsync(fd)
    sync_folder(made)
    image = made.image()
    made.pwrite(fd, b"new", 0)
    made.fsync(fd)
    made.unlink(FILE)
    sync_folder(made)
    made.end_process()
    made.restore(image)
    assert content(made) == b"old"


def test_power_is_lost_at_any_call() -> None:
    def five_syncs(made: SimulatedFiles) -> None:
        for _ in range(5):
            made.fsync(made.open(FILE, _CREATE))

    for calls in range(4):
        made = files()
        made.calls_left = calls
        with pytest.raises(PowerLost):
            five_syncs(made)
        made.lose_power()
        assert made.calls_left is None


def test_full_disk_is_reported_at_a_write_or_at_a_sync() -> None:
    made = files()
    fd = made.open(FILE, _CREATE)
    made.full = True
    with pytest.raises(OSError, match="ENOSPC"):
        made.pwrite(fd, b"x", 0)
    made.full, made.full_at_sync = False, True
    made.pwrite(fd, b"x", 0)
    with pytest.raises(OSError, match="ENOSPC"):
        made.fdatasync(fd)


OUTSIDE = {"directory_lock", "disk_reserve", "failure_latch", "kept_copy", "file_system"}
"""What is no part of a replica's files, or copies them for people."""
CONSTANTS = ("O_", "strerror")
"""Names that call no file: flags, and the text of an error."""


def test_storage_calls_the_simulated_file_system_only() -> None:
    """A call past it would be on a real disk in the simulation, and on one that loses nothing."""
    found = []
    for path in Path(storage.__path__[0]).glob("*.py"):
        if path.stem in OUTSIDE:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
                continue
            if node.value.id in {"os", "shutil"} and not node.attr.startswith(CONSTANTS):
                found.append(f"{path.name}:{node.lineno} {node.value.id}.{node.attr}")
    assert found == []
