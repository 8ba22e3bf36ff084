"""Stock consumers and librdkafka's in groups with coordinators of this software, and of Kafka."""

import re
from pathlib import Path

import pytest

from quorum_node.protocol import broker_apis
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.offset_fetch import FetchedGroup, OffsetFetchRequest, OffsetFetchResponse
from support.group_consumers import GroupConsumer, produce_numbers, wait_until_read
from support.java_brokers import JavaBrokers
from support.local_quorum import LocalQuorum, wait_until
from support.python_brokers import PythonBrokers, running_brokers
from support.stock_kafka import tool

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]

CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
OFFSETS = "__consumer_offsets"
OF_GROUPS = {"offsets_topic_num_partitions": "3", "group_initial_rebalance_delay_ms": "0"}


def committed(brokers: PythonBrokers, broker_id: int, group: str) -> dict[int, int]:
    """Partition → offset, as returned by the coordinator; empty if it is another broker, or reads its log."""
    request = OffsetFetchRequest(groups=(FetchedGroup(group_id=group, topics=None),))
    answer = brokers.ask(broker_id, broker_apis.OFFSET_FETCH, request)
    assert isinstance(answer, OffsetFetchResponse)
    loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert answer.groups[0].error_code in (0, ErrorCode.NOT_COORDINATOR, loading)
    return {
        each.partition_index: each.committed_offset
        for topic in answer.groups[0].topics
        for each in topic.partitions
    }


def test_stock_console_consumer_reads_in_a_group(tmp_path: Path) -> None:
    with running_brokers(tmp_path, 1, offsets_topic_replication_factor="1", **OF_GROUPS) as brokers:
        topic = brokers.create_topic("t", [201])
        assert brokers.produce(201, topic, [b"a", b"b", b"c"]).error_code == 0
        server = ("--bootstrap-server", brokers.bootstrap, "--topic", "t", "--group", "g")
        some = ("--from-beginning", "--max-messages", "2", "--timeout-ms", "30000")
        assert tool(CONSUMER, *server, *some).splitlines()[:2] == ["a", "b"]
        assert committed(brokers, 201, "g") == {0: 2}


@pytest.mark.long
def test_stock_tool_describes_resets_and_deletes_groups(tmp_path: Path) -> None:
    with running_brokers(tmp_path, 2, offsets_topic_replication_factor="2", **OF_GROUPS) as brokers:
        server = ("--bootstrap-server", brokers.bootstrap)
        brokers.create_topic("t", [201, 202], 2)
        produce_numbers(brokers.bootstrap, "t", range(100), 2)
        consumer = GroupConsumer(brokers.bootstrap, "g", "t")
        wait_until_read([consumer], range(100))
        members = tool(GROUPS, *server, "--describe", "--group", "g", "--members", "--verbose")
        assert "rdkafka" in members
        assert re.search(r"\bt[(:]0,1", members.replace(" ", "")), members
        assert "Stable" in tool(GROUPS, *server, "--describe", "--group", "g", "--state")
        assert "Stable" in tool(GROUPS, *server, "--list", "--state", "stable")
        consumer.stop()
        described = tool(GROUPS, *server, "--describe", "--group", "g")
        rows = [line.split()[:6] for line in described.splitlines() if line.startswith("g ")]
        assert sorted(rows) == [["g", "t", "0", "50", "50", "0"], ["g", "t", "1", "50", "50", "0"]]
        reset = ("--group", "g", "--topic", "t:1", "--reset-offsets", "--to-offset", "7")
        tool(GROUPS, *server, *reset, "--execute")
        described = tool(GROUPS, *server, "--describe", "--group", "g")
        rows = [line.split()[:6] for line in described.splitlines() if line.startswith("g ")]
        assert ["g", "t", "1", "7", "50", "43"] in rows
        tool(GROUPS, *server, "--delete-offsets", "--group", "g", "--topic", "t:0")
        described = tool(GROUPS, *server, "--describe", "--group", "g")
        assert [line.split()[2] for line in described.splitlines() if line.startswith("g ")] == [
            "1"
        ]
        tool(GROUPS, *server, "--delete", "--group", "g")
        assert "g" not in tool(GROUPS, *server, "--list").split()


@pytest.mark.long
def test_two_consumers_share_a_topic_and_a_killed_coordinator_skips_no_message(
    tmp_path: Path,
) -> None:
    with (
        LocalQuorum(tmp_path / "quorum", nodes=1, broker_session_timeout_ms="6000") as quorum,
        PythonBrokers(quorum, tmp_path / "brokers", 3, **OF_GROUPS) as brokers,
    ):
        quorum.form()
        brokers.start()
        brokers.create_topic("t", [201, 202, 203], 4, min_insync_replicas="2")
        first = GroupConsumer(brokers.bootstrap, "g", "t")
        second = None
        try:
            produce_numbers(brokers.bootstrap, "t", range(400), 4)
            wait_until_read([first], range(400))
            second = GroupConsumer(brokers.bootstrap, "g", "t")
            wait_until(
                lambda: len(first.owned) == len(second.owned) == 2, "each has two partitions", 60
            )
            assert first.owned | second.owned == {0, 1, 2, 3}
            produce_numbers(brokers.bootstrap, "t", range(400, 800), 4)
            wait_until_read([first, second], range(400, 800))
            coordinator = next(each for each in brokers.nodes if committed(brokers, each, "g"))
            before = committed(brokers, coordinator, "g")
            brokers.nodes[coordinator].kill()
            produce_numbers(brokers.bootstrap, "t", range(800, 1600), 4)
            wait_until_read([first, second], range(800, 1600))
            left = [each for each in brokers.nodes if each != coordinator]

            def caught_up() -> bool:
                return {0: 400, 1: 400, 2: 400, 3: 400} in [
                    committed(brokers, each, "g") for each in left
                ]

            wait_until(caught_up, "another coordinator has the newest offsets", 60)
            assert all(before[each] <= 400 for each in before)
        finally:
            first.stop()
            if second is not None:
                second.stop()
        for partition in range(4):
            values = [*first.read[partition], *second.read[partition]]
            assert set(values) == {b"%d" % n for n in range(partition, 1600, 4)}


@pytest.mark.long
def test_java_and_python_coordinators_take_over_from_each_other(tmp_path: Path) -> None:
    with (
        LocalQuorum(tmp_path / "quorum", nodes=1, broker_session_timeout_ms="6000") as quorum,
        PythonBrokers(quorum, tmp_path / "python", 1, **OF_GROUPS) as ours,
        JavaBrokers.on(
            quorum,
            tmp_path / "java",
            1,
            broker_heartbeat_interval_ms="300",
            group_initial_rebalance_delay_ms="0",
            # As the topic is made below: a stock broker takes the number once, from its configuration.
            offsets_topic_num_partitions="1",
        ) as stock,
    ):
        quorum.form()
        stock.start()
        ours.start()
        wait_until(lambda: is_live(ours, 101), "the stock broker is live", 90)
        ours.create_topic_at(201, OFFSETS, [201, 101], [201], cleanup_policy="compact")
        ours.create_topic_at(201, "t", [201, 101], [201], 2)
        both = f"{ours.bootstrap},{stock.bootstrap}"
        consumer = GroupConsumer(both, "g", "t", session_timeout_ms=45_000)
        try:
            produce_numbers(both, "t", range(100), 2)
            wait_until_read([consumer], range(100))
            wait_until(lambda: committed(ours, 201, "g") == {0: 50, 1: 50}, "it is committed", 60)
            wait_until(lambda: ours.isr(OFFSETS, 201) == {101, 201}, "both have it", 60)
            # The Python coordinator goes, the Java one reads its log.
            ours.nodes[201].kill()
            produce_numbers(both, "t", range(100, 200), 2)
            wait_until_read([consumer], range(100, 200))

            def rows() -> list[list[str]]:
                server = ("--bootstrap-server", stock.bootstrap)
                lines = tool(GROUPS, *server, "--describe", "--group", "g").splitlines()
                return sorted(line.split()[:5] for line in lines if line.startswith("g "))

            # A message is read before its offset is committed.
            wanted = [["g", "t", "0", "100", "100"], ["g", "t", "1", "100", "100"]]
            wait_until(lambda: rows() == wanted, "it is committed there")
            ours.start()
            for topic in (OFFSETS, "t"):
                wait_until(
                    lambda topic=topic: ours.isr(topic, 201) == {101, 201}, "both have it", 90
                )  # type: ignore[misc]
            # And the other way.
            stock.brokers[101].kill()
            produce_numbers(both, "t", range(200, 300), 2)
            wait_until_read([consumer], range(200, 300))
            wait_until(
                lambda: committed(ours, 201, "g") == {0: 150, 1: 150}, "it is committed here", 60
            )
            assert len(consumer.assignments) == 1, "members stayed in their generation"
        finally:
            consumer.stop()
        for partition in range(2):
            assert set(consumer.read[partition]) == {b"%d" % n for n in range(partition, 300, 2)}


def is_live(ours: PythonBrokers, broker_id: int) -> bool:
    """As reported by a broker of this software."""
    found = ours.metadata(201)
    return found is not None and broker_id in {each.node_id for each in found.brokers}
