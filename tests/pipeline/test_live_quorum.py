"""A running quorum, read without being a replica: all that is committed, through a change of the leader, also by Spark."""

from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from quorum_node.client_tls import tls_of_folder
from quorum_pipeline.__main__ import main
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.live import span_reader
from quorum_pipeline.live.controllers import controllers_of
from quorum_pipeline.live.live_rows import live_rows
from quorum_pipeline.live.quorum import Quorum, parsed_addresses
from quorum_pipeline.live.snapshots import download_snapshot
from quorum_pipeline.spark.archive import Archive
from quorum_pipeline.spark.archive_job import ArchiveJob
from quorum_pipeline.state.moment import Moment
from support.following_archive import following
from support.local_quorum import LocalNode, LocalQuorum, wait_until
from support.patience import PATIENT
from support.replayed_directory import replay_directory
from support.tls_quorum import TlsQuorum
from support.written_archive import archived_state

pytestmark = pytest.mark.long

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def bootstrap(quorum: LocalQuorum) -> str:
    return ",".join(f"{node.host}:{node.port}" for node in quorum.nodes.values())


def offsets(reader: Quorum, start: int, end: int) -> list[int]:
    found = live_rows(reader, start, end, keep_problems=False)
    return [offset for rows in found for offset in rows.offsets]


def snapshot_of(quorum: LocalQuorum, node: LocalNode) -> Path:
    """A snapshot that a node writes of its own image."""
    answer = quorum.client.post(f"{node.admin_url}/v1/snapshot", timeout=60)
    assert answer.is_success, answer.text
    return max((node.data_dir / "__cluster_metadata-0").glob("*.checkpoint"))


@pytest.mark.requirement("SP-01")
def test_log_is_read_across_a_leader_change(tmp_path: Path) -> None:
    with LocalQuorum(tmp_path) as quorum:
        quorum.form()
        for number in range(20):
            quorum.put(f"key-{number}", str(number))
        with closing(Quorum(parsed_addresses(bootstrap(quorum)), 20)) as reader:
            before = reader.committed()
            assert before.start_offset == 0
            expected = [each["offset"] for each in quorum.log_records(quorum.leader.id)]
            assert offsets(reader, 0, before.end_offset) == expected[: before.end_offset]
            assert offsets(reader, 5, 9) == [5, 6, 7, 8]
            quorum.leader.kill()
            quorum.put("after", "1")
            after = reader.committed()
            assert after.end_offset > before.end_offset
            wanted = list(range(before.end_offset, after.end_offset))
            assert offsets(reader, before.end_offset, after.end_offset) == wanted
        for node in quorum.nodes.values():
            if node.is_running:
                node.kill()
        with (
            closing(Quorum(parsed_addresses(bootstrap(quorum)), 1)) as reader,
            pytest.raises(PipelineError, match="no leader answered within 1 s"),
        ):
            reader.committed()


@pytest.mark.requirement("SP-01", "SP-03", "K595-30")
def test_downloaded_snapshot_equals_the_state_of_the_log(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The node's own image, not ours: it wrote the snapshot, and we replay the log."""
    with LocalQuorum(tmp_path, properties=PATIENT) as quorum:
        quorum.form()
        for number in range(30):
            quorum.put(f"key-{number}", str(number))
        leader = quorum.leader
        path = snapshot_of(quorum, leader)
        with closing(Quorum(parsed_addresses(bootstrap(quorum)))) as reader:
            newest = wait_until(reader.newest_snapshot, "the leader offers its snapshot")
            assert newest.file_name == path.name
            fetched = download_snapshot(reader, tmp_path)
        assert fetched.path.read_bytes() == path.read_bytes()
        source = spark.read.format("metadata_snapshot")
        columns = ("snapshot", "offset", "type", "value")
        live = source.option("bootstrap", bootstrap(quorum)).load().select(*columns).collect()
        source = spark.read.format("metadata_snapshot")
        assert live == source.load(str(path)).select(*columns).collect()
        log = path.parent
        saved = path.read_bytes()
        path.rename(tmp_path / "aside")
        state = replay_directory(log, Moment(offset=newest.end_offset))
        assert b"".join(state.snapshot()) == saved


@pytest.mark.requirement("SP-01", "SP-02", "SP-03")
def test_running_quorum_is_archived_across_a_leader_failure(
    spark: SparkSession, tmp_path: Path
) -> None:
    with LocalQuorum(tmp_path / "quorum") as quorum:
        quorum.form()
        quorum.put("first", "1")
        archive = Archive(spark, str(tmp_path / "archive"))
        with following(archive, controllers_of(bootstrap(quorum))):
            wait_until(lambda: archive.contents().end > 0, "the first range", 90)
            dead = quorum.leader
            dead.kill()
            quorum.put("second", "2")
            end = int(quorum.describe()["highWatermark"])
            wait_until(lambda: archive.contents().end >= end, "what followed is archived", 90)
        path = snapshot_of(quorum, quorum.leader)
        controllers = controllers_of(bootstrap(quorum))
        ArchiveJob(archive, controllers, 1_000_000, None).run(lambda end: None, print)
        found = archive.contents()
        rows = [row.offset for row in archive.read().select("offset").orderBy("offset").collect()]
        assert rows == list(range(found.end))
        state = archived_state(tmp_path / "archive", Moment(offset=int(path.name[:20])))
        assert b"".join(state.snapshot()) == path.read_bytes()


def test_spans_are_read_from_all_voters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the archiver's certificate, and without those that have stopped."""
    monkeypatch.setattr(span_reader, "WORTH_OFFSETS", 2)
    with TlsQuorum(tmp_path, authorizer_class_name=AUTHORIZER) as quorum:
        quorum.form()
        for number in range(20):
            quorum.put(f"key-{number}", str(number))
        quorum.issue_for("archiver", None)
        controllers = controllers_of(bootstrap(quorum), str(quorum.folder("archiver")))
        with closing(controllers.open()) as reader:
            end = reader.committed().end_offset // 3 * 3
            step = end // 3

            def servers() -> set[str]:
                found = set()
                for begin in range(0, end, step):
                    for rows in live_rows(reader, begin, begin + step, keep_problems=False):
                        found.add(rows.source)
                return found

            # A follower learns with its next fetch what is committed.
            wait_until(lambda: len(servers()) == 3, "each voter serves a third")
            next(each for each in quorum.nodes.values() if each is not quorum.leader).kill()
            assert offsets(reader, 0, end) == list(range(end))
            assert len(servers()) == 2


def test_quorum_with_tls_is_archived_with_a_client_certificate(
    spark: SparkSession, tmp_path: Path
) -> None:
    """By the driver and by its tasks; a reader is not allowed to read the log, and no client is without a certificate."""
    with TlsQuorum(tmp_path / "quorum", authorizer_class_name=AUTHORIZER) as quorum:
        quorum.form()
        quorum.put("kept", "1")
        for role in ("archiver", "reader"):
            quorum.issue_for(role, None)
        folder = quorum.folder("archiver")
        config = tmp_path / "client.properties"
        config.write_text(
            f"security.protocol=SSL\nssl.keystore.location={folder}/keystore.pem\n"
            f"ssl.truststore.location={folder}/ca.crt\n"
        )
        for given in ({"tls": str(folder)}, {"commandConfig": str(config)}):
            source = spark.read.format("metadata_log").option("bootstrap", bootstrap(quorum))
            rows = source.options(**given).load().select("offset").collect()
            assert sorted(row.offset for row in rows) == list(range(len(rows)))
        controllers = controllers_of(bootstrap(quorum), str(folder))
        archive = Archive(spark, str(tmp_path / "archive"))
        ArchiveJob(archive, controllers, 1_000_000, None).run(lambda end: None, print)
        assert archive.contents().end >= len(rows)
        live = ["state", "--bootstrap", bootstrap(quorum), "--snapshot", str(tmp_path / "live")]
        assert main([*live, "--tls", str(folder)]) == 0
        (path,) = (tmp_path / "live").iterdir()
        state = replay_directory(quorum.leader.data_dir, Moment(offset=int(path.name[:20])))
        assert path.read_bytes() == b"".join(state.snapshot())
        addresses, tls = parsed_addresses(bootstrap(quorum)), tls_of_folder(quorum.folder("reader"))
        with (
            closing(Quorum(addresses, 3, tls)) as reader,
            pytest.raises(PipelineError, match="CLUSTER_AUTHORIZATION_FAILED"),
        ):
            reader.committed()
        in_clear_text = Quorum(addresses, 2)
        with closing(in_clear_text) as stranger, pytest.raises(PipelineError, match="no leader"):
            stranger.committed()


@pytest.mark.requirement("SP-07")
def test_quorum_starts_from_a_restored_snapshot(tmp_path: Path) -> None:
    """What came later is not there; the new quorum takes writes and grows."""
    with LocalQuorum(tmp_path / "old") as old:
        old.form()
        old.put("kept", "1")
        offset = int(old.describe()["highWatermark"])
        old.put("lost", "1")
        source = old.leader.data_dir
    with LocalQuorum(tmp_path / "new", nodes=2, initial_voters=1) as new:
        node = new.nodes[1]
        arguments = ["restore", "--log", str(source), "--at-offset", str(offset)]
        arguments += ["--output", str(node.data_dir), "--voter", f"1@{node.host}:{node.port}"]
        arguments += ["--replica-uuid", new.founder_uuid, "--cluster-id", new.cluster_id]
        assert main(arguments) == 0
        node.start()
        assert new.wait_leader() == 1
        assert new.get("kept") == "1"
        assert new.get("lost") is None
        new.put("after", "2")
        new.nodes[2].start()
        new.add_voter(2)
        assert new.voter_ids() == [1, 2]
        assert new.describe()["highWatermark"] > offset
