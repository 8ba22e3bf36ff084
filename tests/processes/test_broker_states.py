"""Broker processes when they start, when they fall behind, and when they no longer lead and do not know it."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from quorum_node.protocol.apis import ALTER_PARTITION_REASSIGNMENTS, DELETE_TOPICS
from quorum_node.protocol.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from support.local_quorum import LocalQuorum, wait_until
from support.python_brokers import PythonBrokers, running_brokers

pytestmark = pytest.mark.long


def delete_topic(brokers: PythonBrokers, name: str) -> None:
    request = DeleteTopicsRequest(topics=(DeleteTopicState(name=name),), timeout_ms=10_000)
    answer = brokers.ask(201, DELETE_TOPICS, request)
    assert isinstance(answer, DeleteTopicsResponse)
    assert not answer.responses[0].error_code, answer


def reassign(brokers: PythonBrokers, topic: str, *replicas: int) -> None:
    partition = ReassignablePartition(partition_index=0, replicas=replicas)
    topics = (ReassignableTopic(name=topic, partitions=(partition,)),)
    request = AlterPartitionReassignmentsRequest(topics=topics)
    answer = brokers.ask(201, ALTER_PARTITION_REASSIGNMENTS, request)
    assert isinstance(answer, AlterPartitionReassignmentsResponse)
    assert not answer.responses[0].partitions[0].error_code, answer


def leader_of(brokers: PythonBrokers, topic: str) -> int:
    return wait_until(lambda: brokers.leader(topic, 202), f"{topic} has a leader")


@pytest.mark.requirement("KV3-07")
def test_restarting_broker_sets_aside_directories_of_partitions_it_no_longer_has(
    tmp_path: Path,
) -> None:
    """While it is down one topic is deleted, one is recreated under its name, and one partition is moved away."""
    of_controller = {"broker.session.timeout.ms": "6000"}
    with running_brokers(tmp_path, 2, of_controller=of_controller) as brokers:
        kept = brokers.create_topic("kept", [202, 201])
        for name in ("gone", "again"):
            brokers.produce(202, brokers.create_topic(name, [202]), [b"old"])
        moved = brokers.create_topic("moved", [201, 202])
        for leader, topic in ((202, kept), (201, moved)):
            assert brokers.produce(leader, topic, [b"a"]).error_code == 0
        brokers.nodes[202].kill()
        wait_until(lambda: brokers.leader("kept", 201) == 201, "the other one leads", 60)
        assert brokers.produce(201, kept, [b"b"]).error_code == 0
        for name in ("gone", "again"):
            delete_topic(brokers, name)
        reassign(brokers, "moved", 201)
        again = brokers.create_topic_at(201, "again", [202, 201], told=[201])
        brokers.start()
        wait_until(lambda: brokers.isr("kept", 202) == {201, 202}, "it follows", 60)
        wait_until(lambda: brokers.isr("again", 202) == {201, 202}, "it has the new topic", 60)
        folders = sorted(each.name for each in brokers.log_folder(202, "x").parent.iterdir())
        found = [each for each in folders if each.endswith("-stray") or each[-1:].isdigit()]
        whole = [each for each in found if not each.endswith("-stray")]
        assert whole == ["again-0", "kept-0"]
        aside = {each.split(".")[0] for each in found} - set(whole)
        assert aside == {"moved-0", "gone-0"}
        reported = brokers.nodes[202].log_text
        assert all(f"{name}: the metadata assigns no such replica" in reported for name in aside)
        assert len([each for each in found if each.startswith("again-0.")]) == 1
        assert brokers.read_all(leader_of(brokers, "again"), again) == [], (
            "a topic of the same name, and another one"
        )
        assert brokers.read_all(leader_of(brokers, "kept"), kept) == [b"a", b"b"]


@pytest.mark.requirement("KV3-09")
def test_unreplicated_records_are_not_returned_and_missing_offsets_are_out_of_range(
    tmp_path: Path,
) -> None:
    of_controller = {"broker.session.timeout.ms": "60000"}
    with running_brokers(tmp_path, 2, of_controller=of_controller) as brokers:
        topic = brokers.create_topic("t", [201, 202])
        assert brokers.produce(201, topic, [b"a"]).error_code == 0
        wait_until(lambda: brokers.fetch(201, topic, 1).high_watermark == 1, "it is committed", 60)
        brokers.nodes[202].freeze()
        assert brokers.produce(201, topic, [b"b"], acks=1).base_offset == 1
        found = brokers.fetch(201, topic, 1)
        if found.high_watermark == 2:  # the fetch that waited at the leader was still answered
            assert brokers.produce(201, topic, [b"c"], acks=1).base_offset == 2
            found = brokers.fetch(201, topic, 2)
        assert (found.error_code, found.records or b"") == (0, b"")
        end = found.high_watermark + 1
        assert brokers.fetch(201, topic, end).error_code == 0, "at the end of the log"
        behind = brokers.fetch(201, topic, end + 1)
        assert behind.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        brokers.nodes[202].thaw()
        wait_until(lambda: brokers.fetch(201, topic, end).high_watermark == end, "committed", 60)
        assert brokers.read_all(201, topic)[:2] == [b"a", b"b"]


@pytest.mark.requirement("KV3-10", "KV3-11")
def test_paused_and_deposed_leader_commits_nothing_and_truncates_its_uncommitted_records(
    tmp_path: Path,
) -> None:
    """Case 3 of the replication design V3 with processes: A is paused, B is elected, A resumes; producers write to both."""
    with (
        LocalQuorum(tmp_path / "quorum", nodes=1, broker_session_timeout_ms="6000") as quorum,
        PythonBrokers(quorum, tmp_path / "brokers", 3) as brokers,
        ThreadPoolExecutor(2) as producers,
    ):
        quorum.form()
        brokers.start()
        topic = brokers.create_topic("t", [201, 202, 203], min_insync_replicas="2")
        sent = [b"%d" % number for number in range(5)]
        for value in sent:
            assert brokers.produce(201, topic, [value]).error_code == 0
        deposed = brokers.nodes[201]
        deposed.freeze()
        waiting = [
            producers.submit(brokers.produce, 201, topic, [b"never"], acks) for acks in (-1, 1)
        ]
        leader = wait_until(
            lambda: next((x for x in [brokers.leader("t", 202)] if x in (202, 203)), None),
            "another leader",
            30,
        )
        sent.append(b"new")
        assert brokers.produce(leader, topic, [b"new"]).error_code == 0
        deposed.thaw()
        assert waiting[0].result(40).error_code != 0, "acknowledged by a leader that was deposed"
        waiting[1].result(40)
        wait_until(lambda: brokers.isr("t", leader) == {201, 202, 203}, "it follows", 60)
        assert brokers.read_all(leader, topic) == sent
        segment = "00000000000000000000.log"
        copies = {(brokers.log_folder(each, "t") / segment).read_bytes() for each in brokers.nodes}
        assert len(copies) == 1, "records without a majority were kept"
