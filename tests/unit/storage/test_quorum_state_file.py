"""quorum-state: Kafka's v1 JSON, private keys, upgrade of v0, and kill -9 at any instant."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from uuid import UUID

import pytest

from quorum_node.raft.quorum_state import QuorumState
from quorum_node.records.identity import Endpoint, ReplicaKey, Voter, uuid_text
from quorum_node.storage.errors import StorageFailure, WrongDirectory
from quorum_node.storage.quorum_state import QuorumStateFile

ME = UUID(int=77)
VOTERS = tuple(
    Voter(ReplicaKey(n, UUID(int=n)), (Endpoint("CONTROLLER", f"node-{n}", 9093),))
    for n in (1, 2, 3)
)
FULL = QuorumState(
    leader_epoch=9,
    leader_id=2,
    voted=ReplicaKey(2, UUID(int=2)),
    cluster_id="c",
    applied_offset=41,
    current_voters=VOTERS,
    target_voters=(VOTERS[0].key, ReplicaKey(4)),
    voters_offset=40,
    voters_epoch=8,
    formed=True,
)


@pytest.mark.requirement("K595-03")
@pytest.mark.parametrize("state", [FULL, QuorumState(), QuorumState(3, -1, ReplicaKey(1, None))])
def test_quorum_state_survives_a_round_trip(tmp_path: Path, state: QuorumState) -> None:
    file = QuorumStateFile(tmp_path, ME)
    assert file.load() is None
    file.save(state)
    assert QuorumStateFile(tmp_path, ME).load() == state


def test_keys_are_those_read_by_java(tmp_path: Path) -> None:
    QuorumStateFile(tmp_path, ME).save(FULL)
    document = json.loads((tmp_path / "quorum-state").read_text())
    assert document["data_version"] == 1
    assert (document["leaderId"], document["leaderEpoch"], document["votedId"]) == (2, 9, 2)
    assert document["votedDirectoryId"] == uuid_text(UUID(int=2))
    assert document["replicaUuid"] == uuid_text(ME)


@pytest.mark.requirement("K853-01")
def test_v0_is_upgraded_in_place_and_keeps_the_vote(tmp_path: Path) -> None:
    path = tmp_path / "quorum-state"
    path.write_text(
        '{"clusterId":"","leaderId":-1,"leaderEpoch":5,"votedId":3,"appliedOffset":0,'
        '"currentVoters":[{"voterId":1},{"voterId":3}],"data_version":0}'
    )
    state = QuorumStateFile(tmp_path, ME).load()
    assert state == QuorumState(leader_epoch=5, leader_id=-1, voted=ReplicaKey(3, None))
    document = json.loads(path.read_text())
    assert document["data_version"] == 1
    assert document["replicaUuid"] == uuid_text(ME)
    assert QuorumStateFile(tmp_path, ME).load() == state


@pytest.mark.requirement("K853-01")
def test_file_of_another_replica_is_rejected(tmp_path: Path) -> None:
    QuorumStateFile(tmp_path, ME).save(FULL)
    before = (tmp_path / "quorum-state").read_bytes()
    with pytest.raises(WrongDirectory, match="two replicas"):
        QuorumStateFile(tmp_path, UUID(int=78)).load()
    assert (tmp_path / "quorum-state").read_bytes() == before


STATES = [FULL, QuorumState(), QuorumState(7, -1, ReplicaKey(3, UUID(int=9)), "c", 90)]


@pytest.mark.requirement("K595-03")
@pytest.mark.parametrize("state", STATES)
def test_every_flipped_bit_is_detected(tmp_path: Path, state: QuorumState) -> None:
    file, path = QuorumStateFile(tmp_path, ME), tmp_path / "quorum-state"
    file.save(state)
    content = path.read_bytes()
    for position in range(len(content)):
        for bit in range(8):
            damaged = bytearray(content)
            damaged[position] ^= 1 << bit
            path.write_bytes(damaged)
            with pytest.raises(StorageFailure, match="damaged"):
                file.load()
            assert path.read_bytes() == damaged


@pytest.mark.parametrize("gone", [["crc32c"], ["privateVersion"]])
def test_missing_checksum_after_one_was_written_is_damage(tmp_path: Path, gone: list[str]) -> None:
    path = tmp_path / "quorum-state"
    QuorumStateFile(tmp_path, ME).save(FULL)
    document = json.loads(path.read_text())
    for key in gone:
        del document[key]
    path.write_text(json.dumps(document, separators=(",", ":")))
    with pytest.raises(StorageFailure, match="checksum"):
        QuorumStateFile(tmp_path, ME).load()


def test_truncated_or_duplicated_file_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "quorum-state"
    QuorumStateFile(tmp_path, ME).save(FULL)
    content = path.read_bytes()
    for damaged in (content[:-1], content + b"\n", content + content, content + bytes(3)):
        path.write_bytes(damaged)
        with pytest.raises(StorageFailure, match="damaged"):
            QuorumStateFile(tmp_path, ME).load()


OLDER = {
    "leaderId": 2,
    "leaderEpoch": 9,
    "votedId": 2,
    "votedDirectoryId": uuid_text(UUID(int=2)),
    "data_version": 1,
}
"""As stock Kafka writes it."""
OWN = {
    **OLDER,
    "clusterId": "c",
    "appliedOffset": 41,
    "committedVoters": [],
    "votersOffset": 40,
    "votersEpoch": 8,
    "formed": True,
    "replicaUuid": uuid_text(ME),
}
"""As this project wrote it before it wrote checksums."""


@pytest.mark.parametrize("document", [OLDER, OWN, {**OWN, "targetVoters": []}])
def test_file_without_a_checksum_is_accepted_once_and_gets_one(
    tmp_path: Path, document: dict[str, object]
) -> None:
    path = tmp_path / "quorum-state"
    path.write_text(json.dumps(document, separators=(",", ":")))
    state = QuorumStateFile(tmp_path, ME).load()
    assert state is not None
    assert (state.leader_epoch, state.voted) == (9, ReplicaKey(2, UUID(int=2)))
    assert "crc32c" in json.loads(path.read_text())
    assert QuorumStateFile(tmp_path, ME).load() == state


def test_file_without_a_checksum_accepts_only_the_keys_of_its_writer(tmp_path: Path) -> None:
    """A damaged key name would otherwise mean a default, such as no target voters."""
    path = tmp_path / "quorum-state"
    whole = json.dumps(OWN, separators=(",", ":"))
    assert whole.count("appliedOffset") == 1
    for text in (
        whole.replace("appliedOffset", "appliedOffsdt"),
        whole.replace("votersEpoch", "votersOffset"),
        json.dumps({key: value for key, value in OLDER.items() if key != "votedDirectoryId"}),
    ):
        path.write_text(text)
        with pytest.raises(StorageFailure, match="damaged"):
            QuorumStateFile(tmp_path, ME).load()
        assert path.read_text() == text


def test_full_disk_does_not_prevent_reading_an_older_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "quorum-state"
    path.write_text(json.dumps(OLDER))

    def refuse(fd: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", refuse)
    state = QuorumStateFile(tmp_path, ME).load()
    assert state is not None
    assert state.leader_epoch == 9


@pytest.mark.parametrize(
    "content",
    ["", "{}", "[]", "null", '{"data_version":1}', "\0" * 50, "[" * 100_000, '{"a":' * 100_000],
)
def test_damaged_file_is_a_storage_failure(tmp_path: Path, content: str) -> None:
    (tmp_path / "quorum-state").write_text(content)
    with pytest.raises(StorageFailure, match="damaged"):
        QuorumStateFile(tmp_path, ME).load()
    assert (tmp_path / "quorum-state").read_text() == content


@pytest.mark.parametrize("key", ["leaderId", "leaderEpoch", "votedId", "votersOffset"])
@pytest.mark.parametrize("value", [-2, 1.5, True, "1", None, float("inf"), 1 << 63])
def test_wrong_number_without_checksum_is_damage(tmp_path: Path, key: str, value: object) -> None:
    text = json.dumps({**OWN, key: value})
    (tmp_path / "quorum-state").write_text(text)
    with pytest.raises(StorageFailure, match="damaged"):
        QuorumStateFile(tmp_path, ME).load()
    assert (tmp_path / "quorum-state").read_text() == text


WRITER = """
import sys
from pathlib import Path
from uuid import UUID
sys.path[:0] = sys.argv[2:]
from quorum_node.raft.quorum_state import QuorumState
from quorum_node.records.identity import ReplicaKey
from quorum_node.storage.quorum_state import QuorumStateFile
file = QuorumStateFile(Path(sys.argv[1]), UUID(int=77))
state = file.load() or QuorumState()
for epoch in range(state.leader_epoch + 1, 1 << 30):
    file.save(QuorumState(epoch, -1, ReplicaKey(epoch % 7, UUID(int=epoch))))
    print(epoch, flush=True)
"""


@pytest.mark.requirement("K595-03")
def test_kill_at_any_point_leaves_a_complete_and_recent_state(tmp_path: Path) -> None:
    for round_number in range(10):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), *sys.path],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        output = [int(process.stdout.readline()) for _ in range(3 + round_number)]
        process.send_signal(signal.SIGKILL)
        output += [int(line) for line in process.communicate()[0].split()]
        state = QuorumStateFile(tmp_path, ME).load()
        assert state is not None
        assert output[-1] <= state.leader_epoch <= output[-1] + 1
        assert state.voted == ReplicaKey(state.leader_epoch % 7, UUID(int=state.leader_epoch))
