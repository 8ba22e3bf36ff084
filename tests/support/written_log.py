"""Directories of a replica, written with the node's own storage: segments and snapshots.

Owns a small history of a cluster with every event that readers of logs have to handle: leaders change, a voter is replaced, topics are
created and deleted. `LogWriter` writes any other history.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from uuid import UUID

from quorum_node.image.committed import CommittedImage
from quorum_node.image.resource_types import TOPIC
from quorum_node.raft.quorum_state import QuorumState
from quorum_node.records import metadata as md
from quorum_node.records.batches import Record, encode_batch, encode_values
from quorum_node.records.control import (
    ControlRecord,
    KRaftVersion,
    LeaderChange,
    VotersRecord,
    encode_control,
)
from quorum_node.records.identity import Endpoint, ReplicaKey, Voter
from quorum_node.records.snapshot_format import SnapshotBounds, encode_snapshot
from quorum_node.records.snapshot_id import SnapshotId
from quorum_node.storage.log import SegmentedLog
from quorum_node.storage.quorum_state import QuorumStateFile
from quorum_node.storage.snapshots import SnapshotStore
from support.metadata_records import config, level

BEGAN_MS = 1_700_000_000_000


def voter(number: int, uuid: int) -> Voter:
    """A voter with one listener."""
    key = ReplicaKey(number, UUID(int=uuid))
    return Voter(key, (Endpoint("CONTROLLER", f"host-{number}", 9093),))


class LogWriter:
    """Appends batches like a leader. The clock advances by a second with each batch, or as set."""

    def __init__(self, root: Path, segment_bytes: int = 1 << 20) -> None:
        self.directory = root / "__cluster_metadata-0"
        self.directory.mkdir(parents=True)
        self._log = SegmentedLog(self.directory, segment_bytes=segment_bytes)
        self._committed = CommittedImage()
        self._voters: VotersRecord | None = None
        self.end_offset = 0
        self.epoch = 1
        self.time_ms = BEGAN_MS

    def close(self) -> None:
        """Flush and close."""
        self._log.flush()
        self._log.close()

    def record_committed(self, end_offset: int) -> None:
        """Sync the log, and record the committed end as a node does."""
        QuorumStateFile(self.directory, UUID(int=1)).save(QuorumState(cluster_id="cluster"))
        self._log.flush()
        self._log.settle(end_offset)

    def append(self, *records: md.AnyMetadata) -> int:
        """One batch of metadata records; returns the offset after it."""
        return self.append_values([_encoded(each) for each in records])

    def append_values(self, values: Sequence[bytes]) -> int:
        """The same for encoded records."""
        self._committed.replay(map(md.decode_metadata, values))
        return self.append_bytes(values)

    def append_bytes(self, values: Sequence[bytes]) -> int:
        """A batch of values that need not be records; they do not change the writer's own state."""
        data = encode_values(
            base_offset=self.end_offset,
            leader_epoch=self.epoch,
            timestamp_ms=self.time_ms,
            values=values,
        )
        return self._appended(data, len(values))

    def append_control(self, *records: ControlRecord) -> int:
        """One control batch."""
        for number, record in enumerate(records):
            if isinstance(record, VotersRecord):
                place = (self.end_offset + number, self.epoch)
                self._voters = replace(record, log_position=place)
        encoded: list[Record] = [encode_control(each) for each in records]
        data = encode_batch(
            base_offset=self.end_offset,
            leader_epoch=self.epoch,
            timestamp_ms=self.time_ms,
            records=encoded,
            control=True,
        )
        return self._appended(data, len(records))

    def elect(self, leader_id: int) -> int:
        """A leader in a new epoch."""
        self.epoch += 1
        keys = (ReplicaKey(1), ReplicaKey(2), ReplicaKey(3))
        return self.append_control(LeaderChange(leader_id, keys, keys[:2]))

    def image_bytes(self) -> bytes:
        """The content of the snapshot that a node would write now."""
        bounds = SnapshotBounds(self.time_ms - 1000, 1, self._voters)
        named = SnapshotId(self.end_offset, self.epoch)
        return b"".join(encode_snapshot(named, bounds, self._committed.image.snapshot_records()))

    def snapshot(self, *, drop_log: bool = False) -> SnapshotId:
        """Write a snapshot beside the log; optionally delete the segments before it."""
        named = SnapshotId(self.end_offset, self.epoch)
        store = SnapshotStore(self.directory)
        writer = store.create(named)
        writer.append(self.image_bytes())
        writer.freeze()
        if drop_log:
            self._log.flush()
            self._log.delete_prefix(named)
        return named

    def _appended(self, data: bytes, count: int) -> int:
        end = self.end_offset + count
        self._log.append(data, self.end_offset, end, self.epoch)
        self.end_offset = end
        self.time_ms += 1000
        return end


def _encoded(record: md.AnyMetadata) -> bytes:
    if isinstance(record, md.UnknownMetadata):
        return md.encode_metadata(record)
    return md.encode_metadata(record, md.record_version(type(record), md.LATEST_LEVEL))


TOPIC_ID = UUID(int=77)


def broker(number: int, rack: str | None = None) -> md.RegisterBrokerRecord:
    """A registration."""
    endpoint = md.NodeEndpoint(name="PLAINTEXT", host="h", port=9092, security_protocol=0)
    return md.RegisterBrokerRecord(
        broker_id=number,
        incarnation_id=UUID(int=number + 1000),
        broker_epoch=number,
        end_points=(endpoint,),
        features=(),
        rack=rack,
        fenced=False,
        log_dirs=(UUID(int=number + 2000),),
    )


def partition(
    number: int, replicas: tuple[int, ...], topic_id: UUID = TOPIC_ID
) -> md.PartitionRecord:
    """A partition whose first replica is the leader."""
    return md.PartitionRecord(
        partition_id=number,
        topic_id=topic_id,
        replicas=replicas,
        isr=replicas,
        leader=replicas[0],
        leader_epoch=0,
        partition_epoch=0,
        directories=tuple(UUID(int=each + 2000) for each in replicas),
    )


def write_history(writer: LogWriter) -> dict[int, bytes]:
    """A short history of a cluster; returns, by offset, the snapshots that a node would have written."""
    images: dict[int, bytes] = {}

    def note(end_offset: int) -> None:
        images[end_offset] = writer.image_bytes()

    voters = tuple(voter(number, 100 + number) for number in (1, 2, 3))
    note(writer.elect(1))
    note(writer.append_control(KRaftVersion(1), VotersRecord(voters, "cluster")))
    note(writer.append(level(md.METADATA_VERSION, 27)))
    note(writer.append(broker(1, "a"), broker(2, "b"), broker(3, "c")))
    topic = md.TopicRecord(name="orders", topic_id=TOPIC_ID)
    note(writer.append(topic, partition(0, (1, 2, 3)), partition(1, (2, 3, 1))))
    note(writer.append(*(config(TOPIC, "orders", f"key-{n}", str(n)) for n in range(40))))
    change = md.PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, isr=(2, 3), leader=2)
    note(writer.append(md.NoOpRecord(), change))
    note(writer.elect(2))
    replaced = VotersRecord((voters[1], voters[2], voter(1, 201)), "cluster")
    note(writer.append_control(replaced))
    note(
        writer.append(
            config(TOPIC, "orders", "key-3", None), md.RemoveTopicRecord(topic_id=TOPIC_ID)
        )
    )
    return images
