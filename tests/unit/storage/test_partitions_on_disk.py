"""Several quorum partitions in one data directory, each with a UUID of its own."""

import shutil
from pathlib import Path
from uuid import UUID

import pytest

from quorum_node.storage.directory import (
    OpenDirectory,
    format_directory,
    is_formatted,
    open_directory,
)
from quorum_node.storage.errors import StorageFailure, WrongDirectory
from quorum_node.storage.failure_latch import FailureLatch
from quorum_node.storage.meta_properties import MetaProperties
from quorum_node.storage.partition_directory import partition_directory

ME = UUID(int=9)
NO_LATCH = FailureLatch(None)
THREE = MetaProperties(1, ME, "c", 3)


def open_with(path: Path, partitions: int = 3) -> OpenDirectory:
    return open_directory(
        path,
        node_id=1,
        cluster_id="c",
        segment_bytes=1 << 20,
        latch=NO_LATCH,
        partitions=partitions,
    )


def close(opened: OpenDirectory) -> list[UUID]:
    for partition in opened.partitions:
        partition.log.close()
    return [partition.replica_uuid for partition in opened.partitions]


@pytest.fixture
def formatted(tmp_path: Path) -> Path:
    assert not is_formatted(tmp_path, NO_LATCH)
    format_directory(tmp_path, THREE)
    assert is_formatted(tmp_path, NO_LATCH)
    return tmp_path


@pytest.mark.requirement("K595-31")
@pytest.mark.requirement("K853-01")
def test_every_partition_keeps_its_own_uuid(formatted: Path) -> None:
    first, again = close(open_with(formatted)), close(open_with(formatted))
    assert first == again
    assert first[0] == ME, "partition 0's is directory.id"
    assert len(set(first)) == 3


def test_cluster_id_is_stored_once_for_all_partitions(tmp_path: Path) -> None:
    format_directory(tmp_path, MetaProperties(1, ME, None, 3))
    opened = open_with(tmp_path)
    opened.remember_cluster_id("c")
    close(opened)
    reopened = open_with(tmp_path)
    assert reopened.meta == THREE
    close(reopened)


@pytest.mark.parametrize("partitions", [1, 2, 4])
def test_different_number_of_partitions_is_rejected(formatted: Path, partitions: int) -> None:
    with pytest.raises(WrongDirectory, match=f"quorum.partitions={partitions}, but .* for 3"):
        open_with(formatted, partitions)


def test_single_partition_keeps_the_kafka_file_unchanged(tmp_path: Path) -> None:
    format_directory(tmp_path, MetaProperties(1, ME, "c"))
    assert "partitions" not in (tmp_path / "meta.properties").read_text()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["__cluster_metadata-0", "meta.properties"]
    assert not (tmp_path / "__cluster_metadata-0" / "replica.properties").exists()
    close(open_with(tmp_path, 1))


@pytest.mark.parametrize(
    ("file", "text"),
    [("quorum-state", "a vote may be lost"), ("replica.properties", "identity .* is lost")],
)
def test_missing_file_of_one_partition_stops_the_start(
    formatted: Path, file: str, text: str
) -> None:
    (partition_directory(formatted, 2) / file).unlink()
    with pytest.raises(StorageFailure, match=text):
        open_with(formatted)


def test_missing_directory_of_one_partition_stops_the_start(formatted: Path) -> None:
    shutil.rmtree(partition_directory(formatted, 1))
    with pytest.raises(StorageFailure, match="__cluster_metadata-1"):
        open_with(formatted)


def test_swapped_directories_are_detected(formatted: Path) -> None:
    one, two = partition_directory(formatted, 1), partition_directory(formatted, 2)
    identity = (one / "replica.properties").read_bytes()
    (two / "replica.properties").write_bytes(identity)
    with pytest.raises(WrongDirectory, match="files of two replicas"):
        open_with(formatted)


def test_damaged_identity_is_a_storage_failure(formatted: Path) -> None:
    path = partition_directory(formatted, 1) / "replica.properties"
    path.write_bytes(b"version=1\nreplica.uuid=%%%\n")
    with pytest.raises(StorageFailure, match=r"replica\.properties is damaged"):
        open_with(formatted)
    path.write_bytes(b"version=2\nreplica.uuid=AAAAAAAAAAAAAAAAAAAACQ\n")
    with pytest.raises(WrongDirectory, match="has version 2"):
        open_with(formatted)


def test_interrupted_format_of_several_partitions_is_repeated(formatted: Path) -> None:
    (formatted / "meta.properties").unlink()
    (partition_directory(formatted, 2) / "quorum-state").unlink()
    assert not is_formatted(formatted, NO_LATCH)
    format_directory(formatted, THREE)
    assert len(set(close(open_with(formatted)))) == 3


def test_log_of_any_partition_without_identity_is_never_formatted(formatted: Path) -> None:
    close(open_with(formatted))
    (formatted / "meta.properties").unlink()
    with pytest.raises(StorageFailure, match="its identity is lost"):
        is_formatted(formatted, NO_LATCH)
