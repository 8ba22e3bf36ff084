"""Partitions on disk: stock Kafka's tool reads the files, and each broker continues on the directory of the other."""

import re
from pathlib import Path

import pytest

from quorum_node.records.batches import Record
from quorum_node.storage.broker.batch_walk import batch_at
from quorum_node.storage.broker.compaction import cleanable_part, compact
from quorum_node.storage.broker.log_directory import LogDirectory
from quorum_node.storage.broker.log_settings import LogSettings
from quorum_node.storage.broker.offset_checkpoint import TopicPartition
from quorum_node.storage.broker.partition_log import PartitionLog
from support import stock_kafka
from support.data_batches import data_batch, end_of_transaction
from support.java_brokers import SIGTERM_EXIT, JavaBrokers
from support.local_quorum import LocalQuorum

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

SETTINGS = LogSettings(
    segment_bytes=2_000, index_interval_bytes=200, compacts=True, file_delete_delay_ms=0
)
DUMPED = {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}
_COMPLAINTS = re.compile(r"(?i)mismatch|not found|corrupt|invalid|error|exception|isvalid: false")


def dumped(files: list[Path], *options: str) -> str:
    done = stock_kafka.run_tool(
        stock_kafka.DUMP_LOG, *options, "--files", ",".join(map(str, files)), timeout_seconds=180
    )
    assert done.returncode == 0, done.stderr
    assert not _COMPLAINTS.search(done.stdout + done.stderr), done.stdout + done.stderr
    return done.stdout


def filled(directory: Path) -> PartitionLog:
    """Producers, transactions, keys, tombstones, several segments, epochs, a cut."""
    log = PartitionLog.open(directory, SETTINGS, clock_ms=lambda: 3_000)
    for offset in range(0, 120, 4):
        producer, epoch = offset // 4 % 3, offset // 40
        keyed = [Record(f"k{offset % 24}".encode(), b"v" * 20), Record(b"t", None)]
        log.append([
            data_batch(offset, epoch=epoch, producer_id=producer, sequence=offset, transactional=True,
                       timestamp_ms=1_000 + offset, records=keyed),
            data_batch(offset + 2, epoch=epoch, timestamp_ms=900 + offset, records=keyed[:1]),
            end_of_transaction(offset + 3, producer, abort=offset % 8 == 0, epoch=epoch),
        ])  # fmt: skip
    log.truncate_to(111)
    log.append([data_batch(111, epoch=7, records=[Record(b"k", b"v")])])
    return log


def test_stock_tool_reads_segments_indexes_and_snapshots(tmp_path: Path) -> None:
    log = filled(tmp_path)
    log.close()
    assert len(log.segments) > 3
    files = [each for each in sorted(tmp_path.iterdir()) if each.suffix in DUMPED]
    assert {each.suffix for each in files if each.stat().st_size} == DUMPED
    text = dumped(files, "--deep-iteration")
    bases = [int(found) for found in re.findall(r"^baseOffset: (\d+)", text, re.MULTILINE)]
    assert bases == sorted(bases)
    assert bases[-1] == 111
    assert "producerId: 2 producerEpoch: 0" in text
    assert "firstOffset: " in text


def test_stock_tool_reads_compacted_segments(tmp_path: Path) -> None:
    """But for `.timeindex`: the tool compares it with records, and batches that are kept empty have none."""
    log = filled(tmp_path)
    log.roll()
    size_bytes = log.size_bytes
    compact(log, cleanable_part(log, 60, 112, 3_000), 3_000)
    log.close()
    assert log.size_bytes < size_bytes
    kept = DUMPED - {".timeindex"}
    files = [each for each in sorted(tmp_path.iterdir()) if each.suffix in kept]
    text = dumped(files, "--deep-iteration")
    bases = [int(found) for found in re.findall(r"^baseOffset: (\d+)", text, re.MULTILINE)]
    assert bases == sorted(bases)
    assert "deleteHorizonMs: OptionalLong[" in text


def only_log(data: Path) -> tuple[LogDirectory, PartitionLog, TopicPartition]:
    identity = dict(
        line.split("=", 1)
        for line in (data / "meta.properties").read_text().splitlines()
        if "=" in line and not line.startswith("#")
    )
    directory = LogDirectory(
        data, node_id=int(identity["node.id"]), cluster_id=identity["cluster.id"]
    )
    found = {name: topic_id for name, topic_id in directory.replicas().items() if name[0] == "t"}
    ((replica, topic_id),) = found.items()
    assert topic_id is not None
    settings = LogSettings(segment_bytes=20_000)
    return directory, directory.open_log(replica, topic_id, settings), replica


def batch_count(log: PartitionLog) -> int:
    """Reads all of it."""
    offset, count = log.start_offset, 0
    while data := log.read(offset, 1 << 20):
        at = 0
        while at < len(data):
            batch = batch_at(data, at, at, len(data))
            assert batch.base_offset == offset, "no gap, as nothing was compacted"
            at, offset, count = at + batch.size_bytes, batch.end_offset, count + 1
    assert offset == log.end_offset
    return count


@pytest.mark.long
@pytest.mark.timeout(600)
def test_each_broker_continues_on_the_directory_of_the_other(tmp_path: Path) -> None:
    """Cleanly and by kill -9: the same end, producers that are still known, and no message lost."""
    with LocalQuorum(tmp_path / "quorum") as quorum:
        quorum.form()
        with JavaBrokers.on(quorum, tmp_path, 1, log_segment_bytes="1048576") as brokers:
            broker = brokers.brokers[101]
            data = broker.root / "data"
            brokers.start()
            brokers.wait_for([101])
            clients = brokers.clients
            clients("create t 1 1")
            clients.start_load("t", 500)
            clients.wait_for_load("t", 500)
            for ends_cleanly in (True, False, True):
                if ends_cleanly:
                    assert broker.terminate() == SIGTERM_EXIT
                else:
                    broker.kill()
                directory, log, replica = only_log(data)
                assert directory.was_closed == ends_cleanly
                end_offset, batches = log.end_offset, batch_count(log)
                assert end_offset >= 500
                assert log.producers()
                log.roll()
                snapshot = log.producers()
                log.append([
                    # The leader of the present epoch wrote something more, without a producer.
                    data_batch(end_offset, epoch=log.epoch_history.latest, records=[Record(None, b"-1")])
                ])  # fmt: skip
                log.truncate_to(end_offset)
                assert batch_count(log) == batches
                assert {p.producer_id: p.batches[-1] for p in log.producers()} == {
                    p.producer_id: p.batches[-1] for p in snapshot
                }
                directory.write_high_watermarks({replica: end_offset})
                directory.close(broker_epoch=directory.closed_epoch or 0)
                dumped(sorted(log.directory.glob("*.log")), "--deep-iteration")
                dumped(sorted(log.directory.glob("*.index")))
                broker.start()
                brokers.wait_for([101])
                clients.wait_for_load("t", 300)
            clients.prove_nothing_lost("t", "readers", 60)
            assert broker.terminate() == SIGTERM_EXIT
            _, log, _ = only_log(data)
            batch_count(log)
