"""Files and records, without any process of ours: stock Kafka reads what we write, and we read what it writes."""

import re
from dataclasses import replace
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
    LOST,
    UNASSIGNED,
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    MetadataMessage,
    NodeEndpoint,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    QuotaEntity,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    SupportedFeature,
    TopicRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
    encode_metadata,
)
from quorum_node.storage.directory import is_formatted, open_directory
from quorum_node.storage.failure_latch import FailureLatch
from quorum_node.storage.partition_directory import partition_directory
from quorum_node.storage.quorum_state import QuorumStateFile
from quorum_node.storage.replica_uuid import give_replica_uuid
from support import stock_kafka
from support.metadata_records import config, level

pytestmark = pytest.mark.interop

REPLICA_UUID = parse_uuid("AAAAAAAAAAAAAAAAAAAABQ")
VOTER = Voter(ReplicaKey(3, REPLICA_UUID), (Endpoint("CONTROLLER", "host", 65000),))

ENDPOINT = NodeEndpoint(name="PLAINTEXT", host="h", port=9092, security_protocol=0)
FEATURE = SupportedFeature(
    name="metadata.version", min_supported_version=7, max_supported_version=30
)
PARTITION = PartitionRecord(
    partition_id=7, topic_id=REPLICA_UUID, replicas=(3, 1, 2), isr=(3, 1), removing_replicas=(2,),
    adding_replicas=(1,), leader=3, leader_recovery_state=1, leader_epoch=4, partition_epoch=5,
)  # fmt: skip
PLACED = replace(PARTITION, directories=(REPLICA_UUID, UNASSIGNED, LOST))
REGISTRATION = RegisterBrokerRecord(
    broker_id=1, incarnation_id=REPLICA_UUID, broker_epoch=300, end_points=(ENDPOINT,),
    features=(FEATURE,), rack="r", fenced=True, in_controlled_shutdown=True,
)  # fmt: skip
METADATA: dict[str, tuple[MetadataMessage, int]] = {
    "config": (config(4, "1", "k", "v" * 200), 0),
    "config-delete": (config(2, "topic", "k", None), 0),
    "feature-level": (level("metadata.version", 29), 0),
    "no-op": (NoOpRecord(), 0),
    "topic": (TopicRecord(name="t", topic_id=REPLICA_UUID), 0),
    "remove-topic": (RemoveTopicRecord(topic_id=REPLICA_UUID), 0),
    "begin": (BeginTransactionRecord(name="n"), 0),
    "end": (EndTransactionRecord(), 0),
    "abort": (AbortTransactionRecord(reason="r"), 0),
    "broker-1": (REGISTRATION, 1),
    "broker-4": (
        replace(REGISTRATION, log_dirs=(REPLICA_UUID,), cordoned_log_dirs=(REPLICA_UUID,)), 4,
    ),
    "broker-change": (
        BrokerRegistrationChangeRecord(
            broker_id=1, broker_epoch=300, fenced=-1, in_controlled_shutdown=1,
            log_dirs=(REPLICA_UUID,), cordoned_log_dirs=(),
        ), 3,
    ),
    "unregister": (UnregisterBrokerRecord(broker_id=1, broker_epoch=300), 0),
    "controller": (
        RegisterControllerRecord(
            controller_id=9, incarnation_id=REPLICA_UUID, end_points=(ENDPOINT,),
            features=(FEATURE,),
        ), 0,
    ),
    "partition-0": (PARTITION, 0),
    "partition-1": (PLACED, 1),
    "partition-2": (replace(PLACED, eligible_leader_replicas=(2,), last_known_elr=()), 2),
    "partition-change-0": (
        PartitionChangeRecord(
            partition_id=7, topic_id=REPLICA_UUID, isr=(1,), leader=-1, replicas=(1, 2),
            removing_replicas=(), adding_replicas=(2,), leader_recovery_state=0,
        ), 0,
    ),
    "partition-change-2": (
        PartitionChangeRecord(
            partition_id=7, topic_id=REPLICA_UUID, directories=(LOST,),
            eligible_leader_replicas=(), last_known_elr=(3,),
        ), 2,
    ),
    "clear-elr": (ClearElrRecord(topic_name="t"), 0),
    "producer-ids": (ProducerIdsRecord(broker_id=1, broker_epoch=2, next_producer_id=3000), 0),
    "acl": (
        AccessControlEntryRecord(
            id=REPLICA_UUID, resource_type=2, resource_name="t", pattern_type=3,
            principal="User:a", host="*", operation=3, permission_type=3,
        ), 0,
    ),
    "remove-acl": (RemoveAccessControlEntryRecord(id=REPLICA_UUID), 0),
    "scram": (
        UserScramCredentialRecord(
            name="u", mechanism=1, salt=b"\1", stored_key=b"\2\2", server_key=b"\3", iterations=4096
        ), 0,
    ),
    "quota": (
        ClientQuotaRecord(
            entity=(QuotaEntity(entity_type="user", entity_name=None),), key="k", value=1.5
        ), 0,
    ),
    "token": (
        DelegationTokenRecord(
            owner="User:a", requester="User:b", renewers=("User:c",), issue_timestamp=1,
            max_timestamp=3, expiration_timestamp=2, token_id="id",
        ), 0,
    ),
}  # fmt: skip


@pytest.mark.requirement("K631-04", "K631-05")
def test_records_have_the_bytes_of_kafka() -> None:
    done = stock_kafka.run_source("Records.java")
    assert done.returncode == 0, done.stderr
    theirs = dict(line.split() for line in done.stdout.splitlines())

    control: dict[str, ControlRecord] = {
        "leader-change": LeaderChange(1, (ReplicaKey(1), ReplicaKey(2)), (ReplicaKey(2),)),
        "kraft-version": KRaftVersion(1),
        "voters": VotersRecord((VOTER,)),
    }
    ours = {name: encode_control(record).value or b"" for name, record in control.items()}
    for name, (record, version) in METADATA.items():
        ours[name] = encode_metadata(record, version)
    assert {name: data.hex() for name, data in ours.items()} == theirs


@pytest.mark.requirement("K595-02")
def test_kafka_log_tool_reads_a_log_with_private_fields(tmp_path: Path) -> None:
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

    values = [encode_metadata(config(4, "", "k", "value")), encode_metadata(NoOpRecord())]
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


def test_kafka_log_tool_detects_a_flipped_bit(tmp_path: Path) -> None:
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


@pytest.mark.requirement("K631-04")
def test_kafka_log_tool_reads_every_metadata_record(tmp_path: Path) -> None:
    values = [encode_metadata(record, version) for record, version in METADATA.values()]
    out = dump(
        tmp_path, encode_values(base_offset=0, leader_epoch=1, timestamp_ms=5, values=values)
    )
    assert out.count("isvalid: true") == 1
    assert len(re.findall(r"^\| offset: ", out, re.MULTILINE)) == len(values)
    assert '"type":"REGISTER_BROKER_RECORD","version":4' in out
    assert '"type":"PARTITION_RECORD","version":2' in out
    assert (
        '"replicas":[3,1,2],"isr":[3,1],"removingReplicas":[2],"addingReplicas":[1],"leader":3'
        in out
    )
    assert '"type":"PARTITION_CHANGE_RECORD","version":2' in out


@pytest.mark.requirement("K853-01", "K595-03")
def test_kafka_reads_quorum_state_with_private_keys(tmp_path: Path) -> None:
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
def test_quorum_state_written_by_kafka_is_read(tmp_path: Path) -> None:
    path = tmp_path / "quorum-state"
    done = stock_kafka.run_source(
        "QuorumStateStore.java", "write", str(path), "9", "4", "AAAAAAAAAAAAAAAAAAAACQ"
    )
    assert done.returncode == 0, done.stderr
    state = QuorumStateFile(tmp_path, REPLICA_UUID).load()
    assert state is not None
    assert (state.leader_epoch, state.voted) == (9, ReplicaKey(4, UUID(int=9)))


@pytest.mark.requirement("K853-01")
def test_upgraded_quorum_state_of_a_static_quorum_is_readable_by_kafka(tmp_path: Path) -> None:
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
