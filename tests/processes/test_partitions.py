"""Two quorum partitions in every process: each its own quorum, one wire, one disk (K595-31)."""

import json
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from quorum_node.api import ErrorCode
from quorum_node.exit_codes import ExitCode
from support.local_quorum import LocalNode, LocalQuorum, wait_until
from support.patience import PATIENT
from support.quorum_writer import Writer, assert_nothing_lost

BOTH = (0, 1)


@pytest.fixture
def quorum(make_quorum) -> LocalQuorum:
    """Three nodes, voters of both partitions."""
    made: LocalQuorum = make_quorum(3, quorum_partitions="2", properties=PATIENT)
    form(made)
    return made


def form(quorum: LocalQuorum) -> None:
    for number in BOTH:
        quorum.at(number).form()


def lead(quorum: LocalQuorum, partition: int, node_id: int) -> None:
    """Make a node the leader of a partition."""
    view = quorum.at(partition)

    def led() -> bool:
        if view.wait_leader() == node_id:
            return True
        view.request("POST", "/v1/resign", json={"successorId": node_id})
        return False

    wait_until(led, f"node {node_id} leads partition {partition}")


def counters(quorum: LocalQuorum, node_id: int, name: str) -> dict[str, float]:
    """Label values to value, of one counter of one node."""
    (found,) = counters_at_once(quorum, node_id, name)
    return found


def counters_at_once(quorum: LocalQuorum, node_id: int, *names: str) -> list[dict[str, float]]:
    """Several counters of one node, as in one answer."""
    answer = quorum.answered("GET", "/metrics", node_id)
    samples = [
        sample
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    ]
    return [
        {
            "/".join(sample.labels.values()): sample.value
            for sample in samples
            if sample.name == f"metadata_quorum_{name}"
        }
        for name in names
    ]


@pytest.mark.requirement("K595-31")
def test_each_partition_is_its_own_quorum(quorum: LocalQuorum) -> None:
    first, second = quorum.at(0), quorum.at(1)
    for node_id in quorum.nodes:
        documents = [view.local(node_id) for view in (first, second)]
        assert documents[0]["replicaUuid"] != documents[1]["replicaUuid"]
        assert documents[0]["clusterId"] == documents[1]["clusterId"] == quorum.cluster_id
        assert [(d["partition"], d["partitions"]) for d in documents] == [(0, 2), (1, 2)]
    uuids = [{v["uuid"] for v in view.describe()["voters"]} for view in (first, second)]
    assert len(uuids[0]) == len(uuids[1]) == 3
    assert not uuids[0] & uuids[1]

    lead(quorum, 0, 1)
    lead(quorum, 1, 2)
    first.put("k", "zero")
    second.put("k", "one")
    assert (first.get("k"), second.get("k")) == ("zero", "one")
    logs = [[list(v.log_records(n)) for n in quorum.nodes] for v in (first, second)]
    for number, name in ((0, "zero"), (1, "one")):
        values = {r["fields"].get("value") for log in logs[number] for r in log}
        assert values & {"zero", "one"} == {name}

    answer = quorum.at(2).request("GET", "/v1/quorum")
    assert answer is not None
    assert (answer.status_code, answer.json()["code"]) == (404, ErrorCode.NOT_FOUND)
    assert "partitions 0 to 1" in answer.json()["message"]
    roles = counters(quorum, 1, "role")
    assert (roles["0/leader"], roles["1/leader"]) == (1, 0)


@pytest.mark.requirement("K595-31")
def test_voters_are_changed_in_one_partition_only(quorum: LocalQuorum) -> None:
    first, second = quorum.at(0), quorum.at(1)
    before = first.describe()["votersPosition"]
    leader_id = second.wait_leader()
    gone = next(node_id for node_id in quorum.nodes if node_id != leader_id)
    second.remove_voter(gone, second.local(gone)["replicaUuid"])
    assert gone not in second.voter_ids()
    assert sorted(first.voter_ids()) == [1, 2, 3]
    assert first.describe()["votersPosition"] == before
    second.put("k", "1")
    second.add_voter(gone)
    assert sorted(second.voter_ids()) == [1, 2, 3]


@pytest.mark.requirement("K595-31")
def test_killing_the_leader_of_one_partition_does_not_affect_the_other(quorum: LocalQuorum) -> None:
    first, second = quorum.at(0), quorum.at(1)
    lead(quorum, 0, 1)
    lead(quorum, 1, 2)
    before = second.describe()
    with Writer(first) as failing, Writer(second) as steady:
        steady.more(20)
        gap_before = steady.longest_gap_seconds
        quorum.nodes[1].kill()
        failing.more(20)
        steady.more(20)
        gap = steady.longest_gap_seconds
    assert first.wait_leader() != 1
    after = second.describe()
    assert (after["leaderId"], after["leaderEpoch"]) == (2, before["leaderEpoch"])
    # Less than the detection of a dead leader by timeout; without one, it is not detected at all.
    assert gap < max(5.0, 3 * gap_before)
    quorum.nodes[1].start()
    for view, writer in ((first, failing), (second, steady)):
        view.wait_caught_up(1)
        assert_nothing_lost(view, writer.acknowledged)


@pytest.mark.requirement("K595-31")
def test_idle_partitions_share_their_fetches(quorum: LocalQuorum) -> None:
    """Both are led by one node: a follower mostly fetches both in one request."""
    for number in BOTH:
        lead(quorum, number, 1)
    counts = ("peer_requests_total", "peer_request_parts_total")
    before = [each["Fetch"] for each in counters_at_once(quorum, 2, *counts)]

    def fetched() -> list[float] | None:
        after = [each["Fetch"] for each in counters_at_once(quorum, 2, *counts)]
        grown = [now - then for now, then in zip(after, before, strict=True)]
        return grown if grown[1] >= 12 else None

    requests, parts = wait_until(fetched, "twelve fetches of a partition")
    assert requests <= 0.75 * parts


@pytest.mark.requirement("K595-31")
def test_failed_disk_stops_all_partitions_of_the_process(make_quorum) -> None:
    """A log that can't be read stops the start for both partitions, and names the file."""
    quorum: LocalQuorum = make_quorum(1, quorum_partitions="2")
    form(quorum)
    node = quorum.nodes[1]
    for number in BOTH:
        quorum.at(number).put("k", "v" * 2000)
    node.kill()
    damage(node, "__cluster_metadata-1")
    node.start()
    assert node.wait_exit() == ExitCode.STORAGE_FAILED
    message = json.loads(node.termination_message)
    assert "__cluster_metadata-1" in message["message"]


def damage(node: LocalNode, partition: str) -> None:
    """Flip a bit in a record that was acknowledged."""
    (path,) = sorted((node.data_dir / partition).glob("*.log"))
    content = bytearray(path.read_bytes())
    content[content.index(b"v" * 1000) + 500] ^= 1
    path.write_bytes(content)


def test_number_of_partitions_cannot_be_changed(make_quorum, tmp_path: Path) -> None:
    quorum: LocalQuorum = make_quorum(1, quorum_partitions="2")
    form(quorum)
    node = quorum.nodes[1]
    assert node.terminate() == 0
    node.overrides["quorum.partitions"] = "1"
    node.start()
    assert node.wait_exit() == ExitCode.IDENTITY_MISMATCH
    assert "was formatted for 2" in node.termination_message
    del node.overrides["quorum.partitions"]
    node.start()
    for number in BOTH:
        quorum.at(number).put("k", "again")
