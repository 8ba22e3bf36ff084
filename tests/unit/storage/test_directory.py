"""Formatting and opening a data directory: once, and never over anything."""

import os
from pathlib import Path
from uuid import UUID

import pytest

from quorum_node.raft.quorum_state import QuorumState
from quorum_node.records.batches import Record, encode_batch
from quorum_node.storage.directory import (
    OpenDirectory,
    format_directory,
    is_formatted,
    open_directory,
)
from quorum_node.storage.errors import StorageFailure, WrongDirectory
from quorum_node.storage.failure_latch import FailureLatch
from quorum_node.storage.meta_properties import MetaProperties

ME = UUID(int=9)
NO_LATCH = FailureLatch(None)


def open_as(
    path: Path, node_id: int = 1, cluster_id: str | None = "c", latch: FailureLatch = NO_LATCH
) -> OpenDirectory:
    return open_directory(
        path, node_id=node_id, cluster_id=cluster_id, segment_bytes=1 << 20, latch=latch
    )


def content_of(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


def append_one(opened: OpenDirectory) -> None:
    base = opened.first.log.end_offset
    data = encode_batch(
        base_offset=base, leader_epoch=1, timestamp_ms=1, records=[Record(None, b"x")]
    )
    opened.first.log.append(data, base, base + 1, 1)
    opened.first.log.flush()


@pytest.fixture
def formatted(tmp_path: Path) -> Path:
    (tmp_path / "lost+found").mkdir()
    assert not is_formatted(tmp_path, NO_LATCH)
    format_directory(tmp_path, MetaProperties(1, ME, "c"))
    assert is_formatted(tmp_path, NO_LATCH)
    return tmp_path


@pytest.mark.requirement("K853-01")
def test_replica_uuid_survives_restarts(formatted: Path) -> None:
    for _ in range(3):
        opened = open_as(formatted)
        assert opened.meta == MetaProperties(1, ME, "c")
        assert opened.first.state == QuorumState(cluster_id="c")
        opened.first.log.close()


@pytest.mark.requirement("K595-05")
@pytest.mark.parametrize(("node_id", "cluster_id"), [(2, "c"), (1, "other")])
def test_other_identity_is_rejected_and_nothing_is_overwritten(
    formatted: Path, node_id: int, cluster_id: str
) -> None:
    before = content_of(formatted)
    with pytest.raises(WrongDirectory):
        open_as(formatted, node_id, cluster_id)
    assert content_of(formatted) == before


@pytest.mark.requirement("K595-05")
def test_discovered_cluster_id_is_kept_and_never_replaced(tmp_path: Path) -> None:
    format_directory(tmp_path, MetaProperties(1, ME))
    opened = open_as(tmp_path, cluster_id=None)
    opened.remember_cluster_id("c")
    opened.remember_cluster_id("c")
    with pytest.raises(WrongDirectory):
        opened.remember_cluster_id("d")
    opened.first.log.close()
    reopened = open_as(tmp_path)
    assert reopened.meta.cluster_id == "c"
    reopened.first.log.close()


@pytest.mark.requirement("K853-01")
def test_data_without_identity_is_never_formatted(formatted: Path) -> None:
    opened = open_as(formatted)
    append_one(opened)
    opened.first.log.close()
    (formatted / "meta.properties").unlink()
    before = content_of(formatted)
    with pytest.raises(StorageFailure, match="its identity is lost"):
        is_formatted(formatted, NO_LATCH)
    assert content_of(formatted) == before


def test_directory_with_foreign_files_is_not_formatted(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("x")
    with pytest.raises(StorageFailure, match="precious"):
        is_formatted(tmp_path, NO_LATCH)


def test_directory_is_not_formatted_twice_by_one_pod(tmp_path: Path) -> None:
    data, run = tmp_path / "data", tmp_path / "run"
    run.mkdir()
    latch = FailureLatch(run / "failed")
    assert not is_formatted(data, latch)
    format_directory(data, MetaProperties(1, ME, "c"))
    open_as(data, latch=latch).first.log.close()
    for path in sorted(data.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    with pytest.raises(StorageFailure, match="its data is lost"):
        is_formatted(data, latch)
    assert list(data.iterdir()) == []


def test_interrupted_format_is_repeated(formatted: Path) -> None:
    os.unlink(formatted / "meta.properties")
    (formatted / "meta.properties.tmp").write_text("half")
    assert not is_formatted(formatted, NO_LATCH)
    format_directory(formatted, MetaProperties(1, UUID(int=10), "c"))
    opened = open_as(formatted)
    assert opened.meta.directory_id == UUID(int=10)
    opened.first.log.close()


def test_log_shorter_than_the_applied_offset_is_a_failure(formatted: Path) -> None:
    opened = open_as(formatted)
    append_one(opened)
    opened.first.state_file.save(QuorumState(leader_epoch=1, cluster_id="c", applied_offset=2))
    opened.first.log.close()
    with pytest.raises(StorageFailure, match="acknowledged records are lost"):
        open_as(formatted)


def test_lost_quorum_state_is_a_failure(formatted: Path) -> None:
    (formatted / "__cluster_metadata-0" / "quorum-state").unlink()
    with pytest.raises(StorageFailure, match="a vote may be lost"):
        open_as(formatted)
