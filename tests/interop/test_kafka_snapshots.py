"""Snapshots beside stock Kafka: the same bytes for the same state, and each side reads the other's files."""

import subprocess
from pathlib import Path

import pytest

from quorum_node.image.cluster_image import ClusterImage
from quorum_node.image.resource_types import TOPIC
from quorum_node.records.control import VotersRecord
from quorum_node.records.identity import Endpoint, ReplicaKey, Voter, parse_uuid
from quorum_node.records.metadata import decode_metadata
from quorum_node.records.plain_records import record_values
from quorum_node.records.snapshot_format import SnapshotBounds, encode_snapshot
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.storage.snapshots import SnapshotStore
from support import stock_kafka
from support.metadata_records import config, level

pytestmark = pytest.mark.interop

ID = SnapshotId(7_000, 12)
TIMESTAMP_MS = 1_700_000_000_000
VOTER = Voter(
    ReplicaKey(3, parse_uuid("AAAAAAAAAAAAAAAAAAAABQ")), (Endpoint("CONTROLLER", "host", 65000),)
)
VALUES = {f"k{n}": f"v{n}" for n in range(5)}


def image() -> ClusterImage:
    records = [config(TOPIC, "t", name, value) for name, value in reversed(VALUES.items())]
    return ClusterImage().replay_all([*records, level("metadata.version", 29)])


def ours(directory: Path, voters: VotersRecord) -> bytes:
    writer = SnapshotStore(directory).create(ID)
    bounds = SnapshotBounds(TIMESTAMP_MS, 1, voters)
    for data in encode_snapshot(ID, bounds, image().snapshot_records()):
        writer.append(data)
    writer.freeze()
    return (directory / ID.file_name).read_bytes()


def run(command: str, directory: Path) -> subprocess.CompletedProcess[str]:
    arguments = (str(directory), str(ID.end_offset), str(ID.epoch))
    return stock_kafka.run_source("Snapshots.java", command, *arguments)


@pytest.mark.requirement("K853-08")
def test_kafka_writes_the_same_bytes_for_the_same_state(tmp_path: Path) -> None:
    done = run("write", tmp_path)
    assert done.returncode == 0, done.stderr
    theirs = (tmp_path / ID.file_name).read_bytes()
    store = SnapshotStore(tmp_path)
    assert store.verify(ID) == SnapshotBounds(TIMESTAMP_MS, 1, VotersRecord((VOTER,)))
    loaded = ClusterImage()
    for batch in store.batches(ID):
        loaded = loaded.replay_all(map(decode_metadata, record_values(batch)))
    assert dict(loaded.configs.of(TOPIC, "t")) == VALUES
    assert loaded.features.level("metadata.version") == 29
    assert ours(tmp_path / "ours", VotersRecord((VOTER,))) == theirs


@pytest.mark.requirement("K853-08")
def test_kafka_reads_snapshots_with_private_fields(tmp_path: Path) -> None:
    voters = VotersRecord(
        (VOTER,), cluster_id="cluster", initial_voters=3, tagged_fields=((20999, b"?"),)
    )
    ours(tmp_path, voters)
    done = run("read", tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == f"timestamp {TIMESTAMP_MS}"
    kinds = [line.split(" ", 1)[0] for line in lines[1:]]
    assert kinds[:3] == ["SNAPSHOT_HEADER", "KRAFT_VERSION", "KRAFT_VOTERS"]
    assert kinds[-1] == "SNAPSHOT_FOOTER"
    assert "voterId=3" in lines[3]
    assert "name='metadata.version', featureLevel=29" in lines[4]
    assert len(lines) == 1 + 3 + 1 + len(VALUES) + 1
    dump = stock_kafka.run_tool(
        stock_kafka.DUMP_LOG, "--cluster-metadata-decoder", "--files", str(tmp_path / ID.file_name)
    )
    assert dump.returncode == 0, dump.stderr
    assert dump.stdout.count("isvalid: true") == 3
    assert '"name":"k4","value":"v4"' in dump.stdout
