"""meta.properties, partition.metadata, the failure latch, and the reserve of free bytes."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from uuid import UUID

import pytest

from quorum_node.java_properties import parse_properties
from quorum_node.records.identity import uuid_text
from quorum_node.storage import failure_latch
from quorum_node.storage.directory import is_formatted
from quorum_node.storage.disk_reserve import DiskReserve
from quorum_node.storage.errors import StorageFailure, WrongDirectory
from quorum_node.storage.failure_latch import FailureLatch
from quorum_node.storage.meta_properties import (
    MetaProperties,
    check_identity,
    give_checksum,
    read_meta_properties,
    write_meta_properties,
)
from quorum_node.storage.partition_metadata import ensure_partition_metadata
from quorum_node.storage.replica_identity import read_replica_identity, write_replica_identity

META = MetaProperties(3, UUID(int=5), "cluster-a")


@pytest.mark.parametrize("meta", [META, MetaProperties(1, UUID(int=1))])
def test_meta_properties_survive_a_round_trip(tmp_path: Path, meta: MetaProperties) -> None:
    assert read_meta_properties(tmp_path) is None
    write_meta_properties(tmp_path, meta)
    assert read_meta_properties(tmp_path) == meta


def test_meta_properties_written_by_java_are_read(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text(
        "#\n#Sat Nov 21 10:00:00 UTC 2026\ncluster.id=cluster-a\n"
        f"directory.id={uuid_text(UUID(int=5))}\nnode.id=3\nversion=1\n"
    )
    assert read_meta_properties(tmp_path) == META


def test_meta_properties_written_by_java_get_a_checksum(tmp_path: Path) -> None:
    path = tmp_path / "meta.properties"
    older = f"cluster.id=cluster-a\ndirectory.id={uuid_text(UUID(int=5))}\nnode.id=3\nversion=1\n"
    path.write_text(older)
    give_checksum(tmp_path, META)
    content = path.read_text()
    assert content != older
    assert parse_properties(content) == parse_properties(older)  # Java and older nodes see the same
    assert read_meta_properties(tmp_path) == META
    give_checksum(tmp_path, META)
    assert path.read_text() == content


def flips(content: bytes) -> Iterator[bytes]:
    for position in range(len(content)):
        for bit in range(8):
            damaged = bytearray(content)
            damaged[position] ^= 1 << bit
            yield bytes(damaged)


@pytest.mark.requirement("K595-05")
@pytest.mark.parametrize(
    ("name", "write", "read"),
    [
        ("meta.properties", partial(write_meta_properties, meta=META), read_meta_properties),
        (
            "replica.properties",
            partial(write_replica_identity, replica_uuid=UUID(int=5)),
            read_replica_identity,
        ),
    ],
)
def test_every_flipped_bit_of_an_identity_is_damage(
    tmp_path: Path,
    name: str,
    write: Callable[[Path], None],
    read: Callable[[Path], object],
) -> None:
    """Not a replica of another node or cluster: that is a wrong mount, and nothing is repaired then."""
    write(tmp_path)
    for damaged in flips((tmp_path / name).read_bytes()):
        (tmp_path / name).write_bytes(damaged)
        with pytest.raises(StorageFailure, match="damaged"):
            read(tmp_path)


@pytest.mark.requirement("K595-05")
def test_other_node_or_cluster_is_rejected() -> None:
    check_identity(META, Path("/d"), 3, "cluster-a")
    check_identity(META, Path("/d"), 3, None)
    with pytest.raises(WrongDirectory, match=r"node\.id=3.*node\.id=4"):
        check_identity(META, Path("/d"), 4, None)
    with pytest.raises(WrongDirectory, match=r"cluster\.id=cluster-a.*cluster\.id=cluster-b"):
        check_identity(META, Path("/d"), 3, "cluster-b")


@pytest.mark.parametrize("content", ["version=1\nnode.id=x\n", "", "version=1\nnode.id=3\n"])
def test_damaged_meta_properties_are_rejected(tmp_path: Path, content: str) -> None:
    (tmp_path / "meta.properties").write_text(content)
    with pytest.raises(StorageFailure, match="damaged"):
        read_meta_properties(tmp_path)


def test_partition_metadata(tmp_path: Path) -> None:
    ensure_partition_metadata(tmp_path)
    ensure_partition_metadata(tmp_path)
    text = (tmp_path / "partition.metadata").read_text()
    assert text == "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n"
    for other in ("version: 0\ntopic_id: other\n", text.replace("0", "1", 1), text + "x"):
        (tmp_path / "partition.metadata").write_text(other)
        with pytest.raises(StorageFailure, match="does not name"):
            ensure_partition_metadata(tmp_path)


def test_first_failure_stays_latched(tmp_path: Path) -> None:
    latch = FailureLatch(tmp_path / "failed")
    assert latch.read() is None
    latch.write('{"message": "EIO on write"}')
    latch.write('{"message": "later"}')
    assert FailureLatch(tmp_path / "failed").read() == "EIO on write"
    (tmp_path / "failed").write_text("not json")
    assert latch.read() == "not json"
    (tmp_path / "failed").write_text("")
    assert latch.read() is not None
    (tmp_path / "failed").write_text("[" * 100_000)
    assert latch.read() is not None
    nowhere = FailureLatch(None)
    nowhere.write("x")
    assert nowhere.read() is None


def test_failure_is_latched_on_the_data_volume_too(tmp_path: Path) -> None:
    """So the failure goes where the disk goes: into another pod, or under a process without a latch file."""
    data, beside = tmp_path / "data", tmp_path / "run" / "failed"
    data.mkdir()
    beside.parent.mkdir()
    latch = FailureLatch(beside, data)
    latch.mark_data('{"message": "EIO on write"}', 5)
    assert latch.read() is None
    assert list(data.iterdir()) == []  # not formatted: perhaps a volume that is not mounted
    write_meta_properties(data, META)
    latch.mark_data('{"message": "EIO on write"}', 5)
    latch.mark_data('{"message": "later"}', 5)
    assert latch.read() == "EIO on write"
    assert FailureLatch(None, data).read() == "EIO on write"
    assert FailureLatch(beside, tmp_path / "another").read() is None
    assert is_formatted(data, FailureLatch(None))
    assert latch.places() == f"{beside} and {data / 'storage-failed'}"


def test_unwritable_data_volume_does_not_delay_the_latch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_meta_properties(tmp_path, META)

    def hang(path: Path, content: bytes) -> None:
        time.sleep(60)

    def refuse(path: Path, content: bytes) -> None:
        raise StorageFailure("cannot replace it: EROFS")

    began = time.monotonic()
    for instead in (hang, refuse):
        monkeypatch.setattr(failure_latch, "replace_file", instead)
        FailureLatch(None, tmp_path).mark_data("EIO", 0.05)
    assert time.monotonic() - began < 20
    assert FailureLatch(None, tmp_path).read() is None


def test_format_is_recorded_beside_the_latch(tmp_path: Path) -> None:
    latch = FailureLatch(tmp_path / "failed")
    assert latch.formatted_identity() is None
    latch.mark_formatted("3 abc")
    assert FailureLatch(tmp_path / "failed").formatted_identity() == "3 abc"


def test_disk_reserve(tmp_path: Path) -> None:
    roomy = DiskReserve(tmp_path, 1)
    assert not roomy.measure()
    assert roomy.free_bytes > 0
    tight = DiskReserve(tmp_path, 1 << 60)
    assert tight.measure()
    assert tight.low
    assert not tight.measure()
    with pytest.raises(StorageFailure):
        DiskReserve(tmp_path / "absent", 1).measure()
