"""The messages of a node of a static quorum: while it waits, and when its configuration is no longer used."""

from pathlib import Path
from uuid import uuid4

import pytest
from structlog.testing import capture_logs

from quorum_node.configuration.node_config import NodeConfig, check_config
from quorum_node.quorumctl import render
from quorum_node.raft.messages import DiscoverBrokersRequest, DiscoverBrokersResponse
from quorum_node.raft.outputs import FormationDelayed
from quorum_node.records.batches import encode_batch
from quorum_node.records.control import VotersRecord, encode_control
from quorum_node.records.identity import ReplicaKey, Voter
from quorum_node.server.admin.views import catch_up, discovered_document
from quorum_node.server.ending.termination import Termination
from quorum_node.server.observing.node_events import ReplicaEvents
from quorum_node.server.starting.startup import open_replica
from support.raft.cores import Cores, formed_cores

THREE = ("1", "2", "3")


def config(path: Path, node_id: int = 1, **more: str) -> NodeConfig:
    pairs = {
        "node.id": str(node_id),
        "advertised.listeners": f"CONTROLLER://n{node_id}:9093",
        "admin.advertised.listener": f"http://n{node_id}:8080",
        "metadata.log.dir": str(path / "data"),
        "controller.quorum.voters": "1@n1:9093,2@n2:9093,3@n3:9093",
    }
    return check_config({**pairs, **{k.replace("_", "."): v for k, v in more.items()}})


def lines_of(tried: NodeConfig) -> str:
    with capture_logs() as lines:
        for partition in open_replica(tried, Termination()).partitions:
            partition.log.close()
    return "\n".join(str(line["event"]) for line in lines)


def test_readiness_message_names_missing_voters() -> None:
    cores = Cores()
    for name in ("1", "2"):
        cores.start(name, static=THREE)
    cores.advance(3000)
    waits = catch_up(cores.nodes["1"].replica.describe(cores.now_ms), cores.now_ms, 2000)
    assert not waits.caught_up
    assert "controller.quorum.voters has not formed yet" in waits.reason
    cores.start("3", static=THREE)
    cores.advance(5000)
    done = catch_up(cores.leader.replica.describe(cores.now_ms), cores.now_ms, 2000)
    assert done.caught_up


def test_every_reason_is_logged_once() -> None:
    events = ReplicaEvents()
    delays = [
        FormationDelayed(ReplicaKey(3), "it does not respond"),
        FormationDelayed(ReplicaKey(3), "it does not respond"),
        FormationDelayed(ReplicaKey(2), "it does not respond"),
    ]
    with capture_logs() as lines:
        for delay in delays:
            events.formation_delayed(delay)
    assert [line["voterId"] for line in lines] == [3, 2]
    assert "voter 3 is missing: it does not respond" in lines[0]["event"]


@pytest.mark.requirement("K595-19")
def test_log_reports_how_configured_voters_are_used(tmp_path: Path) -> None:
    assert "form one when all of them have answered" in lines_of(config(tmp_path))
    again = config(tmp_path, formation_bootstrap="false")
    assert "prevents this node from forming one" in lines_of(again)
    other = config(tmp_path / "other", node_id=9)
    assert "does not name node.id=9: this node is an observer" in lines_of(other)
    formed = config(tmp_path / "formed")
    known = (Voter(ReplicaKey(4, uuid4()), ()), Voter(ReplicaKey(1, uuid4()), ()))
    for partition in open_replica(formed, Termination()).partitions:
        batch = encode_batch(
            base_offset=0,
            leader_epoch=1,
            timestamp_ms=1,
            records=[encode_control(VotersRecord(known))],
            control=True,
        )
        partition.log.append(batch, 0, 1, 1)
        partition.log.flush()
        partition.log.close()
    words = lines_of(formed)
    assert "is out of date: the quorum has formed" in words
    assert str(known[0].key) in words
    assert "only voter ids that it names can be added" in words


def test_discovery_messages_are_readable() -> None:
    cores, one = formed_cores("1", "2")
    answer = cores.request(one, DiscoverBrokersRequest(ReplicaKey(-1)))
    assert isinstance(answer, DiscoverBrokersResponse)
    lines = render.discovered(discovered_document(answer, 0))
    assert lines[0].split() == ["ClusterId:", "cluster-A"]
    assert any(line.startswith("2 ") and "2:9093" in line for line in lines)
    assert any("1970-01-01T00:00:0" in line for line in lines)
