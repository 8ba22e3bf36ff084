"""Stock tools on brokers of this software with several log directories, and throttled reassignments (KIP-113, KIP-73)."""

import json
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from types import MappingProxyType
from uuid import UUID

import pytest

from quorum_node.fresh_uuid import fresh_uuid
from quorum_node.protocol.errors import ErrorCode
from quorum_node.records.identity import uuid_text
from support.group_consumers import GroupConsumer, produce_numbers, wait_until_read
from support.java_brokers import JavaBroker, JavaBrokers
from support.java_quorum import JavaQuorum
from support.java_reassignment import ReassignmentTool
from support.local_quorum import LocalQuorum, wait_until
from support.log_directories import DISK_MIB, TwoDirectories, brokers_with_disks
from support.loop_disk import LoopDisk, require_loop_disks
from support.python_brokers import PythonBrokers
from support.stock_kafka import tool

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(400)]

CONFIGS = "kafka.admin.ConfigCommand"
LOG_DIRS = "org.apache.kafka.tools.LogDirsCommand"
MB = 1_000_000
RATE = 500_000


def filled(brokers: TwoDirectories, megabytes: int) -> tuple[UUID, list[bytes]]:
    """A topic on broker 201, with this much in batches of half a megabyte."""
    topic = brokers.create_topic_at(201, "t", [201], [201, 202])
    values = [Random(number).randbytes(MB // 2) for number in range(2 * megabytes)]
    for value in values:
        assert not brokers.produce(201, topic, [value]).error_code
    return topic, values


def described(brokers: TwoDirectories) -> dict[str, dict[str, object]]:
    """What `kafka-log-dirs` prints about broker 201, by directory."""
    output = tool(LOG_DIRS, "--bootstrap-server", brokers.bootstrap, "--describe")
    found = json.loads(next(line for line in output.splitlines() if line.startswith("{")))
    (broker,) = [each for each in found["brokers"] if each["broker"] == 201]
    return {each["logDir"]: each for each in broker["logDirs"]}


@pytest.mark.requirement("KV3-07")
def test_stock_tools_move_replicas_between_directories_and_describe_a_dead_one(
    tmp_path: Path,
) -> None:
    require_loop_disks()
    with brokers_with_disks(tmp_path, 2, "b") as (brokers, disks):
        brokers.start()
        topic_id, values = filled(brokers, 4)
        assert brokers.partitions_in(201, "a", "t") == {0}
        a, b = (str(brokers.directory(201, name)) for name in "ab")
        reassigning = ReassignmentTool(brokers.bootstrap, tmp_path)
        began = time.monotonic()
        reassigning.move_directories("t", {0: (201,)}, {0: (b,)}, throttle=RATE)
        wait_until(lambda: brokers.partitions_in(201, "b", "t") == {0}, "it is moved", 60)
        assert time.monotonic() - began > (4 * MB - 2 * MB // 2) / RATE, "the throttle applies"
        reassigning.verify_complete("t", {0: (201,)}, {0: (b,)})
        assert brokers.read_all(201, topic_id) == values
        # A new replica on another broker, in a directory of choice.
        chosen = str(brokers.directory(202, "b"))
        reassigning.move_directories("t", {0: (201, 202)}, {0: ("any", chosen)}, throttle=100 * MB)
        wait_until(lambda: brokers.isr("t", 201) == {201, 202}, "it is replicated", 60)
        assert brokers.partitions_in(202, "b", "t") == {0}
        disks["b"].shut_down()
        wait_until(lambda: brokers.leader("t", 202) == 202, "the other replica leads", 60)
        found = described(brokers)
        assert found[a]["error"] is None
        assert "KafkaStorageException" in str(found[b]["error"])
        assert brokers.read_all(202, topic_id) == values


@pytest.mark.requirement("KV3-04")
def test_stock_tool_throttles_a_reassignment_and_removes_the_throttle(tmp_path: Path) -> None:
    with brokers_with_disks(tmp_path, 2, "") as (brokers, _):
        brokers.start()
        topic_id, values = filled(brokers, 6)
        busy = brokers.create_topic("busy", [201, 202])
        reassigning = ReassignmentTool(brokers.bootstrap, tmp_path)
        began = time.monotonic()
        reassigning.execute("t", {0: (202,)}, throttle=RATE)
        started = time.monotonic()
        # Replicas in sync are not throttled.
        assert not brokers.produce(201, busy, [b"x" * MB], timeout_ms=5_000).error_code
        wait_until(lambda: brokers.leader("t", 201) == 202, "it is moved", 120)
        ended = time.monotonic()
        # The last batch is sent as soon as the ones before are paid off, and the first second is free.
        assert ended - began > (6 * MB - MB // 2) / RATE - 2
        assert ended - started < 3 * 6 * MB / RATE
        reassigning.verify_complete("t", {0: (202,)})
        assert brokers.read_all(202, topic_id) == values
        for kind, name in (("brokers", "201"), ("brokers", "202"), ("topics", "t")):
            entity = ("--entity-type", kind, "--entity-name", name)
            shown = tool(CONFIGS, "--bootstrap-server", brokers.bootstrap, "--describe", *entity)
            assert "throttled" not in shown


@pytest.mark.requirement("KV3-07")
def test_stock_controller_moves_leaderships_away_from_a_dead_directory(tmp_path: Path) -> None:
    require_loop_disks()
    with JavaQuorum(tmp_path / "java") as quorum:

        class Ours(TwoDirectories):
            others = MappingProxyType(
                {
                    "controller.quorum.bootstrap.servers": quorum.bootstrap,
                    "cluster.id": quorum.cluster_id,
                }
            )

        with Ours(quorum, tmp_path / "brokers", 2) as brokers:  # type: ignore[arg-type]
            node = brokers.nodes[201]
            disk = LoopDisk(node.root / "disk-b", DISK_MIB)
            try:
                quorum.start()
                brokers.start()
                topic = brokers.create_topic("t", [201, 202], partitions=4)
                for number in range(4):
                    assert not brokers.produce(201, topic, [b"1"], partition=number).error_code
                lost, kept = (brokers.partitions_in(201, name, "t") for name in "ba")
                assert len(lost) == len(kept) == 2
                disk.shut_down()
                wait_led(brokers, lost, 202, {202})
                wait_led(brokers, kept, 201, {201, 202})
                for number in lost:
                    assert not brokers.produce(202, topic, [b"2"], partition=number).error_code
                node.terminate()
                disk.remount()
                shutil.rmtree(brokers.directory(201, "b"))
                brokers.start()
                for number in range(4):
                    wait_until(
                        lambda number=number: brokers.isr("t", 202, number) == {201, 202},  # type: ignore[misc]
                        "everything is in sync again",
                        60,
                    )
                assert brokers.partitions_in(201, "b", "t") == lost
            finally:
                if node.is_running:
                    node.kill()
                disk.close()


def test_broker_on_stock_controllers_tells_that_it_needs_the_cluster_id(tmp_path: Path) -> None:
    with JavaQuorum(tmp_path / "java") as quorum:

        class Ours(TwoDirectories):
            others = MappingProxyType({"controller.quorum.bootstrap.servers": quorum.bootstrap})

        with Ours(quorum, tmp_path / "brokers", 1) as brokers:  # type: ignore[arg-type]
            quorum.start()
            node = brokers.nodes[201]
            node.start()
            wait_until(lambda: "Set cluster.id" in node.log_text, "the broker tells it", 60)
            node.kill()
            node.overrides["cluster.id"] = quorum.cluster_id
            brokers.start()


def live(brokers: PythonBrokers) -> set[int]:
    """Brokers that are not fenced."""
    found = brokers.metadata(201)
    return set() if found is None else {each.node_id for each in found.brokers}


@pytest.mark.requirement("KV3-07")
def test_producers_and_groups_of_librdkafka_go_on_while_a_directory_dies(tmp_path: Path) -> None:
    """The coordinators of half of the groups are in the directory, as well as half of the messages."""
    require_loop_disks()
    properties = {
        "offsets_topic_replication_factor": "2",
        "offsets_topic_num_partitions": "4",
        # Longer than everything else takes, also on a busy machine.
        "replica_lag_time_max_ms": "150000",
    }
    with brokers_with_disks(tmp_path, 2, "b", **properties) as (brokers, disks):
        brokers.start()
        brokers.create_topic("t", [201, 202], partitions=4)
        consumers = [
            GroupConsumer(brokers.bootstrap, f"g{number}", "t", session_timeout_ms=45_000)
            for number in range(4)
        ]
        try:
            produce_numbers(brokers.bootstrap, "t", range(400), 4)
            for each in consumers:
                wait_until_read([each], range(400))
            assert brokers.partitions_in(201, "b", "t")
            assert brokers.partitions_in(201, "b", "__consumer_offsets")
            with ThreadPoolExecutor(1) as producer:
                numbers = range(400, 4_000)
                produced = producer.submit(produce_numbers, brokers.bootstrap, "t", numbers, 4)
                disks["b"].shut_down()
                produced.result(120)
            began = time.monotonic()
            for each in consumers:
                wait_until_read([each], range(4_000))
            # No commit waits until the dead follower has lagged for replica.lag.time.max.ms.
            assert time.monotonic() - began < 120
            found = brokers.described(201)["b"]
            assert found.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        finally:
            for each in consumers:
                each.stop()


class JavaWithTwoDirectories(JavaBrokers):
    """Stock brokers with a second log directory, which is on the disk of the test."""

    second: Path

    def properties_of(self, broker: JavaBroker) -> dict[str, str]:
        """See `JavaBrokers`."""
        return {"log.dirs": f"{broker.root / 'data'},{self.second}"}


@pytest.mark.requirement("KV3-07")
def test_controllers_move_leaderships_away_from_a_dead_directory_of_a_stock_broker(
    tmp_path: Path,
) -> None:
    require_loop_disks()
    disk = LoopDisk(tmp_path / "disk", DISK_MIB)
    try:

        class Stock(JavaWithTwoDirectories):
            second = disk.mount_point / "logs"

        with (
            LocalQuorum(tmp_path / "quorum", nodes=1) as quorum,
            PythonBrokers(quorum, tmp_path / "python", 1) as ours,
            Stock.on(quorum, tmp_path / "java", 1) as stock,
        ):
            Stock.second.mkdir()
            (Stock.second / "meta.properties").write_text(
                f"version=1\ncluster.id={quorum.cluster_id}\nnode.id=101\n"
                f"directory.id={uuid_text(fresh_uuid())}\n"
            )
            quorum.form()
            ours.start()
            stock.start()
            wait_until(lambda: live(ours) == {101, 201}, "both are live", 90)
            topic = ours.create_topic_at(201, "t", [101, 201], [201], partitions=4)
            for number in range(4):
                wait_until(
                    lambda number=number: ours.isr("t", 201, number) == {101, 201},  # type: ignore[misc]
                    "both are in sync",
                    60,
                )
            # A new partition has its replicas in the ISR before their logs are created.
            folders = (Stock.second, stock.brokers[101].root / "data")

            def are_created() -> bool:
                return sum(len(list(each.glob("t-[0-9]"))) for each in folders) == 4

            wait_until(are_created, "the stock broker has created its logs", 60)
            lost = {int(each.name[2:]) for each in Stock.second.glob("t-[0-9]")}
            assert len(lost) == 2
            disk.shut_down()
            for number in range(4):
                leader, isr = (201, {201}) if number in lost else (101, {101, 201})
                wait_until(
                    lambda number=number, leader=leader, isr=isr: (  # type: ignore[misc]
                        ours.leader("t", 201, number) == leader
                        and ours.isr("t", 201, number) == isr
                    ),
                    f"{leader} leads {number} with ISR {isr}",
                    60,
                )
            for number in lost:
                assert not ours.produce(201, topic, [b"x"], partition=number).error_code
            stock.brokers[101].kill()
    finally:
        disk.close()


def wait_led(brokers: TwoDirectories, partitions: set[int], leader: int, isr: set[int]) -> None:
    for number in partitions:
        wait_until(
            lambda number=number: (  # type: ignore[misc]
                brokers.leader("t", 202, number) == leader and brokers.isr("t", 202, number) == isr
            ),
            f"{leader} leads {number} with ISR {isr}",
            30,
        )
