"""A node of ours as observer and voter of a quorum that stock Kafka controllers lead."""

from pathlib import Path

import pytest

from support.java_quorum import (
    LOG_DIRECTORY,
    JavaQuorum,
    assert_same_log,
    log_bytes,
)
from support.local_quorum import LocalNode, wait_until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

OURS = 7


@pytest.mark.long
@pytest.mark.requirement("K853-05")
def test_quorum_of_one_stock_controller_and_one_node_of_this_project(tmp_path: Path) -> None:
    """Ours follows from an empty directory, is added, is needed for every commit, elects, is removed."""
    with JavaQuorum(tmp_path) as quorum:
        quorum.start()
        java = quorum.controllers[1]
        quorum.put("first", "before it joined")
        node = quorum.add_node(OURS, quorum_witness="true")
        node.start()
        quorum.wait_value(node, "first", "before it joined")
        assert not quorum.local(node)["isVoter"]
        wait_until(lambda: registered_ids(quorum, node) >= {1, OURS}, "both are registered")
        quorum.add_controller(node)
        uuid = quorum.local(node)["replicaUuid"]
        assert quorum.voters() == {1: java.directory_id, OURS: uuid}

        quorum.put("second", "by two voters")
        node.freeze()
        frozen_at = leader_end(quorum)  # nothing behind it can have been acknowledged by ours
        wait_until(lambda: leader_end(quorum) > frozen_at, "the leader goes on writing")
        assert quorum.describe().high_watermark <= frozen_at, "committed without the second"
        node.thaw()
        quorum.put("third", "after the thaw")
        quorum.wait_value(node, "third", "after the thaw")

        refused = quorum.client.put(
            f"{node.admin_url}/v1/configs/broker/-/mine", json={"value": "x"}
        )
        assert (refused.status_code, refused.json()["code"]) == (409, "LEADER_IS_STOCK")
        assert f"127.0.0.1:{java.port}" in refused.json()["message"]

        before = quorum.describe()
        java.kill()
        wait_until(
            lambda: "witness, which never becomes a candidate" in readiness(quorum, node),
            "it says so",
        )
        java.start()
        quorum.put("elected", "with the vote of ours")
        after = quorum.describe()
        assert (after.leader_id, after.leader_epoch > before.leader_epoch) == (1, True)

        quorum.remove_controller(OURS, uuid)
        assert quorum.voters() == {1: java.directory_id}
        quorum.put("fourth", "without it")
        quorum.wait_value(node, "fourth", "without it")
        assert not quorum.local(node)["isVoter"]
        assert node.terminate() == 0
        shared = assert_same_log(node.data_dir / LOG_DIRECTORY, java.log_directory)
        assert b"without it" in log_bytes(java.log_directory)[:shared]


def readiness(quorum: JavaQuorum, node: LocalNode) -> str:
    """The response of /readyz."""
    answer = quorum.get(node, "/readyz")
    return str(answer.json()["reason"]) if answer is not None else ""


def registered_ids(quorum: JavaQuorum, node: LocalNode) -> set[int]:
    """Controllers that have registered, by the log of a node."""
    answer = quorum.get(node, "/v1/log?fromOffset=0&maxRecords=5000")
    assert answer is not None
    return {
        each["fields"]["controllerId"]
        for each in answer.json()["records"]
        if each["type"] == "RegisterControllerRecord"
    }


def leader_end(quorum: JavaQuorum) -> int:
    """Log end offset of the leader."""
    found = quorum.describe()
    return next(
        each.log_end_offset for each in found.current_voters if each.replica_id == found.leader_id
    )
