"""Brokers with several log directories, of which one dies: the others serve on, and no acknowledged record is lost (KIP-858).

The failed disk is an XFS that is shut down: every write and read gives EIO, as of a dead device.
"""

import shutil
import time
from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from quorum_node.exit_codes import ExitCode
from quorum_node.fresh_uuid import fresh_uuid
from quorum_node.protocol.errors import ErrorCode
from quorum_node.records.metadata.metadata_version import DIRECTORIES_LEVEL
from quorum_node.storage.broker.failed_directories import FILE_NAME as FAILED
from quorum_node.storage.failure_latch import FAILURE_MARK
from quorum_node.storage.meta_properties import MetaProperties, write_meta_properties
from support.local_quorum import wait_until
from support.log_directories import TwoDirectories, brokers_with_disks
from support.loop_disk import require_loop_disks

pytestmark = [pytest.mark.slow, pytest.mark.requirement("KV3-07")]

PARTITIONS = 4
MOVED = (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER)


def filled(brokers: TwoDirectories, replicas: list[int]) -> tuple[UUID, dict[int, list[bytes]]]:
    """A topic with records in every partition, which is in sync."""
    topic = brokers.create_topic("t", replicas, partitions=PARTITIONS, min_insync_replicas="1")
    sent: dict[int, list[bytes]] = {}
    for number in range(PARTITIONS):
        sent[number] = [b"first-%d" % number]
        assert not brokers.produce(201, topic, sent[number], partition=number).error_code
    for number in range(PARTITIONS):
        wait_until(
            lambda number=number: brokers.isr("t", 201, number) == set(replicas),  # type: ignore[misc]
            "all are in sync",
            30,
        )
    return topic, sent


def lost_and_kept(brokers: TwoDirectories) -> tuple[set[int], set[int]]:
    """The partitions in directory b and in directory a; the placement balances them."""
    lost, kept = (brokers.partitions_in(201, name, "t") for name in "ba")
    assert len(lost) == len(kept) == PARTITIONS // 2
    assert not lost & kept
    return lost, kept


def wait_led(brokers: TwoDirectories, partitions: set[int], leader: int, isr: set[int]) -> None:
    for number in partitions:
        wait_until(
            lambda number=number: (  # type: ignore[misc]
                brokers.leader("t", 202, number) == leader and brokers.isr("t", 202, number) == isr
            ),
            f"{leader} leads {number} with ISR {isr}",
            # Far less than replica.lag.time.max.ms: the failure is reported.
            15,
        )


def offline_replicas(brokers: TwoDirectories, partition: int) -> tuple[int, ...]:
    found = brokers.metadata(202, ["t"])
    assert found is not None
    return tuple(found.topics[0].partitions[partition].offline_replicas)


@pytest.mark.parametrize("repair", ["empty", "old"])
@pytest.mark.long
def test_failed_directory_is_offline_and_the_other_one_serves(tmp_path: Path, repair: str) -> None:
    require_loop_disks()
    with brokers_with_disks(tmp_path, 2, "b") as (brokers, disks):
        brokers.start()
        topic, sent = filled(brokers, [201, 202])
        lost, kept = lost_and_kept(brokers)
        node = brokers.nodes[201]
        disks["b"].shut_down()
        for number in lost:
            answer = brokers.produce(201, topic, [b"refused"], partition=number)
            assert answer.error_code in MOVED
        wait_led(brokers, lost, 202, {202})
        assert all(offline_replicas(brokers, number) == (201,) for number in lost)
        wait_led(brokers, kept, 201, {201, 202})
        assert brokers.described(201)["b"].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert brokers.partitions_in(201, "a", "t") == kept
        for number in range(PARTITIONS):
            sent[number].append(b"second-%d" % number)
            leader = 202 if number in lost else 201
            assert not brokers.produce(leader, topic, sent[number][1:], partition=number).error_code
        for number in lost:
            assert brokers.fetch(201, topic, 0, number).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        # A start with the dead directory.
        assert node.terminate() == ExitCode.OK
        brokers.start()
        wait_led(brokers, lost, 202, {202})
        for number in kept:
            wait_until(
                lambda number=number: brokers.isr("t", 202, number) == {201, 202},  # type: ignore[misc]
                "the other directory is in sync",
                30,
            )
        assert brokers.described(201)["b"].error_code == ErrorCode.KAFKA_STORAGE_ERROR
        for number in lost:
            assert brokers.fetch(201, topic, 0, number).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        # The repair.
        assert node.terminate() == ExitCode.OK
        disks["b"].remount()
        if repair == "empty":
            shutil.rmtree(brokers.directory(201, "b"))
        else:
            brokers.start()
            assert brokers.described(201)["b"].error_code == ErrorCode.KAFKA_STORAGE_ERROR
            assert "failed before" in node.log_text, "a storage error is never retried"
            assert node.terminate() == ExitCode.OK
            (node.data_dir / FAILED).unlink()
            (brokers.directory(201, "b") / FAILURE_MARK).unlink(missing_ok=True)
        brokers.start()
        for number in range(PARTITIONS):
            wait_until(
                lambda number=number: brokers.isr("t", 202, number) == {201, 202},  # type: ignore[misc]
                "everything is in sync again",
                30,
            )
            wait_until(
                lambda number=number: (  # type: ignore[misc]
                    brokers.read_all(201, topic, number) == sent[number]
                ),
                "the replica has every acknowledged record",
                30,
            )
            assert offline_replicas(brokers, number) == ()
        assert brokers.partitions_in(201, "b", "t") == lost


def test_process_ends_when_the_last_directory_fails(tmp_path: Path) -> None:
    require_loop_disks()
    with brokers_with_disks(tmp_path, 2, "ab") as (brokers, disks):
        brokers.start()
        topic, sent = filled(brokers, [201, 202])
        disks["b"].shut_down()
        # No request finds it: the checkpoint of high watermarks does.
        wait_until(
            lambda: brokers.described(201)["b"].error_code == ErrorCode.KAFKA_STORAGE_ERROR,
            "the failure is noticed",
            20,
        )
        disks["a"].shut_down()
        assert brokers.nodes[201].wait_exit() == ExitCode.STORAGE_FAILED
        wait_led(brokers, set(range(PARTITIONS)), 202, {202})
        for number, values in sent.items():
            wait_until(
                lambda number=number, values=values: (  # type: ignore[misc]
                    brokers.read_all(202, topic, number) == values
                ),
                "the other one has every acknowledged record",
                30,
            )


def test_copy_of_a_directory_is_refused_unchanged(tmp_path: Path) -> None:
    with brokers_with_disks(tmp_path, 1, "") as (brokers, _):
        brokers.start()
        brokers.create_topic("t", [201], partitions=PARTITIONS)
        node = brokers.nodes[201]
        assert node.terminate() == ExitCode.OK
        a, b = (brokers.directory(201, name) / "meta.properties" for name in "ab")
        own = b.read_text()
        b.write_text(a.read_text())
        node.start()
        assert node.wait_exit() == ExitCode.IDENTITY_MISMATCH
        assert f"{b} has the same directory.id as {a}" in node.log_text
        b.write_text(own)
        brokers.start()
        assert len(brokers.partitions_in(201, "b", "t")) == PARTITIONS // 2


def test_several_directories_are_refused_where_directories_have_no_ids(tmp_path: Path) -> None:
    with brokers_with_disks(tmp_path, 1, "", DIRECTORIES_LEVEL - 1) as (brokers, _):
        node = brokers.nodes[201]
        node.start()
        assert node.wait_exit() == ExitCode.BAD_CONFIGURATION
        assert "log.dirs has 2 directories, which needs metadata.version 3.7-IV2" in node.log_text
        assert not brokers.directory(201, "a").exists()


def test_of_two_logs_of_a_replica_the_one_that_the_metadata_names_is_used(tmp_path: Path) -> None:
    with brokers_with_disks(tmp_path, 1, "") as (brokers, _):
        brokers.start()
        topic = brokers.create_topic("t", [201], partitions=PARTITIONS)
        (number, *_others) = brokers.partitions_in(201, "a", "t")
        assert not brokers.produce(201, topic, [b"kept"], partition=number).error_code
        node, name = brokers.nodes[201], f"t-{number}"
        assert node.terminate() == ExitCode.OK
        a, b = (brokers.directory(201, each) for each in "ab")
        shutil.copytree(a / name, b / name)
        identities = [each / "meta.properties" for each in (a, b)]
        before = [each.read_bytes() for each in identities]
        for each in identities:
            write_meta_properties(each.parent, MetaProperties(201, fresh_uuid()))
        node.start()
        assert node.wait_exit() == ExitCode.IDENTITY_MISMATCH
        assert f"two directories of log.dirs have a log of {name}" in node.log_text
        assert (a / name).exists()
        assert (b / name).exists()
        for each, content in zip(identities, before, strict=True):
            each.write_bytes(content)
        brokers.start()
        wait_until(lambda: brokers.leader("t", 201, number) == 201, "it leads", 60)
        wait_until(
            lambda: brokers.read_all(201, topic, number) == [b"kept"], "the record is there", 20
        )
        assert (a / name).exists()
        assert not (b / name).exists()
        assert [each for each in b.iterdir() if each.name.endswith("-stray")]


def test_broker_without_others_leads_what_is_in_the_remaining_directory(tmp_path: Path) -> None:
    require_loop_disks()
    with brokers_with_disks(tmp_path, 1, "b") as (brokers, disks):
        brokers.start()
        topic = brokers.create_topic("t", [201], partitions=PARTITIONS)
        for number in range(PARTITIONS):
            answer = brokers.produce(201, topic, [b"%d" % number], partition=number)
            assert not answer.error_code
        lost, kept = lost_and_kept(brokers)
        disks["b"].shut_down()
        wait_until(
            lambda: all(brokers.leader("t", 201, number) is None for number in lost),
            "they have no leader",
            20,
        )
        brokers.nodes[201].kill()
        brokers.start()
        for number in kept:
            wait_until(
                lambda number=number: brokers.leader("t", 201, number) == 201,  # type: ignore[misc]
                "it leads",
                20,
            )
            wait_until(
                lambda number=number: (  # type: ignore[misc]
                    brokers.read_all(201, topic, number) == [b"%d" % number]
                ),
                "the record is there",
                20,
            )
        assert all(brokers.leader("t", 201, number) is None for number in lost)
        later = brokers.create_topic("later", [201])
        assert not brokers.produce(201, later, [b"new"]).error_code
        assert brokers.partitions_in(201, "a", "later") == {0}


@pytest.mark.long
def test_broker_killed_during_moves_keeps_every_record(tmp_path: Path) -> None:
    random = Random(7)
    with brokers_with_disks(tmp_path, 1, "") as (brokers, _):
        brokers.start()
        topic = brokers.create_topic("t", [201], partitions=PARTITIONS)
        sent: dict[int, list[bytes]] = {number: [] for number in range(PARTITIONS)}
        moved = 0
        for round_ in range(10):
            for number in range(PARTITIONS):
                values = [random.randbytes(200_000) for _ in range(4)]
                assert not brokers.produce(201, topic, values, partition=number).error_code
                sent[number] += values
            before = brokers.partitions_in(201, "a", "t")
            target = str(brokers.directory(201, "ab"[round_ % 2]))
            assert not any(brokers.alter(201, target, "t", *range(PARTITIONS)))
            time.sleep(random.random() * 0.2)  # at any moment of the moves
            brokers.nodes[201].kill()
            brokers.start()
            moved += before != brokers.partitions_in(201, "a", "t")
            for number in range(PARTITIONS):
                wait_until(
                    lambda number=number: brokers.leader("t", 201, number) == 201,  # type: ignore[misc]
                    "it leads",
                    20,
                )
                wait_until(
                    lambda number=number: (  # type: ignore[misc]
                        brokers.read_all(201, topic, number) == sent[number]
                    ),
                    "every record is there",
                    20,
                )
        assert moved
