"""Reads on replicas that do not lead, over real nodes: from their own state, or with a clear reason."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from quorum_node.protocol import apis
from quorum_node.protocol.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from quorum_node.protocol.errors import ErrorCode as WireError
from quorum_node.protocol.read_offset import (
    ReadOffsetRequest,
    ReadOffsetRequestPartition,
    ReadOffsetRequestTopic,
    ReadOffsetResponse,
)
from support.local_quorum import LocalNode, LocalQuorum, wait_until
from support.one_request import ask
from support.patience import fetch_timeout

pytestmark = [pytest.mark.slow, pytest.mark.requirement("K650-03")]
PATH = "/v1/configs/topic/t/k"


@pytest.fixture(scope="module")
def quorum(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalQuorum]:
    """Voters 1 to 3 and observer 4."""
    root: Path = tmp_path_factory.mktemp("reads")
    with LocalQuorum(root, 4, initial_voters=3, properties=fetch_timeout(5000)) as made:
        made.form()
        made.wait_caught_up(4)
        # Controllers write nothing by themselves after that.
        wait_until(lambda: made.registered().keys() == {1, 2, 3, 4}, "all have registered")
        yield made


def read_offset(node: LocalNode, *, stale: bool = False) -> ReadOffsetResponse:
    """One ReadOffset for the metadata partition and one that is not hosted."""
    partitions = tuple(ReadOffsetRequestPartition(partition_index=index) for index in (0, 77))
    topic = ReadOffsetRequestTopic(topic_name="__cluster_metadata", partitions=partitions)
    request = ReadOffsetRequest(read_timestamp=0, topics=(topic,), stale=stale)
    answer = ask((node.host, node.port), apis.READ_OFFSET, 0, request)
    assert isinstance(answer, ReadOffsetResponse)
    return answer


def counted(quorum: LocalQuorum, node: LocalNode, metric: str) -> float:
    """A counter of one node, all partitions together."""
    answer = quorum.answered("GET", "/metrics", node.id)
    lines = answer.text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(metric))


def test_every_replica_serves_linearizable_reads(quorum: LocalQuorum) -> None:
    leader = quorum.leader
    before = counted(quorum, leader, 'metadata_quorum_reads_total{outcome="confirmed"')
    for number, node in enumerate(quorum.nodes.values()):
        offset = quorum.put("k", f"v{number}")["endOffset"]
        found = quorum.answered("GET", PATH, node.id)
        assert found.json()["value"] == f"v{number}"
        assert found.json()["offset"] >= offset
        assert found.json()["consistency"] == "linearizable"
        listed = quorum.answered(
            "GET", "/v1/configs?prefix=topic/t/&consistency=linearizable", node.id
        )
        assert listed.json()["offset"] >= offset
        assert f"v{number}" in [entry["value"] for entry in listed.json()["entries"]]
    served = counted(quorum, leader, 'metadata_quorum_reads_total{outcome="confirmed"')
    assert served - before == 2, "nothing was forwarded: the leader served its own two reads"
    observer = quorum.nodes[4]
    assert counted(quorum, observer, 'metadata_quorum_reads_total{outcome="confirmed"') == 2
    assert counted(quorum, observer, "metadata_quorum_read_rounds_total") == 2


def test_local_read_reports_its_maximum_age(quorum: LocalQuorum) -> None:
    offset = quorum.put("k", "local")["endOffset"]
    for node in quorum.nodes.values():

        def applied(node: LocalNode = node) -> dict[str, object] | None:
            answer = quorum.answered("GET", PATH + "?consistency=local", node.id)
            found: dict[str, object] = answer.json()
            return found if found["offset"] == offset else None

        found = wait_until(applied, f"node {node.id} has applied it")
        assert found["value"] == "local"
        age_ms = found["ageMs"]
        assert isinstance(age_ms, int)
        assert 0 <= age_ms < 5000


@pytest.mark.requirement("K595-30")
def test_observer_reports_how_far_it_has_caught_up(quorum: LocalQuorum) -> None:
    offset = quorum.put("k", "kept up")["endOffset"]

    def caught_up() -> bool:
        state = quorum.local(4)["state"]
        assert state["consistent"]
        assert state["dirtyOffset"] == 0
        return state["appliedOffset"] >= offset and state["caughtUpAgeMs"] < 2000

    wait_until(caught_up, "the observer has caught up and knows it")
    assert quorum.local(quorum.leader.id)["state"]["caughtUpAgeMs"] is None
    assert 0 <= counted(quorum, quorum.nodes[4], "metadata_quorum_state_age_seconds") < 5


def test_read_offset_over_kafka_protocol(quorum: LocalQuorum) -> None:
    leader = quorum.leader
    offset = quorum.put("k", "wire")["endOffset"]
    for node in quorum.nodes.values():
        answer = read_offset(node)
        hosted, missing = answer.topics[0].partitions
        assert missing.error_code == WireError.UNKNOWN_TOPIC_OR_PARTITION
        assert hosted.current_leader.leader_id == leader.id
        if node is leader:
            assert (hosted.error_code, hosted.applied_offset) == (WireError.NONE, offset)
        else:
            assert hosted.error_code == WireError.NOT_QUORUM_LEADER
            assert hosted.applied_offset == -1
            endpoints = [(each.node_id, each.port) for each in answer.node_endpoints]
            assert endpoints == [(leader.id, leader.port)]
        stale = read_offset(node, stale=True).topics[0].partitions[0]
        assert stale.error_code == WireError.NONE
        assert stale.applied_offset <= offset
        assert stale.age_ms >= 0


def test_kafka_clients_read_from_every_replica(quorum: LocalQuorum) -> None:
    topic = 2
    resource = DescribeConfigsResource(resource_type=topic, resource_name="t")
    for number, node in enumerate(quorum.nodes.values()):
        quorum.put("kafka", f"v{number}")
        request = DescribeConfigsRequest(resources=(resource,))
        answer = ask((node.host, node.port), apis.DESCRIBE_CONFIGS, 4, request)
        assert isinstance(answer, DescribeConfigsResponse)
        (result,) = answer.results
        assert result.error_code == WireError.NONE
        values = {config.name: config.value for config in result.configs}
        assert values["kafka"] == f"v{number}"


def test_read_on_a_follower_survives_a_leader_change(quorum: LocalQuorum) -> None:
    offset = quorum.put("k", "before the kill")["endOffset"]
    leader, follower = quorum.leader, quorum.followers[0]
    leader.kill()
    answer = quorum.answered("GET", PATH + "?timeoutMs=60000", follower.id, timeout=65.0)
    assert answer.status_code == 200, answer.text
    assert answer.json()["value"] == "before the kill"
    assert answer.json()["offset"] > offset, "the new leader's epoch has begun"
    leader.start()
    quorum.wait_caught_up(leader.id)


def test_linearizable_read_without_majority_fails_with_a_reason_and_a_local_read_succeeds(
    quorum: LocalQuorum,
) -> None:
    quorum.put("k", "last")
    leader = quorum.leader
    reader, stopped = [node for node in quorum.followers if node.id != 4]
    began = time.monotonic()
    stopped.freeze()
    leader.freeze()
    answer = quorum.answered("GET", PATH + "?timeoutMs=400", reader.id)
    assert (answer.status_code, answer.json()["code"]) == (503, "NOT_CONFIRMED")
    assert f"leader {leader.id} did not confirm" in answer.json()["message"]

    def no_leader() -> bool:
        says = quorum.answered("GET", PATH + "?timeoutMs=400", reader.id)
        assert says.status_code == 503, says.text
        return says.json()["code"] == "NO_LEADER"

    wait_until(no_leader, "the follower gives its leader up")
    requested_at = time.monotonic()
    local = quorum.answered("GET", PATH + "?consistency=local", reader.id)
    assert local.json()["value"] == "last"
    assert local.json()["ageMs"] >= (requested_at - began) * 1000 - 1500
    stopped.thaw()
    leader.thaw()
    assert quorum.get("k") == "last"
