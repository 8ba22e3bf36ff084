"""Files and records, without any process of ours: stock Kafka reads what we write, and we read what it writes."""

import re
from pathlib import Path
from uuid import UUID

import pytest

from quorum_node.raft.quorum_state import QuorumState
from quorum_node.records.batches import Record, encode_batch, encode_values
from quorum_node.records.control import (
    ControlRecord,
    KRaftVersion,
    LeaderChange,
    SnapshotFooter,
    SnapshotHeader,
    VotersRecord,
    encode_control,
)
from quorum_node.records.identity import Endpoint, ReplicaKey, Voter, parse_uuid
from quorum_node.records.metadata import (
    ABORT_TRANSACTION,
    BEGIN_TRANSACTION,
    END_TRANSACTION,
    ConfigRecord,
    FeatureLevelRecord,
    NoOpRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnknownMetadata,
    encode_metadata,
)
from quorum_node.storage.directory import is_formatted, open_directory
from quorum_node.storage.failure_latch import FailureLatch
from quorum_node.storage.partition_directory import partition_directory
from quorum_node.storage.quorum_state import QuorumStateFile
from quorum_node.storage.replica_uuid import give_replica_uuid
from support import stock_kafka

pytestmark = pytest.mark.interop

REPLICA_UUID = parse_uuid("AAAAAAAAAAAAAAAAAAAABQ")
VOTER = Voter(ReplicaKey(3, REPLICA_UUID), (Endpoint("CONTROLLER", "host", 65000),))


def test_records_have_the_bytes_that_kafka_gives_them() -> None:
    done = stock_kafka.run_source("Records.java")
    assert done.returncode == 0, done.stderr
    theirs = dict(line.split() for line in done.stdout.splitlines())

    control: dict[str, ControlRecord] = {
        "leader-change": LeaderChange(1, (ReplicaKey(1), ReplicaKey(2)), (ReplicaKey(2),)),
        "kraft-version": KRaftVersion(1),
        "voters": VotersRecord((VOTER,)),
    }
    ours = {name: encode_control(record).value or b"" for name, record in control.items()}
    ours["config"] = encode_metadata(ConfigRecord(4, "1", "k", "v" * 200))
    ours["config-delete"] = encode_metadata(ConfigRecord(2, "topic", "k", None))
    ours["feature-level"] = encode_metadata(FeatureLevelRecord("metadata.version", 29))
    ours["no-op"] = encode_metadata(NoOpRecord())
    ours["topic"] = encode_metadata(TopicRecord("t", REPLICA_UUID))
    ours["remove-topic"] = encode_metadata(RemoveTopicRecord(REPLICA_UUID))
    ours["begin"] = encode_metadata(UnknownMetadata(BEGIN_TRANSACTION, 0, b"\1\0\2\2n"))
    ours["end"] = encode_metadata(UnknownMetadata(END_TRANSACTION, 0, b"\0"))
    ours["abort"] = encode_metadata(UnknownMetadata(ABORT_TRANSACTION, 0, b"\1\0\2\2r"))
    assert {name: data.hex() for name, data in ours.items()} == theirs


@pytest.mark.requirement("K595-02")
def test_kafkas_log_tool_reads_a_log_with_our_private_fields(tmp_path: Path) -> None:
    """Cluster id, UUIDs in a leader change and a doubled id: a Java reader passes over what it doesn't know."""
    newer = Voter(ReplicaKey(3, UUID(int=9)), VOTER.endpoints)
    voters = VotersRecord((VOTER, newer), cluster_id="cluster", initial_voters=3)
    change = LeaderChange(3, (VOTER.key, newer.key), (newer.key,))

    def control(base_offset: int, *records: ControlRecord) -> bytes:
        return encode_batch(
            base_offset=base_offset,
            leader_epoch=1,
            timestamp_ms=1_700_000_000_000,
            records=[encode_control(record) for record in records],
            control=True,
        )

    values = [encode_metadata(ConfigRecord(4, "", "k", "value")), encode_metadata(NoOpRecord())]
    data = (
        control(0, change, KRaftVersion(1), voters)
        + encode_values(base_offset=3, leader_epoch=1, timestamp_ms=5, values=values)
        + control(5, SnapshotHeader(7), SnapshotFooter())
    )
    out = dump(tmp_path, data)
    assert out.count("isvalid: true") == 3
    assert '"leaderId":3,"voters":[{"voterId":3},{"voterId":3}]' in out
    assert out.count('"voterDirectoryId":"AAAAAAAAAAAAAAAAAAAABQ"') == 1
    assert '"type":"CONFIG_RECORD"' in out
    assert '"name":"k","value":"value"' in out
    assert [int(n) for n in re.findall(r"^\| offset: (\d+)", out, re.MULTILINE)] == list(range(7))


def test_kafkas_log_tool_finds_a_flipped_bit_too(tmp_path: Path) -> None:
    """The check above can fail: damage is seen by the other side."""
    record = Record(None, encode_metadata(NoOpRecord()))
    data = bytearray(encode_batch(base_offset=0, leader_epoch=1, timestamp_ms=5, records=[record]))
    data[-3] ^= 1
    assert "isvalid: true" not in dump(tmp_path, bytes(data), succeeds=False)


def dump(directory: Path, data: bytes, succeeds: bool = True) -> str:
    """What DumpLogSegments prints of a metadata log with this content."""
    folder = directory / "__cluster_metadata-0"
    folder.mkdir()
    segment = folder / f"{0:020d}.log"
    segment.write_bytes(data)
    done = stock_kafka.run_tool(
        stock_kafka.DUMP_LOG, "--cluster-metadata-decoder", "--files", str(segment)
    )
    if succeeds:
        assert done.returncode == 0, done.stderr
        assert "Exception" not in done.stderr
    return done.stdout


@pytest.mark.requirement("K853-01")
def test_kafka_reads_our_quorum_state_with_its_private_keys(tmp_path: Path) -> None:
    """Decides where our own keys go: into the file, because Java ignores them; no sidecar is needed."""
    state = QuorumState(
        leader_epoch=7,
        leader_id=-1,
        voted=VOTER.key,
        cluster_id="cluster",
        applied_offset=12,
        current_voters=(VOTER,),
        target_voters=(VOTER.key,),
        voters_offset=2,
        voters_epoch=1,
        formed=True,
    )
    QuorumStateFile(tmp_path, REPLICA_UUID).save(state)
    done = stock_kafka.run_source("QuorumStateStore.java", "read", str(tmp_path / "quorum-state"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "epoch=7",
        "leader=-1",
        "voted=3",
        "directory=AAAAAAAAAAAAAAAAAAAABQ",
    ]


@pytest.mark.requirement("K853-01")
def test_we_read_a_quorum_state_that_kafka_wrote(tmp_path: Path) -> None:
    path = tmp_path / "quorum-state"
    done = stock_kafka.run_source(
        "QuorumStateStore.java", "write", str(path), "9", "4", "AAAAAAAAAAAAAAAAAAAACQ"
    )
    assert done.returncode == 0, done.stderr
    state = QuorumStateFile(tmp_path, REPLICA_UUID).load()
    assert state is not None
    assert (state.leader_epoch, state.voted) == (9, ReplicaKey(4, UUID(int=9)))


@pytest.mark.requirement("K853-01")
def test_a_static_quorums_state_is_upgraded_and_kafka_still_reads_it(tmp_path: Path) -> None:
    """Version 0, written by Kafka for kraft.version 0: no UUIDs. The vote outlives the upgrade."""
    partition = partition_directory(tmp_path, 0)
    partition.mkdir()
    path = partition / "quorum-state"
    done = stock_kafka.run_source("QuorumStateStore.java", "write-v0", str(path), "9", "3")
    assert done.returncode == 0, done.stderr
    assert '"data_version":0' in path.read_text()
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=2\ncluster.id=kafka\n")

    assert give_replica_uuid(tmp_path, partition, lambda: REPLICA_UUID) == REPLICA_UUID
    assert is_formatted(tmp_path, FailureLatch(None))
    opened = open_directory(
        tmp_path, node_id=2, cluster_id=None, segment_bytes=1 << 20, latch=FailureLatch(None)
    )
    opened.first.log.close()
    assert opened.meta.directory_id == REPLICA_UUID
    assert (opened.first.state.leader_epoch, opened.first.state.voted) == (9, ReplicaKey(3, None))
    done = stock_kafka.run_source("QuorumStateStore.java", "read", str(path))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:3] == ["epoch=9", "leader=-1", "voted=3"]
