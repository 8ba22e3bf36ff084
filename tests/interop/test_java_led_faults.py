"""Faults in a quorum of two stock voters and one of this software: after each, two of the three continue."""

import re
import time
from pathlib import Path

import pytest

from quorum_node.protocol.apis import END_QUORUM_EPOCH
from quorum_node.protocol.elections import (
    EndQuorumEpochRequest,
    EndQuorumEpochRequestPartition,
    EndQuorumEpochRequestTopic,
    PreferredCandidate,
)
from quorum_node.records.identity import parse_uuid
from support.java_quorum import LOG_DIRECTORY, JavaController, JavaQuorum, assert_same_log
from support.local_quorum import LocalNode, wait_until
from support.one_request import ask

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(600)]

OURS = 7
COMPLAINTS = re.compile(r"^\d+ (?:ERROR|FATAL) (?!ControllerApis).*", re.MULTILINE)
"""ControllerApis logs each NotController answer of a leader change, its own controller's included."""


class MixedQuorum:
    """Two stock voters or more, and one of this software, a witness by default."""

    def __init__(self, root: Path, controllers: int = 2, **overrides: str) -> None:
        self.quorum = JavaQuorum(root, controllers)
        self.overrides = {"quorum_witness": "true", **overrides}
        self.written = 0

    def __enter__(self) -> "MixedQuorum":
        quorum = self.quorum
        quorum.__enter__()
        try:
            quorum.start()
            self.node = quorum.add_node(OURS, **self.overrides)
            self.node.start()
            quorum.wait_ready(self.node)
            quorum.add_controller(self.node)
            wait_until(lambda: quorum.local(self.node)["isVoter"], "ours is a voter")
        except BaseException:
            quorum.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self.quorum.__exit__(*exc)

    def write(self) -> None:
        """Something new is committed, and arrives at our node."""
        self.written += 1
        name = f"value-{self.written}"
        self.quorum.put(name, "x" * 100)
        self.quorum.wait_value(self.node, name, "x" * 100)

    def whole(self) -> None:
        """Every voter runs and has what the leader has."""

        def caught_up() -> bool:
            found = self.quorum.describe()
            ends = [each.log_end_offset for each in found.current_voters]
            return max(ends) - min(ends) <= 3

        wait_until(caught_up, "everyone has caught up", 90)

    def others(self, leader: JavaController) -> JavaController:
        """The stock voter that does not lead."""
        return next(each for each in self.quorum.controllers.values() if each is not leader)


def test_stock_leader_is_killed_and_stopped(tmp_path: Path) -> None:
    """Each time the other stock voter takes over: with our vote, and committing with our log."""
    with MixedQuorum(tmp_path) as mixed:
        quorum, node = mixed.quorum, mixed.node
        mixed.write()
        for end in (JavaController.kill, JavaController.terminate, JavaController.kill):
            before = quorum.describe()
            leader = quorum.controllers[before.leader_id]
            end(leader)
            mixed.write()
            after = quorum.describe()
            assert after.leader_id == mixed.others(leader).id
            assert after.leader_epoch > before.leader_epoch
            local = quorum.local(node)
            assert (local["leaderId"], local["role"]) == (after.leader_id, "follower")
            leader.start()
            mixed.whole()
            mixed.write()
        finish(mixed)


def test_voter_of_this_project_is_restarted_killed_and_frozen(tmp_path: Path) -> None:
    """It returns as the same voter, without an election: epoch and leader stay."""
    with MixedQuorum(tmp_path, quorum_witness="false") as mixed:
        quorum, node = mixed.quorum, mixed.node
        mixed.write()
        uuid = quorum.local(node)["replicaUuid"]
        before = quorum.describe()

        assert node.terminate() == 0
        quorum.put("without-ours", "1")
        node.start()
        quorum.wait_value(node, "without-ours", "1")
        node.kill()
        quorum.put("without-ours", "2")
        node.start()
        quorum.wait_value(node, "without-ours", "2")
        node.freeze()
        time.sleep(6)  # well beyond its fetch timeout: it will doubt the leader when it thaws
        node.thaw()
        mixed.write()
        mixed.whole()
        after = quorum.describe()
        assert (after.leader_id, after.leader_epoch) == (before.leader_id, before.leader_epoch)
        assert quorum.local(node)["replicaUuid"] == uuid == quorum.voters()[OURS]

        # It is not only there: with the other stock voter gone, nothing is committed without it.
        mixed.others(quorum.controllers[after.leader_id]).kill()
        mixed.write()
        finish(mixed, running=1)


def test_fourth_voter_replaces_a_failed_stock_voter(tmp_path: Path) -> None:
    """Three of four are needed: with one stock voter gone, nothing is committed without ours."""
    with MixedQuorum(tmp_path, controllers=3) as mixed:
        quorum = mixed.quorum
        mixed.write()
        mixed.others(quorum.leader).kill()
        mixed.write()
        mixed.node.freeze()
        frozen_at = leader_end(quorum)  # nothing behind it can have been acknowledged by ours
        wait_until(lambda: leader_end(quorum) > frozen_at, "the leader goes on writing")
        assert quorum.describe().high_watermark <= frozen_at
        mixed.node.thaw()
        mixed.write()
        finish(mixed)


def leader_end(quorum: JavaQuorum) -> int:
    """Log end offset of the leader."""
    found = quorum.describe()
    ends = {each.replica_id: each.log_end_offset for each in found.current_voters}
    return ends[found.leader_id]


def test_node_of_this_project_joins_a_stock_quorum_automatically(tmp_path: Path) -> None:
    """It requests to become a voter from the stock leader, and reports its admin endpoint afterwards."""
    with JavaQuorum(tmp_path) as quorum:
        quorum.start()
        node = quorum.add_node(OURS, controller_quorum_auto_join_enable="true")
        node.start()
        wait_until(lambda: OURS in quorum.voters(), "it has joined")
        shown = quorum.metadata_quorum("describe", "--status")
        assert f"ADMIN://127.0.0.1:{node.admin_port}" in shown
        quorum.put("after", "it joined")
        quorum.wait_value(node, "after", "it joined")


def test_stock_voters_follow_a_leader_of_this_project(tmp_path: Path) -> None:
    """For plain configs: they acknowledge, commit, and take over again. (Brokers need a controller there.)"""
    with MixedQuorum(tmp_path, quorum_witness="false") as mixed:
        quorum, node = mixed.quorum, mixed.node
        mixed.write()
        make_leader(quorum, node)
        body = {"value": "by a leader of ours"}
        for number in range(20):
            path = f"{node.admin_url}/v1/configs/broker/-/ours-{number}"
            assert quorum.client.put(path, json=body).status_code == 200
        mixed.others(quorum.controllers[1]).kill()
        assert quorum.client.put(path, json=body).status_code == 200, "with one stock voter left"
        mixed.others(quorum.controllers[1]).start()
        mixed.whole()
        assert quorum.describe().leader_id == OURS
        answer = quorum.get(node, "/v1/quorum")
        assert answer is not None
        stock = {voter["id"]: voter["stock"] for voter in answer.json()["voters"]}
        assert stock == {1: True, 2: True, OURS: False}
        refused = quorum.client.post(
            f"{node.admin_url}/v1/alter-quorum", json={"targetVoters": [OURS]}
        )
        assert (refused.status_code, refused.json()["code"]) == (409, "UNSUPPORTED")
        # Stock controllers name only controllers that have registered, so the tool has to query ours.
        shown = quorum.metadata_quorum("describe", "--replication", through=node)
        rows = shown.splitlines()
        assert sorted(row.split()[0] for row in rows[1:]) == ["1", "2", "7"]

        assert node.terminate() == 0
        quorum.put("after", "a stock leader again")
        assert quorum.describe().leader_id in (1, 2)
        node.start()
        quorum.wait_value(node, "after", "a stock leader again")
        quorum.wait_value(node, "ours-19", "by a leader of ours")
        finish(mixed)


def make_leader(quorum: JavaQuorum, node: LocalNode) -> None:
    """Send our node an EndQuorumEpoch in the name of the leader, until it has the log to be elected."""

    def leads() -> bool:
        found = quorum.describe()
        if found.leader_id == node.id:
            return True
        candidate = PreferredCandidate(
            candidate_id=node.id,
            candidate_directory_id=parse_uuid(quorum.local(node)["replicaUuid"]),
        )
        part = EndQuorumEpochRequestPartition(
            partition_index=0,
            leader_id=found.leader_id,
            leader_epoch=found.leader_epoch,
            preferred_candidates=(candidate,),
        )
        topic = EndQuorumEpochRequestTopic(topic_name="__cluster_metadata", partitions=(part,))
        request = EndQuorumEpochRequest(cluster_id=quorum.cluster_id, topics=(topic,))
        ask(("127.0.0.1", node.port), END_QUORUM_EPOCH, 1, request)
        return False

    wait_until(leads, "our node leads")


def finish(mixed: MixedQuorum, running: int = 2) -> None:
    """The logs are the same bytes, and no stock controller complained."""
    quorum = mixed.quorum
    mixed.write()
    stop_ours(mixed.node)
    controllers = [each for each in quorum.controllers.values() if each.is_running]
    assert len(controllers) == running
    for controller in controllers:
        shared = assert_same_log(mixed.node.data_dir / LOG_DIRECTORY, controller.log_directory)
        assert shared > 1000
        assert not COMPLAINTS.findall(controller.output)


def stop_ours(node: LocalNode) -> None:
    """Everything it has is in its files afterwards."""
    assert node.terminate() == 0
