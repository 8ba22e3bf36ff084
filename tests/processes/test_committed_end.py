"""Nodes record in their directory which records are committed; the pipeline reads no further."""

from pathlib import Path

from quorum_pipeline.files.log_directory import PARTITION_DIRECTORY, open_log
from support.local_quorum import LocalQuorum, wait_until


def committed_end(directory: Path) -> int:
    return open_log(directory / PARTITION_DIRECTORY).committed_end_offset() or 0


def test_every_voter_records_the_committed_end_within_two_seconds(make_quorum) -> None:
    quorum: LocalQuorum = make_quorum(3)
    quorum.form()
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
