"""quorum-state: Kafka's v1 JSON, private keys, upgrade of v0, and kill -9 at any instant."""

import json
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
def test_everything_comes_back(tmp_path: Path, state: QuorumState) -> None:
    file = QuorumStateFile(tmp_path, ME)
    assert file.load() is None
    file.save(state)
    assert QuorumStateFile(tmp_path, ME).load() == state


def test_the_keys_that_java_reads(tmp_path: Path) -> None:
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
def test_another_replicas_file_is_refused(tmp_path: Path) -> None:
    QuorumStateFile(tmp_path, ME).save(FULL)
    before = (tmp_path / "quorum-state").read_bytes()
    with pytest.raises(WrongDirectory, match="two replicas"):
        QuorumStateFile(tmp_path, UUID(int=78)).load()
    assert (tmp_path / "quorum-state").read_bytes() == before


@pytest.mark.parametrize("content", ["", "{}", "[]", "null", '{"data_version":1}', "\0" * 50])
def test_a_damaged_file_is_a_storage_failure(tmp_path: Path, content: str) -> None:
    (tmp_path / "quorum-state").write_text(content)
    with pytest.raises(StorageFailure, match="damaged"):
        QuorumStateFile(tmp_path, ME).load()
    assert (tmp_path / "quorum-state").read_text() == content


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
def test_a_kill_at_any_instant_leaves_a_whole_and_recent_state(tmp_path: Path) -> None:
    for round_number in range(10):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), *sys.path],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        told = [int(process.stdout.readline()) for _ in range(3 + round_number)]
        process.send_signal(signal.SIGKILL)
        told += [int(line) for line in process.communicate()[0].split()]
        state = QuorumStateFile(tmp_path, ME).load()
        assert state is not None
        assert told[-1] <= state.leader_epoch <= told[-1] + 1
        assert state.voted == ReplicaKey(state.leader_epoch % 7, UUID(int=state.leader_epoch))
