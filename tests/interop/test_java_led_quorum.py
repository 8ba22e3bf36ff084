"""A node of ours as observer and voter of a quorum that stock Kafka controllers lead."""

import time
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


def joined(quorum: JavaQuorum, node_id: int = OURS, **overrides: str) -> LocalNode:
    """A node of ours that the stock tool has made a voter."""
    node = quorum.add_node(node_id, **overrides)
    node.start()
    quorum.wait_ready(node)
    quorum.add_controller(node)
    uuid = quorum.local(node)["replicaUuid"]
    assert quorum.voters()[node_id] == uuid
    wait_until(lambda: quorum.local(node)["isVoter"], "it knows that it is a voter")
    return node


def commits(quorum: JavaQuorum, seconds: float) -> int:
    """By how much the high watermark moves; a stock leader writes two records a second by itself."""
    before = quorum.describe().high_watermark
    time.sleep(seconds)  # a span is measured here, not a condition awaited
    return quorum.describe().high_watermark - before


@pytest.mark.requirement("K595-27", "K853-05")
def test_one_stock_controller_and_one_of_ours(tmp_path: Path) -> None:
    """Follows from an empty directory, is added, is needed for every commit, refuses writes, is removed."""
    with JavaQuorum(tmp_path) as quorum:
        quorum.start()
        java = quorum.controllers[1]
        quorum.put("first", "before it joined")
        node = quorum.add_node(OURS)
        node.start()
        quorum.wait_value(node, "first", "before it joined")
        assert not quorum.local(node)["isVoter"]
        quorum.add_controller(node)
        uuid = quorum.local(node)["replicaUuid"]
        assert quorum.voters() == {1: java.directory_id, OURS: uuid}

        quorum.put("second", "by two voters")
        node.freeze()
        frozen_at = quorum.describe().high_watermark
        end_offset = leader_end(quorum)
        wait_until(lambda: leader_end(quorum) > end_offset, "the leader goes on writing")
        assert quorum.describe().high_watermark <= frozen_at + 1, "committed without the second"
        node.thaw()
        quorum.put("third", "after the thaw")
        quorum.wait_value(node, "third", "after the thaw")

        refused = quorum.client.put(
            f"{node.admin_url}/v1/configs/broker/-/mine", json={"value": "x"}
        )
        assert (refused.status_code, refused.json()["code"]) == (409, "LEADER_IS_STOCK")
        assert f"127.0.0.1:{java.port}" in refused.json()["message"]

        quorum.remove_controller(OURS, uuid)
        assert quorum.voters() == {1: java.directory_id}
        quorum.put("fourth", "without it")
        quorum.wait_value(node, "fourth", "without it")
        assert not quorum.local(node)["isVoter"]
        assert node.terminate() == 0
        shared = assert_same_log(node.data_dir / LOG_DIRECTORY, java.log_directory)
        assert b"without it" in log_bytes(java.log_directory)[:shared]


def leader_end(quorum: JavaQuorum) -> int:
    """Log end offset of the leader."""
    found = quorum.describe()
    return next(
        each.log_end_offset for each in found.current_voters if each.replica_id == found.leader_id
    )
