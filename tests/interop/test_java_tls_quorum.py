"""Stock controllers and ours in one quorum with mutual TLS: each kind follows the other, and each leads."""

from pathlib import Path

import pytest

from support.java_quorum import LOG_DIRECTORY, assert_same_log, log_bytes
from support.local_quorum import wait_until
from support.secured_java_quorum import SecuredJavaQuorum

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400), pytest.mark.long]


def test_stock_members_and_members_of_this_project_follow_each_other_over_tls(
    tmp_path: Path,
) -> None:
    with SecuredJavaQuorum(tmp_path) as quorum:
        quorum.start()
        java = quorum.controllers[1]
        quorum.put("first", "led by the stock one")
        ours = [
            quorum.add_node(node_id, controller_quorum_auto_join_enable="true")
            for node_id in (7, 8)
        ]
        for number, node in enumerate(ours):
            node.start()
            wait_until(
                lambda node=node: node.id in quorum.voters(), f"node {node.id} is a voter", 120
            )
            quorum.put(f"with-{number + 2}-voters", "led by the stock one")
        assert quorum.leader_id == java.id

        java.kill()
        quorum.put("second", "led by one of ours")
        epoch = quorum.describe().leader_epoch
        assert quorum.leader_id in (7, 8)
        java.start()

        def follows() -> bool:
            found = quorum.describe()
            ends = {each.replica_id: each.log_end_offset for each in found.current_voters}
            return ends.get(java.id, -1) >= found.high_watermark

        wait_until(follows, "the stock one follows ours", 120)
        quorum.put("third", "led by one of ours")
        wait_until(follows, "it goes on", 60)
        assert quorum.describe().leader_epoch == epoch, "there was an election"

        for node in ours:
            assert node.terminate() == 0
        java.terminate()
        for node in ours:
            shared = assert_same_log(node.data_dir / LOG_DIRECTORY, java.log_directory)
            assert b"led by one of ours" in log_bytes(java.log_directory)[:shared]
        assert not any("is refused at listener" in node.log_text for node in ours)
