"""Directories of Kafka's static quorums: upgraded in place, once, and the vote is never lost (K853-01)."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import pytest

from quorum_node.raft.quorum_state import QuorumState
from quorum_node.records.identity import ReplicaKey, uuid_text
from quorum_node.storage import meta_properties, quorum_state
from quorum_node.storage.directory import is_formatted, open_directory
from quorum_node.storage.errors import StorageFailure
from quorum_node.storage.failure_latch import FailureLatch
from quorum_node.storage.file_system import FileSystem
from quorum_node.storage.partition_directory import partition_directory
from quorum_node.storage.replica_uuid import give_replica_uuid

V0 = (
    '{"clusterId":"","leaderId":-1,"leaderEpoch":5,"votedId":3,"appliedOffset":0,'
    '"currentVoters":[{"voterId":1},{"voterId":3}],"data_version":0}'
)
VOTED = QuorumState(leader_epoch=5, leader_id=-1, voted=ReplicaKey(3, None))


class Crash(Exception):
    pass


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    partition = partition_directory(tmp_path, 0)
    partition.mkdir()
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=2\ncluster.id=kafka\n")
    (partition / "quorum-state").write_text(V0)
    return tmp_path


@pytest.fixture
def fresh() -> Callable[[], UUID]:
    numbers: Iterator[int] = iter(range(1, 100))
    return lambda: UUID(int=next(numbers))


def start(path: Path, fresh: Callable[[], UUID]) -> tuple[UUID, QuorumState]:
    latch = FailureLatch(None)
    give_replica_uuid(path, partition_directory(path, 0), fresh)
    assert is_formatted(path, latch)
    opened = open_directory(path, node_id=2, cluster_id=None, segment_bytes=1 << 20, latch=latch)
    opened.first.log.close()
    return opened.meta.directory_id, opened.first.state


@pytest.mark.requirement("K853-01")
def test_replica_gets_one_permanent_uuid_and_keeps_its_vote(
    directory: Path, fresh: Callable[[], UUID]
) -> None:
    for _ in range(3):
        assert start(directory, fresh) == (UUID(int=1), VOTED)
    document = json.loads((partition_directory(directory, 0) / "quorum-state").read_text())
    assert document["data_version"] == 1
    assert document["votedId"] == 3
    assert document["votedDirectoryId"] == uuid_text(None)
    assert document["replicaUuid"] == uuid_text(UUID(int=1))
    text = (directory / "meta.properties").read_text()
    assert "cluster.id=kafka" in text
    assert "node.id=2" in text


@pytest.mark.requirement("K853-01")
@pytest.mark.parametrize("crash_at", range(3))
def test_crash_during_the_upgrade_is_completed_by_the_next_start(
    directory: Path,
    fresh: Callable[[], UUID],
    crash_at: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A crash before or after every replacement of a file."""
    replacements = 0

    def counted(real: Callable[..., None]) -> Callable[..., None]:
        def replace_or_die(path: Path, content: bytes, files: FileSystem) -> None:
            nonlocal replacements
            if replacements == crash_at:
                raise Crash
            replacements += 1
            real(path, content, files)

        return replace_or_die

    with monkeypatch.context() as patch:
        for module in (meta_properties, quorum_state):
            patch.setattr(module, "replace_file", counted(module.replace_file))
        try:
            first = start(directory, fresh)
        except Crash:
            assert crash_at < 2
        else:
            assert crash_at == 2
            assert first == (UUID(int=1), VOTED)
    uuid, state = start(directory, fresh)
    assert state == VOTED
    assert uuid == (UUID(int=2) if crash_at == 0 else UUID(int=1))
    assert start(directory, fresh) == (uuid, VOTED)


@pytest.mark.requirement("K853-01")
@pytest.mark.parametrize(
    "state", ['{"leaderId":-1,"leaderEpoch":5,"data_version":1}', None, "damaged", "[]"]
)
def test_no_uuid_is_generated_over_existing_data(
    directory: Path, fresh: Callable[[], UUID], state: str | None
) -> None:
    path = partition_directory(directory, 0) / "quorum-state"
    path.unlink()
    if state is not None:
        path.write_text(state)
    before = (directory / "meta.properties").read_bytes()
    assert give_replica_uuid(directory, partition_directory(directory, 0), fresh) is None
    assert (directory / "meta.properties").read_bytes() == before
    with pytest.raises(StorageFailure, match="damaged"):
        is_formatted(directory, FailureLatch(None))


def test_existing_uuid_is_kept(directory: Path, fresh: Callable[[], UUID]) -> None:
    text = f"version=1\nnode.id=2\ndirectory.id={uuid_text(UUID(int=50))}\n"
    (directory / "meta.properties").write_text(text)
    assert start(directory, fresh) == (UUID(int=50), VOTED)
    assert give_replica_uuid(directory / "absent", directory, fresh) is None
