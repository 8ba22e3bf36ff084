"""An empty directory never passes for the replica that it once held.

Stock Kafka lets an operator format a wiped directory as its old self: the controller rejoins as the same voter with
an empty log, and can help to elect a leader that lacks what it once acknowledged. Here a voter is (id, UUID), and a
UUID is lost with its directory. A "new pod" below is a start with an empty directory and no memory of earlier starts.
"""

import shutil
from pathlib import Path
from uuid import UUID

import pytest

from quorum_node.exit_codes import ExitCode
from quorum_node.protocol.apis import VOTE
from quorum_node.protocol.elections import (
    VoteRequest,
    VoteRequestPartition,
    VoteRequestTopic,
    VoteResponse,
)
from quorum_node.records.identity import parse_uuid
from support.local_quorum import LocalNode, LocalQuorum, wait_until
from support.one_request import ask

pytestmark = [pytest.mark.slow, pytest.mark.requirement("K853-06")]


def wipe(node: LocalNode, *, new_pod: bool) -> None:
    """The disk is lost; a new pod keeps nothing beside it either."""
    shutil.rmtree(node.data_dir)
    if new_pod:
        for marker in ("failed", "formatted"):
            (node.root / marker).unlink(missing_ok=True)


def vote(
    node: LocalNode, cluster_id: str, candidate: int, epoch: int, voter_uuid: UUID
) -> VoteResponse:
    """Asks a node for its vote under a given directory id, for a candidate with a very long log."""
    partition = VoteRequestPartition(
        partition_index=0,
        replica_epoch=epoch,
        replica_id=candidate,
        replica_directory_id=UUID(int=99),
        voter_directory_id=voter_uuid,
        last_offset_epoch=epoch - 1,
        last_offset=1_000_000,
    )
    topic = VoteRequestTopic(topic_name="__cluster_metadata", partitions=(partition,))
    request = VoteRequest(cluster_id=cluster_id, voter_id=node.id, topics=(topic,))
    answer = ask(("127.0.0.1", node.port), VOTE, 2, request)
    assert isinstance(answer, VoteResponse)
    return answer


@pytest.mark.requirement("K853-02")
def test_wiped_voter_returns_as_observer_and_never_votes_under_its_old_key(
    tmp_path: Path,
) -> None:
    """Both ways in which an amnesiac could do harm: acknowledging a write, and electing a leader."""
    with LocalQuorum(tmp_path) as quorum:
        quorum.form()
        quorum.put("before", "kept")
        leader = quorum.leader
        wiped, other = (node for node in quorum.nodes.values() if node is not leader)
        if wiped.id == 1:  # the founder is the subject of the next test
            wiped, other = other, wiped
        old_uuid = quorum.local(wiped.id)["replicaUuid"]
        wiped.kill()
        wipe(wiped, new_pod=True)
        wiped.start()
        quorum.wait_caught_up(wiped.id)

        described = quorum.local(wiped.id)
        assert described["replicaUuid"] != old_uuid
        assert (described["role"], described["isVoter"]) == ("observer", False)
        keys = {(voter["id"], voter["uuid"]) for voter in quorum.describe()["voters"]}
        assert (wiped.id, old_uuid) in keys, "its old key is a voter until it is removed"
        assert (wiped.id, described["replicaUuid"]) not in keys

        # With the other voter gone, two of three keys are dead: the observer has the log, but no commit counts it.
        other.kill()
        stuck = quorum.answered(
            "PUT", "/v1/configs/topic/t/stuck", leader.id, json={"value": "x", "timeoutMs": 1500}
        )
        assert stuck.is_error, f"a write was acknowledged by an amnesiac: {stuck.text}"

        # Alone with a voter, it elects nobody: neither automatically nor when asked under its old key.
        leader.kill()
        other.start()
        wait_until(lambda: quorum.local(other.id)["role"] != "follower", "the voter saw no leader")
        epoch = quorum.local(other.id)["leaderEpoch"] + 5
        granted = vote(wiped, quorum.cluster_id, other.id, epoch, parse_uuid(old_uuid))
        partitions = [partition for topic in granted.topics for partition in topic.partitions]
        assert not any(partition.vote_granted for partition in partitions)
        for _ in range(20):
            assert quorum.local(other.id)["role"] != "leader"
            assert quorum.local(wiped.id)["isVoter"] is False

        leader.start()
        assert quorum.get("before") == "kept"
        quorum.put("after", "two true voters again")


def test_wiped_founder_forms_no_second_quorum(tmp_path: Path) -> None:
    """It alone may format a directory as a voter, and so it alone could pass for its old self."""
    with LocalQuorum(tmp_path) as quorum:
        quorum.form()
        quorum.put("before", "kept")
        founder = quorum.nodes[1]
        founder.kill()

        wipe(founder, new_pod=False)
        founder.start()
        assert founder.wait_exit() == ExitCode.STORAGE_FAILED
        assert "formatted it before" in founder.termination_message
        assert not any(founder.data_dir.iterdir()), "nothing was written"

        wipe(founder, new_pod=True)
        founder.start()
        assert founder.wait_exit() == ExitCode.IDENTITY_MISMATCH
        assert "founded only once" in founder.termination_message
        assert not any(founder.data_dir.iterdir()), "nothing was written"

        voters = {(voter["id"], voter["uuid"]) for voter in quorum.describe()["voters"]}
        assert (1, quorum.founder_uuid) in voters
        assert quorum.get("before") == "kept"
