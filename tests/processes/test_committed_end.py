"""Nodes record in their directory which records are committed; the pipeline reads no further."""

import threading
from pathlib import Path

from quorum_node.storage.synced_end import FILE_NAME
from quorum_pipeline.files.log_directory import PARTITION_DIRECTORY, open_log
from support.local_quorum import LocalQuorum, wait_until
from support.patience import PATIENT


def committed_end(directory: Path) -> int:
    return open_log(directory / PARTITION_DIRECTORY).committed_end_offset() or 0


def nothing_more_is_written(quorum: LocalQuorum) -> None:
    """Wait until all controllers have registered: by themselves they write nothing after that."""
    wait_until(lambda: quorum.registered().keys() == quorum.nodes.keys(), "all have registered")


def test_every_voter_records_the_committed_end_within_two_seconds(make_quorum) -> None:
    quorum: LocalQuorum = make_quorum(3, formed=True, properties=PATIENT)
    nothing_more_is_written(quorum)
    quorum.put("name", "value")
    end = quorum.describe()["highWatermark"]

    def recorded() -> list[int]:
        return [committed_end(node.data_dir) for node in quorum.nodes.values()]

    wait_until(lambda: min(recorded()) >= end, "the committed end is recorded", 10)
    leader = quorum.leader
    quorum.put("name", "another value")
    assert leader.terminate() == 0
    log = open_log(leader.data_dir / PARTITION_DIRECTORY)
    assert log.recorded is not None
    assert log.end_offset() == log.committed_end_offset() == log.recorded.end_offset


def test_commit_that_comes_long_after_the_flush_is_recorded(make_quorum) -> None:
    """Nothing is written afterwards that would cause another record."""
    quorum: LocalQuorum = make_quorum(3, formed=True, properties=PATIENT)
    nothing_more_is_written(quorum)
    leader, followers = quorum.leader, quorum.followers
    before = quorum.put("name", "value")["endOffset"]
    wait_until(lambda: committed_end(leader.data_dir) >= before, "the value before", 10)
    for follower in followers:
        follower.freeze()
    try:
        writer = threading.Thread(target=quorum.put, args=("name", "another value"))
        writer.start()

        def flushed() -> bool:
            recorded = open_log(leader.data_dir / PARTITION_DIRECTORY).recorded
            return recorded is not None and recorded.end_offset > before

        wait_until(flushed, "the end of the log is recorded", 10)
        file = leader.data_dir / PARTITION_DIRECTORY / FILE_NAME
        noted_at = file.stat().st_mtime_ns
        wait_until(lambda: file.stat().st_mtime_ns > noted_at, "that end is made durable", 10)
        assert committed_end(leader.data_dir) <= before
    finally:
        for follower in followers:
            follower.thaw()
    writer.join()
    wait_until(lambda: committed_end(leader.data_dir) > before, "the commit is recorded", 10)
