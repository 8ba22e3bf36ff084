"""A history, lived by a quorum of ours with stock brokers, goes through every command of the pipeline.

While topics come, the leader and a broker are killed, a voter's disk is replaced and partitions move, `archive
--follow` runs as a
process, is killed itself and goes on. Live nodes, chosen by chance, dump their images all the while. Shown, afterwards:

* the state at ten of the dumped offsets, from the archive, is byte for byte what the nodes wrote there, and record for
record what
  a stock controller wrote that observed them (stock Kafka orders records by a hash);
* the timeline has the failover, the broker, the replacement and the moves, with the times that stock `kafka-dump-log`
prints;
* nothing is found in all replicas, the lost disk's included; one flipped bit in a segment or a snapshot of one is, and
is named;
* stock `kafka-reassign-partitions` carries out what `plan` wrote;
* a node boots from what `restore` wrote, and stock tools, a stock broker and stock clients find the cluster there.
"""

import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from quorum_node.records.batches import split_batches
from quorum_node.records.control import VotersRecord
from quorum_node.records.identity import Endpoint, ReplicaKey
from quorum_node.records.plain_records import record_values
from quorum_pipeline.__main__ import main
from quorum_pipeline.audit.normalized_order import with_sorted_lists
from quorum_pipeline.files.log_directory import open_log
from quorum_pipeline.files.snapshot_file import SnapshotFile
from quorum_pipeline.spark.archive import Archive
from quorum_pipeline.state.moment import Moment
from support import stock_kafka
from support.dumped_log import DumpedRecord, batches_of, dumped, records_of
from support.flipped_bit import flipped_bit
from support.java_brokers import JavaBrokers
from support.java_observer import StockObserver
from support.local_quorum import LocalQuorum
from support.pipeline_process import run_pipeline
from support.recorded_history import (
    PATIENCE_SECONDS,
    RecordedHistory,
    Replacement,
    Span,
    archived_end,
)
from support.snapshot_dumps import SnapshotDumps
from support.written_archive import archived_state

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(2400)]

SEED = 20_26
FLIPS = 5
FAILED_BROKER, DRAINED = 102, 103
QUORUM = {
    "broker_session_timeout_ms": "4000",
    # Only the kill changes the leader, not snapshots, of which many are requested.
    "quorum_snapshot_handover": "false",
}
SMALL = {"metadata_log_max_record_bytes_between_snapshots": "200"}
"""For a stock controller to write many snapshots."""
Captured = pytest.CaptureFixture[str]


@dataclass(frozen=True)
class HistoryResult:
    """What is left, and what those who did it know."""

    archive: Path
    replicas: tuple[Path, ...]
    dumps: dict[str, Path]
    stock_dumps: Path
    leader_killed: Span
    broker_killed: Span
    replacement: Replacement
    moved: dict[int, tuple[int, ...]]
    topics: str
    kept: str


@pytest.mark.requirement("SP-01", "SP-02", "SP-03", "SP-04", "SP-05", "SP-06", "SP-07")
def test_recorded_history_passes_through_every_command(
    spark: SparkSession,
    tmp_path: Path,
    capsys: Captured,
    record_property: Callable[[str, object], None],
) -> None:
    history_result = live(tmp_path)
    record_property("offsets", archived_end(history_result.archive))
    record_property("images dumped by nodes", len(history_result.dumps))
    states_are_those_of_the_nodes(spark, history_result, tmp_path)
    states_are_those_of_stock_kafka(spark, history_result, record_property)
    text = dumped([each.path for each in open_log(history_result.replicas[0]).segments])
    timeline_shows(history_result, records_of(text), tmp_path)
    damage_is_found(history_result, capsys)
    quorum_starts_from_restore(history_result, tmp_path)


def live(root: Path) -> HistoryResult:
    with LocalQuorum(root / "quorum", **QUORUM) as quorum:
        quorum.form()
        with (
            StockObserver(root / "observer", quorum, **SMALL) as observer,
            JavaBrokers.on(quorum, root, 3) as brokers,
            SnapshotDumps(quorum, root / "dumps", SEED) as dumps,
        ):
            observer.start()
            history = RecordedHistory(root, quorum, brokers)
            history.begin()
            with history.follow() as archive:
                history.wait_archived(archive)
                leader_killed = history.crash_leader()
                history.wait_archived(archive)
                archive.kill()
            broker_killed = history.crash_broker(FAILED_BROKER)
            with history.follow() as archive:
                replacement = history.disk_is_replaced()
                moved = history.partitions_move()
                plan_is_carried_out(quorum, brokers, history, root)
                clients = brokers.clients
                topics, kept = clients("topics"), clients("describe kept")
                history.wait_archived(archive)
                assert archive.interrupt() == 0, archive.output
            observer.assert_sound()
        data = [node.data_dir for node in quorum.nodes.values()]
    return HistoryResult(
        history.archive,
        (*data, replacement.lost.data_dir),
        dumps.files,
        observer.log_directory,
        leader_killed,
        broker_killed,
        replacement,
        moved,
        topics,
        kept,
    )


def plan_is_carried_out(
    quorum: LocalQuorum, brokers: JavaBrokers, history: RecordedHistory, root: Path
) -> None:
    """One broker is drained, by the stock tool, as planned."""
    file = root / "plan.json"
    source = str(quorum.leader.data_dir)
    arguments = ["plan", "--log", source, "--drain", str(DRAINED), "--output", str(file)]
    assert main(arguments) == 0
    planned = json.loads(file.read_text())["partitions"]
    assert planned
    tool = history.tool()
    tool.execute_plan(file)
    history.wait_moved()
    reported = tool.verify_plan(file)
    clients = brokers.clients
    states = {
        topic: clients.partitions(topic) for topic in ("moving", "kept", "after-the-failover")
    }
    for each in planned:
        name = f"{each['topic']}-{each['partition']}"
        assert f"Reassignment of partition {name} is completed." in reported, reported
        assert list(states[each["topic"]][each["partition"]].replicas) == each["replicas"]
    everywhere = {each for topic in states.values() for p in topic.values() for each in p.replicas}
    assert everywhere == {101, 102}


def states_are_those_of_the_nodes(
    spark: SparkSession, history_result: HistoryResult, root: Path
) -> None:
    """Once each, merged, and at ten offsets what a live node had written there."""
    done = run_pipeline("archive", "--to", history_result.archive, "--compact")
    assert done.returncode == 0, done.stderr
    archive = Archive(spark, str(history_result.archive))
    end = archive.contents().end
    rows = archive.read().select("offset").toArrow().column("offset").to_pylist()
    assert sorted(rows) == list(range(end))
    inside = sorted(name for name in history_result.dumps if 0 < int(name[:20]) <= end)
    chosen = random.Random(SEED).sample(inside, 10)
    for name in chosen:
        state = archived_state(history_result.archive, Moment(offset=int(name[:20])))
        assert state.id.file_name == name
        assert b"".join(state.snapshot()) == history_result.dumps[name].read_bytes(), name
    name = chosen[0]
    at = int(name[:20])
    arguments = [
        "--archive",
        history_result.archive,
        "--at-offset",
        at,
        "--snapshot",
        root / "snapshot",
    ]
    done = run_pipeline("state", *arguments)
    assert done.returncode == 0, done.stderr
    assert (root / "snapshot" / name).read_bytes() == history_result.dumps[name].read_bytes()


def states_are_those_of_stock_kafka(
    spark: SparkSession,
    history_result: HistoryResult,
    record_property: Callable[[str, object], None],
) -> None:
    archive = Archive(spark, str(history_result.archive))
    end = archive.contents().end
    log = open_log(history_result.stock_dumps)
    # What it began with it may have fetched.
    inside = [each for each in log.snapshots if log.start_offset < each.end_offset <= end]
    record_property("images dumped by stock Kafka", len(inside))
    assert len(inside) >= 5
    for each in random.Random(SEED).sample(inside, min(len(inside), 10)):
        file = SnapshotFile(log.path / each.file_name, each)
        state = archived_state(history_result.archive, Moment(offset=each.end_offset))
        assert state.id == each
        batches = [batch for _, batch in file.batches() if not batch.header.is_control]
        theirs = [with_sorted_lists(value) for batch in batches for value in record_values(batch)]
        found, _ = split_batches(b"".join(state.snapshot()))
        metadata = [batch for batch in found if not batch.header.is_control]
        ours = [value for batch in metadata for value in record_values(batch)]
        assert sorted(theirs) == sorted(map(with_sorted_lists, ours))
        bounds = file.bounds()
        assert bounds.last_contained_log_timestamp_ms == state.timestamp_ms
        assert voters_of(bounds.voters) == voters_of(state.voters)


def voters_of(record: VotersRecord | None) -> dict[ReplicaKey, tuple[Endpoint, ...]]:
    """Without the fields that only nodes of this software report."""
    return {each.key: each.endpoints for each in record.voters} if record else {}


# -- the timeline, against the log as a stock tool prints it


def timeline_shows(history_result: HistoryResult, records: list[DumpedRecord], root: Path) -> None:
    page, file = root / "timeline.html", root / "timeline.parquet"
    source = str(history_result.replicas[0])
    assert main(["timeline", "--log", source, "--html", str(page), "--parquet", str(file)]) == 0
    events: list[dict[str, Any]] = pq.read_table(file).to_pylist()

    def found(kind: str, subject: str = "") -> list[tuple[int, int, int]]:
        return [
            (each["begin_offset"], each["end_offset"], each["duration_ms"])
            for each in events
            if each["kind"] == kind and each["subject"].startswith(subject)
        ]

    bounds = [
        (each["begin_offset"], each["at_most_ms"]) for each in events if each["kind"] == "election"
    ]
    elections = [n for n, record in enumerate(records) if record.type == "LeaderChange"]
    pairs = [(records[max(n - 1, 0)], records[n]) for n in elections]
    assert bounds == [(first.offset, first.time_ms - last.time_ms) for last, first in pairs]
    killed = history_result.leader_killed
    last, _ = next(pair for pair in pairs if pair[1].time_ms > killed.begin_ms)
    assert killed.begin_ms <= last.time_ms <= killed.end_ms, (
        "the last record of the killed leader is missing"
    )

    assert found("voter replaced") == [replaced(history_result.replacement, records)]
    fenced, unfenced = (
        next(
            each
            for each in records
            if each.type == "BROKER_REGISTRATION_CHANGE_RECORD"
            and each.fields["brokerId"] == FAILED_BROKER
            and each.fields.get("fenced") == sign
            and each.time_ms >= history_result.broker_killed.begin_ms
        )
        for sign in (1, -1)
    )
    assert lasted(fenced, unfenced) in found("broker down", f"broker {FAILED_BROKER}")
    assert len(found("reassignment", "moving-")) >= len(history_result.moved)
    assert all(duration is not None for _, _, duration in found("reassignment"))
    text = page.read_text()
    for name in ("election", "voter replaced", "broker down", "reassignment"):
        assert f"{name}:" in text


def lasted(begin: DumpedRecord, end: DumpedRecord) -> tuple[int, int, int]:
    return begin.offset, end.offset, end.time_ms - begin.time_ms


def replaced(which: Replacement, records: list[DumpedRecord]) -> tuple[int, int, int]:
    """From the first set of voters with the new replica to the first one after it without the old."""
    sets = [
        (each, {(v["voterId"], v["voterDirectoryId"]) for v in each.fields["voters"]})
        for each in records
        if each.type == "KRaftVoters"
    ]
    began = next(n for n, (_, keys) in enumerate(sets) if (which.id, which.new_uuid) in keys)
    ended = next(each for each, keys in sets[began:] if (which.id, which.old_uuid) not in keys)
    return lasted(sets[began][0], ended)


# -- the audit


def damage_is_found(history_result: HistoryResult, capsys: Captured) -> None:
    """All that is on the disks is sound; then one bit of one file is not."""
    replicas = history_result.replicas
    assert findings(replicas, capsys) == []
    rng = random.Random(SEED)
    for _ in range(FLIPS):
        victim = rng.choice(replicas)
        segment = rng.choice(open_log(victim).segments).path
        batch = rng.choice(batches_of(dumped([segment]))[:-1])
        with flipped_bit(segment, batch.position + rng.randrange(batch.size_bytes)):
            output = findings(replicas, capsys)
        place = f"{segment.name}, byte {batch.position}, offset {batch.base_offset}"
        assert output[0].startswith(f"FOUND {victim}: {place}: "), output
        assert all(line.startswith(f"FOUND {victim}: ") for line in output), output

        victim = rng.choice([each for each in replicas if open_log(each).snapshots])
        snapshot = rng.choice(open_log(victim).snapshots)
        file = open_log(victim).path / snapshot.file_name
        with flipped_bit(file, rng.randrange(file.stat().st_size)):
            output = findings(replicas, capsys)
        (line,) = output
        assert re.match(
            rf"FOUND {victim}: {file.name}, byte \d+, offset {snapshot.end_offset}: ", line
        )


def findings(replicas: Sequence[Path], capsys: Captured) -> list[str]:
    """The command's findings about them."""
    capsys.readouterr()
    exit_code = main(["audit", *map(str, replicas)])
    output = capsys.readouterr().out.splitlines()
    found = [line for line in output if line.startswith("FOUND")]
    assert exit_code == (1 if found else 0)
    assert ("no problems found" in output) is not bool(found)
    return found


# -- the restored quorum


def quorum_starts_from_restore(history_result: HistoryResult, root: Path) -> None:
    with LocalQuorum(root / "new", nodes=1, initial_voters=1, **QUORUM) as quorum:
        node = quorum.nodes[1]
        voter = f"1@{node.host}:{node.port}"
        options = ["--archive", history_result.archive, "--output", node.data_dir, "--voter", voter]
        options += ["--replica-uuid", quorum.founder_uuid, "--cluster-id", quorum.cluster_id]
        done = run_pipeline("restore", *options)
        assert done.returncode == 0, done.stderr
        node.start()
        assert quorum.wait_leader() == 1
        address = f"{node.host}:{node.port}"
        tool = [stock_kafka.METADATA_QUORUM, "--bootstrap-controller", address]
        output = stock_kafka.run_tool(*tool, "describe", "--status", timeout_seconds=180)
        assert output.returncode == 0, output.stdout + output.stderr
        lines = dict(line.split(":", 1) for line in output.stdout.splitlines() if ":" in line)
        assert lines["ClusterId"].strip() == quorum.cluster_id
        assert lines["LeaderId"].strip() == "1"
        assert int(lines["HighWatermark"]) > archived_end(history_result.archive)
        assert quorum.founder_uuid in lines["CurrentVoters"]
        with JavaBrokers.on(quorum, root / "new-brokers", 1) as brokers:
            brokers.start()
            brokers.wait_for([101], PATIENCE_SECONDS)
            clients = brokers.clients
            assert clients("topics") == history_result.topics
            assert replicas_of(clients("describe kept")) == replicas_of(history_result.kept)
            assert clients("config-of kept retention.ms") == "3600000"


def replicas_of(described: str) -> dict[str, str]:
    """Partition → replicas, of what the client prints."""
    return {text.split(":")[0]: text.split("/")[1] for text in described.split()}
