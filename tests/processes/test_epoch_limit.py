"""A directory with an epoch that can't be raised, as one forged Vote left it before epochs were bounded."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from quorum_node.exit_codes import ExitCode
from quorum_node.raft.epoch_bound import MAX_EPOCH
from quorum_node.records.identity import parse_uuid
from quorum_node.storage.quorum_state import QuorumStateFile
from quorum_node.survivor import Survivor
from quorum_pipeline.__main__ import main
from support.local_quorum import LocalQuorum

pytestmark = pytest.mark.requirement("K595-07")


@pytest.mark.parametrize("epoch", [MAX_EPOCH, 2**31 - 1])
def test_epoch_at_the_limit_is_rejected_and_its_records_continue_in_a_new_cluster(
    epoch: int, make_quorum, tmp_path: Path
) -> None:
    old: LocalQuorum = make_quorum(1)
    old.form()
    old.put("kept", "1")
    node = old.nodes[1]
    uuid = parse_uuid(old.local(1)["replicaUuid"])
    assert node.terminate() == 0
    file = QuorumStateFile(node.data_dir / "__cluster_metadata-0", uuid)
    state = file.load()
    assert state is not None
    file.save(replace(state, leader_epoch=epoch, voted=None))
    end = old_end(node.data_dir)
    for arguments in ((), ("--recover", str(Survivor(uuid, 1, end)))):
        node.arguments = arguments
        node.start()
        assert node.wait_exit() == ExitCode.IDENTITY_MISMATCH, node.log_text[-2000:]
        message = json.loads(node.termination_message)["message"]
        assert "quorum-pipeline restore --cluster-id NEW" in message
        assert str(epoch) in message
    after = file.load()
    assert after is not None
    assert after.leader_epoch == epoch, "never lowered"

    new: LocalQuorum = make_quorum(2, initial_voters=1)
    first = new.nodes[1]
    restore = ["restore", "--log", str(node.data_dir), "--output", str(first.data_dir)]
    restore += ["--voter", f"1@{first.host}:{first.port}", "--cluster-id", new.cluster_id]
    assert main([*restore, "--replica-uuid", new.founder_uuid]) == 0
    first.start()
    assert new.wait_leader() == 1
    assert new.get("kept") == "1"
    assert new.local(1)["leaderEpoch"] < 100
    new.put("after", "2")
    new.nodes[2].start()
    new.add_voter(2)
    assert new.voter_ids() == [1, 2]


def old_end(data_dir: Path) -> int:
    """Anywhere in the log: the rejection comes before this is checked."""
    return len(list((data_dir / "__cluster_metadata-0").iterdir()))
