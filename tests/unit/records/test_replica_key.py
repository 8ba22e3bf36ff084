"""Replica keys are compared many times a fetch: the same key is the same object where it is read."""

from uuid import UUID, uuid4

from quorum_node.protocol.fetch import FetchPartition, FetchRequest, FetchTopic, ReplicaState
from quorum_node.raft.messages import FetchRequest as CoreFetch
from quorum_node.records.batches import DecodedRecord
from quorum_node.records.control import VotersRecord, decode_control, encode_control
from quorum_node.records.identity import Endpoint, ReplicaKey, Voter, replica_key
from quorum_node.server.wire.fetch import FETCH


def test_last_requested_key_is_kept_for_each_id() -> None:
    one, other = uuid4(), uuid4()
    first = replica_key(1, one)
    assert replica_key(1, UUID(int=one.int)) is first == ReplicaKey(1, one)
    assert replica_key(1, other) == ReplicaKey(1, other) != first
    assert replica_key(1, None) == ReplicaKey(1)
    assert replica_key(2, one) != first


def test_unknown_keys_do_not_fill_the_memory() -> None:
    first = replica_key(0, None)
    for number in range(5000):
        assert replica_key(number, None) == ReplicaKey(number)
    assert replica_key(0, None) == first


def test_equality_is_by_id_and_uuid() -> None:
    uuid = uuid4()
    key = ReplicaKey(3, uuid)
    assert key == ReplicaKey(3, UUID(int=uuid.int))
    assert key not in (ReplicaKey(3), ReplicaKey(4, uuid), (3, uuid))
    assert {key: "there"}[ReplicaKey(3, UUID(int=uuid.int))] == "there"


def test_fetch_uses_the_key_object_of_the_voters_record() -> None:
    uuid = uuid4()
    record = VotersRecord((Voter(ReplicaKey(7, uuid), (Endpoint("CONTROLLER", "host", 9093),)),))
    encoded = encode_control(record)
    decoded = decode_control(DecodedRecord(0, 0, encoded.key, encoded.value))
    assert isinstance(decoded, VotersRecord)
    part = FetchPartition(
        partition=0,
        current_leader_epoch=1,
        fetch_offset=4,
        last_fetched_epoch=1,
        partition_max_bytes=0,
        replica_directory_id=UUID(int=uuid.int),
    )
    body = FetchRequest(
        replica_id=7,
        replica_state=ReplicaState(replica_id=7),
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1000,
        topics=(FetchTopic(topic="__cluster_metadata", partitions=(part,)),),
    )
    ((_, fetch),) = FETCH.split(body)
    assert isinstance(fetch, CoreFetch)
    assert fetch.replica is decoded.voters[0].key
