"""The history of a small quorum through the pipeline, end to end: the short form of test_end_to_end.py, without brokers.

The archive follows while the leader is killed and a voter's disk is replaced, ends and resumes; nodes dump their images meanwhile.
"""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from quorum_node.records.identity import parse_uuid
from quorum_pipeline.__main__ import main
from quorum_pipeline.files.log_directory import open_log
from quorum_pipeline.files.restored_directory import FirstVoter, write_directory
from quorum_pipeline.live.controllers import controllers_of
from quorum_pipeline.spark.archive import Archive
from quorum_pipeline.spark.archive_job import ArchiveJob
from quorum_pipeline.state.moment import Moment
from support.flipped_bit import flipped_bit
from support.following_archive import following
from support.local_quorum import LocalQuorum, wait_until
from support.snapshot_dumps import SnapshotDumps
from support.written_archive import archived_state

pytestmark = pytest.mark.timeout(300)

SEED = 6


@pytest.mark.requirement("SP-01", "SP-02", "SP-03", "SP-04", "SP-05", "SP-07", "K595-30")
def test_quorum_is_restored_from_an_archive(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = Archive(spark, str(tmp_path / "archive"))
    with LocalQuorum(tmp_path / "quorum", quorum_snapshot_handover="false") as quorum:
        dumps = SnapshotDumps(quorum, tmp_path / "dumps", SEED)
        quorum.form()
        servers = ",".join(f"127.0.0.1:{node.port}" for node in quorum.nodes.values())
        with following(archive, controllers_of(servers)):
            live_on(quorum, dumps)
            committed = int(quorum.describe()["highWatermark"])
            wait_until(lambda: archive.contents().end >= committed, "all is archived", 90)
        end = quorum.put("after", "the query")["endOffset"]
        dump_newer(quorum, dumps)
        ArchiveJob(archive, controllers_of(servers), 1_000_000, None).run(lambda end: None, print)
        records = list(quorum.log_records(quorum.leader.id))
        replicas = sorted(path.parent for path in (tmp_path / "quorum").glob("*/data/__cl*-0"))
    rows = archive.read().select("offset", "type").orderBy("offset").collect()
    # Controllers that came back may have registered since then.
    assert len(rows) >= end
    assert rows == [(each["offset"], each["type"]) for each in records[: len(rows)]]
    assert len(dumps.files) >= 4
    for name, path in dumps.files.items():
        state = archived_state(tmp_path / "archive", Moment(offset=int(name[:20])))
        assert b"".join(state.snapshot()) == path.read_bytes(), name
    timeline_shows(records, replicas[0], tmp_path)
    damage_is_found(replicas, capsys)
    quorum_starts_from_restore(tmp_path)


def dump_newer(quorum: LocalQuorum, dumps: SnapshotDumps) -> None:
    """Until there is one more: a follower may not have learnt yet that the last record is committed."""
    before = len(dumps.files)

    def is_there() -> bool:
        dumps.dump(quorum.client)
        return len(dumps.files) > before

    wait_until(is_there, "another image is dumped")


def live_on(quorum: LocalQuorum, dumps: SnapshotDumps) -> None:
    """The leader fails, and returns; a follower loses its disk, and another replica replaces it."""
    quorum.put("first", "1")
    dump_newer(quorum, dumps)
    dead = quorum.leader
    dead.kill()
    quorum.put("second", "2")
    dump_newer(quorum, dumps)
    dead.start()
    quorum.wait_caught_up(dead.id)
    lost = quorum.followers[-1]
    old_uuid = quorum.local(lost.id)["replicaUuid"]
    lost.kill()
    quorum.add_node(lost.id).start()
    quorum.wait_caught_up(lost.id)
    quorum.add_voter(lost.id, countNewcomer=True)
    dump_newer(quorum, dumps)
    quorum.remove_voter(lost.id, old_uuid)


def timeline_shows(records: list[dict[str, Any]], source: Path, root: Path) -> None:
    page, file = root / "timeline.html", root / "timeline.parquet"
    assert (
        main(["timeline", "--log", str(source), "--html", str(page), "--parquet", str(file)]) == 0
    )
    reported = pq.read_table(file).to_pylist()
    elections = [each["at_most_ms"] for each in reported if each["kind"] == "election"]
    taken = [n for n, each in enumerate(records) if each["type"] == "LeaderChange"]
    assert elections == [between(records[max(n - 1, 0)], records[n]) for n in taken]
    assert len(elections) >= 2
    sets = [each for each in records if each["type"] == "VotersRecord"]
    (replaced,) = (each["duration_ms"] for each in reported if each["kind"] == "voter replaced")
    assert replaced == between(*sets[-2:])
    assert "voter replaced:" in page.read_text()


def between(first: dict[str, Any], second: dict[str, Any]) -> int:
    return int(second["timestampMs"]) - int(first["timestampMs"])


def damage_is_found(replicas: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert len(replicas) == 4
    assert main(["audit", *map(str, replicas)]) == 0, capsys.readouterr().out
    log = next(log for log in map(open_log, replicas) if log.snapshots)
    for file in (log.segments[0].path, log.path / log.snapshots[-1].file_name):
        capsys.readouterr()
        with flipped_bit(file, file.stat().st_size * 2 // 3):
            assert main(["audit", *map(str, replicas)]) == 1
        output = capsys.readouterr().out.splitlines()
        assert output[0].startswith(f"FOUND {log.path.parent}: {file.name}, byte "), output
        assert ", offset " in output[0]
        assert not any(line.startswith("FOUND") for line in output[1:]), output


def quorum_starts_from_restore(root: Path) -> None:
    with LocalQuorum(root / "new", nodes=1, initial_voters=1) as quorum:
        node = quorum.nodes[1]
        voter = FirstVoter(1, parse_uuid(quorum.founder_uuid), node.host, node.port)
        write_directory(
            node.data_dir, archived_state(root / "archive", Moment()), voter, quorum.cluster_id
        )
        node.start()
        assert quorum.wait_leader() == 1
        assert quorum.get("after") == "the query"
        assert quorum.voter_ids() == [1]
