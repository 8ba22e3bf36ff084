"""What brokers of this software do with their logs automatically, and on an administrator's request."""

import os
import signal
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from quorum_node.exit_codes import ExitCode
from quorum_node.protocol.alter_replica_log_dirs import (
    ALTER_REPLICA_LOG_DIRS,
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from quorum_node.protocol.create_topics import (
    CREATE_TOPICS,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from quorum_node.protocol.describe_log_dirs import (
    DESCRIBE_LOG_DIRS,
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.reassignments import (
    ALTER_PARTITION_REASSIGNMENTS,
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from support.broker_admin import (
    alter_broker,
    alter_brokers,
    alter_topic,
    batches_of,
    delete_records,
    keyed,
    newest_values,
)
from support.local_quorum import wait_until
from support.python_brokers import PythonBrokers, running_brokers

OFTEN = {"log.cleaner.backoff.ms": "100"}
VALUE = b"v" * 100_000
COMPACTS = {
    "cleanup_policy": "compact",
    "segment_bytes": "1048576",
    "min_cleanable_dirty_ratio": "0",
}


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PythonBrokers]:
    """One broker on one controller, for tests that leave both as they are."""
    root = tmp_path_factory.mktemp("logs")
    with running_brokers(root, 1, log_retention_check_interval_ms="100") as made:
        alter_brokers(made, OFTEN)
        yield made


def segments(brokers: PythonBrokers, topic: str, broker_id: int = 201) -> list[str]:
    return sorted(each.name for each in brokers.log_folder(broker_id, topic).glob("*.log"))


def log_starts(brokers: PythonBrokers, broker_id: int = 201) -> list[str]:
    path = brokers.nodes[broker_id].root / "logs" / "log-start-offset-checkpoint"
    return path.read_text().splitlines() if path.exists() else []


def test_compacted_topic_keeps_the_newest_value_of_each_key(brokers: PythonBrokers) -> None:
    topic = brokers.create_topic("compacted", [201], **COMPACTS)
    wanted: dict[bytes | None, bytes | None] = {}
    for number in range(45):
        key, value = b"k%d" % (number % 3), VALUE + b"%d" % number
        wanted[key] = value
        assert not brokers.produce_bytes(201, topic, keyed((key, value))).error_code
    active = segments(brokers, "compacted")[-1]
    first_active = int(active.split(".")[0])
    # Their number says nothing: the cleaner may have begun while records were still produced.
    assert first_active == 40, "segments of ten batches are closed"

    def closed() -> list[int]:
        found = [each.header.base_offset for each in batches_of(brokers, 201, topic)]
        return [each for each in found if each < first_active]

    # The newest of each key, and the last batch of a round.
    wait_until(lambda: len(closed()) <= 4, "the closed segments are compacted", 60)
    found = batches_of(brokers, 201, topic)
    assert newest_values(found) == wanted
    assert segments(brokers, "compacted")[-1] == active, "the active segment was deleted"
    assert [b.header.base_offset for b in found][-5:] == [40, 41, 42, 43, 44]
    wait_until(
        lambda: "compacted-0: compacted below offset" in brokers.nodes[201].log_text,
        "the log says so",
    )


def test_compacted_topic_rejects_records_without_a_key(brokers: PythonBrokers) -> None:
    topic = brokers.create_topic("keys", [201], cleanup_policy="compact")
    refused = brokers.produce_bytes(201, topic, keyed((b"k", b"1"), (None, b"2")))
    assert refused.error_code == ErrorCode.INVALID_RECORD
    assert refused.error_message == "the topic is compacted: each record needs a key"
    assert not brokers.produce_bytes(201, topic, keyed((b"k", b"1"), (b"k", None))).error_code
    alter_topic(brokers, "keys", {"cleanup.policy": "delete"})
    wait_until(
        lambda: not brokers.produce_bytes(201, topic, keyed((None, b"2"))).error_code,
        "the broker knows that the topic is not compacted any more",
        10,
    )


def test_changed_retention_applies_to_an_open_log(brokers: PythonBrokers) -> None:
    topic = brokers.create_topic("retained", [201], segment_bytes="1048576", retention_ms="-1")
    for _ in range(25):
        assert not brokers.produce_bytes(201, topic, keyed((None, VALUE)), acks=1).error_code
    before = segments(brokers, "retained")
    assert len(before) == 3
    alter_topic(brokers, "retained", {"retention.bytes": "1048576"})
    wait_until(lambda: segments(brokers, "retained") == before[1:], "the oldest one went", 60)
    first = int(before[1].split(".")[0])
    assert brokers.fetch(201, topic, 0).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert batches_of(brokers, 201, topic, first)[0].header.base_offset == first


def test_deleted_records_are_no_longer_readable_and_their_segments_are_removed(
    brokers: PythonBrokers,
) -> None:
    configs = {"segment_bytes": "1048576", "retention_ms": "-1"}
    topic = brokers.create_topic("deleted", [201], **configs)
    for _ in range(25):
        assert not brokers.produce_bytes(201, topic, keyed((None, VALUE)), acks=1).error_code
    before = segments(brokers, "deleted")
    done = delete_records(brokers, 201, "deleted", 15)
    assert (done.error_code, done.low_watermark) == (0, 15)
    assert brokers.fetch(201, topic, 14).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    found = brokers.fetch(201, topic, 15)
    assert (found.error_code, found.log_start_offset) == (0, 15)
    again = delete_records(brokers, 201, "deleted", 3)
    assert (again.error_code, again.low_watermark) == (0, 15), "the start offset decreased"
    wait_until(lambda: segments(brokers, "deleted") == before[1:], "the first one went", 60)
    wait_until(lambda: "deleted 0 15" in log_starts(brokers), "it is on the disk", 60)
    for offset, code in (
        (26, ErrorCode.OFFSET_OUT_OF_RANGE),
        (-2, ErrorCode.OFFSET_OUT_OF_RANGE),
    ):
        refused = delete_records(brokers, 201, "deleted", offset)
        assert (refused.error_code, refused.low_watermark) == (code, -1)
    everything = delete_records(brokers, 201, "deleted", -1)
    assert (everything.error_code, everything.low_watermark) == (0, 25)
    brokers.create_topic("only-compacted", [201], cleanup_policy="compact")
    missing = delete_records(brokers, 201, "__consumer_offsets", 0)
    assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "as on a stock broker"
    brokers.create_topic("__consumer_offsets", [201])
    for name, code in (
        ("only-compacted", ErrorCode.POLICY_VIOLATION),
        ("unknown", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("__consumer_offsets", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ):
        assert delete_records(brokers, 201, name, 0).error_code == code


def test_log_directories_are_described_and_replica_moves_are_rejected(
    brokers: PythonBrokers,
) -> None:
    topic = brokers.create_topic("described", [201], partitions=2, retention_ms="-1")
    data = keyed((None, b"x" * 1000))
    assert not brokers.produce_bytes(201, topic, data, partition=1).error_code
    requested = DescribableLogDirTopic(topic="described", partitions=(0, 1, 7))
    answer = brokers.ask(201, DESCRIBE_LOG_DIRS, DescribeLogDirsRequest(topics=(requested,)))
    assert isinstance(answer, DescribeLogDirsResponse)
    (directory,) = answer.results
    assert directory.log_dir == str(brokers.nodes[201].root / "logs")
    assert directory.total_bytes > directory.usable_bytes > 0
    (found,) = directory.topics
    assert [(p.partition_index, p.partition_size, p.offset_lag) for p in found.partitions] == [
        (0, 0, 0),
        (1, len(data), 0),
    ]
    everything = brokers.ask(201, DESCRIBE_LOG_DIRS, DescribeLogDirsRequest(topics=None))
    assert isinstance(everything, DescribeLogDirsResponse)
    assert "described" in {each.name for each in everything.results[0].topics}
    for path, name, code in (
        (directory.log_dir, "described", 0),
        ("/elsewhere", "described", ErrorCode.LOG_DIR_NOT_FOUND),
        (directory.log_dir, "unknown", ErrorCode.REPLICA_NOT_AVAILABLE),
    ):
        topics = (AlterReplicaLogDirTopic(name=name, partitions=(0,)),)
        body = AlterReplicaLogDirsRequest(dirs=(AlterReplicaLogDir(path=path, topics=topics),))
        altered = brokers.ask(201, ALTER_REPLICA_LOG_DIRS, body)
        assert isinstance(altered, AlterReplicaLogDirsResponse)
        assert [each.error_code for each in altered.results[0].partitions] == [code]


def test_broker_whose_directories_are_cordoned_gets_no_new_replicas(
    brokers: PythonBrokers,
) -> None:
    """The controllers learn of it from a heartbeat. They place a topic that names no broker."""
    topic = CreatableTopic(
        name="placed", num_partitions=1, replication_factor=1, assignments=(), configs=()
    )
    body = CreateTopicsRequest(topics=(topic,), timeout_ms=10_000, validate_only=True)

    def code() -> int:
        answer = brokers.ask(201, CREATE_TOPICS, body)
        assert isinstance(answer, CreateTopicsResponse)
        return answer.topics[0].error_code

    def is_cordoned() -> bool:
        answer = brokers.ask(201, DESCRIBE_LOG_DIRS, DescribeLogDirsRequest(topics=()))
        assert isinstance(answer, DescribeLogDirsResponse)
        return answer.results[0].is_cordoned

    assert (code(), is_cordoned()) == (ErrorCode.NONE, False)
    alter_broker(brokers, 201, {"cordoned.log.dirs": "*"})
    wait_until(lambda: code() == ErrorCode.INVALID_REPLICATION_FACTOR, "it is cordoned", 60)
    assert is_cordoned()
    alter_broker(brokers, 201, {"cordoned.log.dirs": ""})
    wait_until(lambda: code() == ErrorCode.NONE, "it is not cordoned any more", 60)
    assert not is_cordoned()


@pytest.mark.long
@pytest.mark.timeout(300)
def test_deleted_records_are_removed_permanently_from_every_live_replica(tmp_path: Path) -> None:
    with running_brokers(tmp_path, 2) as brokers:
        topic = brokers.create_topic("t", [201, 202])
        for _ in range(10):
            assert not brokers.produce_bytes(201, topic, keyed((None, b"v"))).error_code
        wait_until(lambda: not delete_records(brokers, 201, "t", 0).error_code, "followed", 60)
        process = brokers.nodes[202].process
        assert process is not None
        os.kill(process.pid, signal.SIGSTOP)
        late = delete_records(brokers, 201, "t", 4, timeout_ms=300)
        assert (late.error_code, late.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, 0)
        os.kill(process.pid, signal.SIGCONT)
        done = delete_records(brokers, 201, "t", 4)
        assert (done.error_code, done.low_watermark) == (0, 4)
        refused = delete_records(brokers, 202, "t", 5)
        assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        for broker_id in brokers.nodes:
            wait_until(lambda: "t 0 4" in log_starts(brokers, broker_id), "on both disks", 60)  # noqa: B023
        for node in brokers.nodes.values():
            assert node.process is not None
            node.process.kill()
            node.process.wait(60)
        brokers.start()
        wait_until(lambda: brokers.leader("t", 201) in (201, 202), "somebody leads", 60)
        leader = brokers.leader("t", 201)
        assert leader is not None
        # The high watermark follows the start of the leader.
        found = wait_until(lambda: batches_of(brokers, leader, topic, 4) or None, "records", 60)
        assert found[0].header.base_offset == 4
        assert brokers.fetch(leader, topic, 3).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.requirement("KV3-09")
@pytest.mark.long
@pytest.mark.timeout(300)
def test_replica_of_a_log_that_starts_within_a_batch_joins_the_isr(tmp_path: Path) -> None:
    """DeleteRecords has moved its start there, and batches are fetched as a whole."""
    with running_brokers(tmp_path, 2) as brokers:
        topic = brokers.create_topic("t", [201])
        for _ in range(3):
            assert not brokers.produce(201, topic, [b"v"] * 10).error_code
        assert not delete_records(brokers, 201, "t", 15).error_code
        partition = ReassignablePartition(partition_index=0, replicas=(201, 202))
        body = AlterPartitionReassignmentsRequest(
            topics=(ReassignableTopic(name="t", partitions=(partition,)),)
        )
        brokers.ask(201, ALTER_PARTITION_REASSIGNMENTS, body)
        wait_until(lambda: brokers.isr("t", 201) == {201, 202}, "it is in the ISR", 60)
        wait_until(lambda: "t 0 15" in log_starts(brokers, 202), "its log begins there", 60)
        partition = ReassignablePartition(partition_index=0, replicas=(202,))
        body = AlterPartitionReassignmentsRequest(
            topics=(ReassignableTopic(name="t", partitions=(partition,)),)
        )
        brokers.ask(201, ALTER_PARTITION_REASSIGNMENTS, body)
        wait_until(lambda: brokers.leader("t", 202) == 202, "it leads", 60)

        def ranges() -> list[tuple[int, int]]:
            found = batches_of(brokers, 202, topic, 15)
            return [(each.header.base_offset, each.header.end_offset) for each in found]

        # The high watermark follows the start of the leader.
        wait_until(lambda: ranges() == [(10, 20), (20, 30)], "whole batches", 60)


@pytest.mark.long
@pytest.mark.timeout(300)
def test_broker_killed_during_compaction_keeps_every_newest_value(tmp_path: Path) -> None:
    with running_brokers(tmp_path, 1) as brokers:
        alter_brokers(brokers, OFTEN | {"log.cleaner.io.max.bytes.per.second": "2000000"})
        topic = brokers.create_topic("t", [201], **COMPACTS)
        wanted: dict[bytes | None, bytes | None] = {}
        folder = brokers.log_folder(201, "t")
        numbers = count()

        def produce() -> None:
            number = next(numbers)
            key, value = b"k%d" % (number % 7), VALUE + b"%d" % number
            wanted[key] = value
            assert not brokers.produce_bytes(201, topic, keyed((key, value))).error_code

        def compaction_writes() -> bool:
            """It may have ended with what there was: then it begins again with more."""
            produce()
            return any(folder.glob("*.cleaned"))

        for _ in range(4):
            for _ in range(40):
                produce()
            wait_until(compaction_writes, "compaction writes", 60)
            process = brokers.nodes[201].process
            assert process is not None
            os.kill(process.pid, 9)
            process.wait(60)
            brokers.start()
            # The high watermark follows the start of the leader.
            wait_until(
                lambda: newest_values(batches_of(brokers, 201, topic)) == wanted, "all is there", 30
            )


def test_log_directory_of_another_broker_is_refused_unchanged(tmp_path: Path) -> None:
    with running_brokers(tmp_path, 1) as brokers:
        node = brokers.nodes[201]
        brokers.create_topic_at(201, "t", [201], [201])
        assert node.terminate() == ExitCode.OK
        meta = brokers.log_folder(201, "t").parent / "meta.properties"
        # As an administrator edits it, or a stock broker writes it: without our checksum.
        lines = [each for each in meta.read_text().splitlines() if not each.startswith("#")]
        meta.write_text("\n".join(lines).replace("node.id=201", "node.id=202") + "\n")
        before = meta.read_text()
        node.start()
        assert node.wait_exit() == ExitCode.IDENTITY_MISMATCH
        assert "belongs to node.id=202" in node.log_text
        assert meta.read_text() == before
        meta.write_text(before.replace("node.id=202", "node.id=201"))
        node.start()
        wait_until(lambda: brokers.leader("t", 201) == 201, "it runs on its own directory", 60)


@pytest.mark.parametrize("content", [b"", b"\x00\xff\x1b[2J\n" * 20], ids=["empty", "binary"])
def test_unreadable_identity_of_a_log_directory_ends_the_start_and_is_left_unchanged(
    content: bytes, tmp_path: Path
) -> None:
    with running_brokers(tmp_path, 1) as brokers:
        node = brokers.nodes[201]
        brokers.create_topic_at(201, "t", [201], [201])
        assert node.terminate() == ExitCode.OK
        meta = brokers.log_folder(201, "t").parent / "meta.properties"
        meta.write_bytes(content)
        node.start()
        assert node.wait_exit() == ExitCode.STORAGE_FAILED
        assert f"{meta} is damaged" in node.log_text
        assert "\x1b" not in node.log_text
        assert meta.read_bytes() == content


def test_log_directory_with_the_directory_id_of_the_metadata_is_refused(tmp_path: Path) -> None:
    with running_brokers(tmp_path, 1) as brokers:
        node = brokers.nodes[201]
        brokers.create_topic_at(201, "t", [201], [201])
        assert node.terminate() == ExitCode.OK
        meta = brokers.log_folder(201, "t").parent / "meta.properties"
        before = meta.read_text()
        meta.write_text((node.data_dir / "meta.properties").read_text())
        node.start()
        assert node.wait_exit() == ExitCode.IDENTITY_MISMATCH
        assert (
            f"{meta} has the same directory.id as {node.data_dir / 'meta.properties'}"
            in node.log_text
        )
        meta.write_text(before)
        node.start()
        wait_until(lambda: brokers.leader("t", 201) == 201, "it runs on its own directory", 60)


def test_synced_damage_in_one_log_ends_the_broker_and_costs_no_record(tmp_path: Path) -> None:
    """As a stock broker ends whose only log directory fails. The other replica has everything, and leads.

    A stock broker would truncate the log there, and acknowledge that as its end: if no other replica is left, records are lost.
    """
    with running_brokers(tmp_path, 2) as brokers:
        topic = brokers.create_topic_at(201, "t", [201, 202], [201, 202])
        sent = [b"a" * 500, b"b" * 500, b"c" * 500]
        for value in sent:
            assert brokers.produce(201, topic, [value], acks=-1).error_code == ErrorCode.NONE
        node = brokers.nodes[201]
        # A graceful stop syncs the log and notes how far.
        assert node.terminate() == ExitCode.OK
        brokers.start()
        wait_until(lambda: brokers.isr("t", 202) == {201, 202}, "both have it", 60)
        node.kill()
        segment = brokers.log_folder(201, "t") / f"{0:020}.log"
        content = bytearray(segment.read_bytes())
        content[content.index(b"bbbb")] ^= 1
        segment.write_bytes(content)
        node.start()
        assert node.wait_exit() == ExitCode.STORAGE_FAILED
        assert f"{segment} is damaged after offset 1" in node.log_text
        assert segment.read_bytes() == content, "nothing of it was truncated"
        wait_until(lambda: brokers.leader("t", 202) == 202, "the other one leads", 60)
        assert brokers.read_all(202, topic) == sent
        node.start()
        assert node.wait_exit() == ExitCode.STORAGE_FAILED, "this disk is not used again"
