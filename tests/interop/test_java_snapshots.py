"""A node of ours joins a quorum of stock Kafka from a snapshot that stock Kafka wrote."""

from pathlib import Path

import pytest

from quorum_node.records.batches import split_batches
from quorum_node.records.snapshot_id import NO_SNAPSHOT, SnapshotId, parse_snapshot_name
from support import stock_kafka
from support.java_quorum import LOG_DIRECTORY, JavaQuorum, log_bytes
from support.local_quorum import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(600)]

OURS = 7


@pytest.mark.requirement("K853-08")
def test_new_replica_joins_from_a_stock_snapshot(tmp_path: Path) -> None:
    """Downloads it, becomes a voter behind it, and has everything after restarts and a new leader, too."""
    with JavaQuorum(tmp_path, metadata_log_max_record_bytes_between_snapshots="4000") as quorum:
        quorum.start()
        java = quorum.controllers[1]
        for number in range(60):
            quorum.put(f"before-{number}", "x" * 100)
        newest = wait_until(lambda: newest_snapshot(java.log_directory), "a stock snapshot", 120)
        assert newest.end_offset > 0

        node = quorum.add_node(OURS, quorum_witness="true")
        node.start()
        quorum.wait_ready(node)
        started_at = quorum.local(node)["logStartOffset"]
        assert started_at >= newest.end_offset, "not from the beginning of the log"
        quorum.wait_value(node, "before-59", "x" * 100)
        quorum.wait_value(node, "before-0", "x" * 100)
        ours = node.data_dir / LOG_DIRECTORY
        (copy,) = [path for path in snapshots(ours) if path.name.startswith(f"{started_at:020d}")]
        assert copy.read_bytes() == (java.log_directory / copy.name).read_bytes()

        quorum.add_controller(node)
        quorum.put("after", "it became a voter")
        quorum.wait_value(node, "after", "it became a voter")
        uuid = quorum.local(node)["replicaUuid"]
        assert quorum.voters() == {1: java.directory_id, OURS: uuid}

        for number in range(60):  # beyond the next stock snapshot
            quorum.put(f"more-{number}", "x" * 100)
        wait_until(lambda: newest_snapshot(java.log_directory) != newest, "another one", 120)
        node.kill()
        node.start()
        quorum.wait_value(node, "before-7", "x" * 100)
        quorum.wait_value(node, "more-59", "x" * 100)
        java.kill()
        java.start()
        quorum.put("elected", "by ours, which has no log before its snapshot")
        assert quorum.local(node)["logStartOffset"] == started_at
        assert quorum.snapshot(node) > started_at, (
            "our node wrote no snapshot of stock Kafka's records"
        )
        assert copy in snapshots(ours)
        node.kill()
        node.start()
        quorum.wait_value(node, "more-59", "x" * 100)
        assert node.terminate() == 0
        read = stock_kafka.run_tool(
            stock_kafka.DUMP_LOG, "--cluster-metadata-decoder", "--files", str(snapshots(ours)[-1])
        )
        assert read.returncode == 0, read.stderr
        assert '"type":"REGISTER_CONTROLLER_RECORD"' in read.stdout
        assert read.stdout.count('"name":"more-') == 60
        assert_same_suffix(ours, java.log_directory, started_at)


@pytest.mark.requirement("K853-08")
def test_voter_behind_the_deleted_log_of_stock_kafka_loads_a_snapshot(tmp_path: Path) -> None:
    """It was down while the stock voters dropped the log that it needs: a snapshot replaces its own log."""
    with JavaQuorum(
        tmp_path,
        controllers=2,
        metadata_log_max_record_bytes_between_snapshots="4000",
        metadata_max_retention_bytes="12000",
    ) as quorum:
        quorum.start()
        node = quorum.add_node(OURS, quorum_witness="true")
        node.start()
        quorum.wait_ready(node)
        quorum.add_controller(node)
        quorum.put("seen", "before it was down")
        quorum.wait_value(node, "seen", "before it was down")
        assert node.terminate() == 0
        ours = node.data_dir / LOG_DIRECTORY
        end_offset = split_batches(log_bytes(ours))[0][-1].header.end_offset

        for number in range(200):
            quorum.put(f"missed-{number}", "x" * 100)
        both = [each.log_directory for each in quorum.controllers.values()]
        wait_until(
            lambda: all(log_start(directory) > end_offset for directory in both),
            "the stock voters delete the beginning of their logs (they look once a minute)",
            200,
        )
        node.start()
        quorum.wait_value(node, "missed-199", "x" * 100)
        quorum.wait_value(node, "missed-0", "x" * 100)
        quorum.wait_value(node, "seen", "before it was down")
        local = quorum.local(node)
        assert local["isVoter"]
        assert local["logStartOffset"] > end_offset

        quorum.leader.kill()
        quorum.put("elected", "by a voter that begins behind a snapshot")
        quorum.wait_value(node, "elected", "by a voter that begins behind a snapshot")
        for number in range(10):  # the snapshot may have come with the last record before
            quorum.put(f"behind-{number}", "x" * 100)
        quorum.wait_value(node, "behind-9", "x" * 100)
        assert node.terminate() == 0
        assert_same_suffix(ours, quorum.leader.log_directory, local["logStartOffset"])


def log_start(log_directory: Path) -> int:
    """Where the log of a stock controller starts: at its oldest snapshot, the one of formatting included."""
    oldest = min(log_directory.glob("*.checkpoint"))
    found = parse_snapshot_name(oldest.name)
    assert found is not None
    return found.end_offset


def snapshots(log_directory: Path) -> list[Path]:
    """Every complete snapshot of a replica, oldest first, but the one that formatting leaves."""
    found = sorted(log_directory.glob("*.checkpoint"))
    return [path for path in found if path.name != NO_SNAPSHOT.file_name]


def newest_snapshot(log_directory: Path) -> SnapshotId | None:
    """Id of the newest one."""
    found = snapshots(log_directory)
    return parse_snapshot_name(found[-1].name) if found else None


def assert_same_suffix(ours: Path, theirs: Path, start_offset: int) -> None:
    """Our log is theirs from its start on, byte by byte, as far as both reach."""
    data = log_bytes(theirs)
    position = 0
    for batch in split_batches(data)[0]:
        if batch.header.base_offset >= start_offset:
            break
        position += len(batch.data)
    mine = log_bytes(ours)
    shared = min(len(mine), len(data) - position)
    assert shared > 1000
    assert mine[:shared] == data[position : position + shared]
