"""An image rebuilt from any snapshot and the log behind it equals the live one, byte for byte; its indexes are true."""

from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quorum_node.image.cluster_image import ClusterImage
from quorum_node.image.committed import CommittedImage
from quorum_node.image.topics import PartitionKey
from quorum_node.records.batches import encode_values, split_batches
from quorum_node.records.metadata import decode_metadata
from quorum_node.records.plain_records import record_values
from quorum_node.records.snapshot_format import SnapshotBounds, SnapshotReader, encode_snapshot
from quorum_node.records.snapshot_id import SnapshotId
from support.metadata_histories import histories

ENTIRE = settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
ID = SnapshotId(7_000, 12)


def replayed(values: Iterable[bytes], into: CommittedImage | None = None) -> CommittedImage:
    committed = into or CommittedImage()
    committed.replay(map(decode_metadata, values))
    return committed


def snapshot(image: ClusterImage) -> bytes:
    return b"".join(encode_snapshot(ID, SnapshotBounds(5), image.snapshot_records()))


def loaded(data: bytes) -> CommittedImage:
    committed, reader = CommittedImage(), SnapshotReader(ID)
    for batch in reader.feed(data):
        if not batch.header.is_control:
            replayed(record_values(batch), committed)
    reader.finish()
    return committed


@pytest.mark.requirement("K631-05", "K631-06")
@ENTIRE
@given(histories(), st.data())
def test_snapshot_and_following_log_give_the_image(
    values: list[bytes], data: st.DataObject
) -> None:
    live = replayed(values)
    cut = data.draw(st.integers(0, len(values)))
    before = replayed(values[:cut])
    if before.is_whole:
        rebuilt = loaded(snapshot(before.image))
        assert rebuilt.image == before.image
        assert snapshot(rebuilt.image) == snapshot(before.image)
        replayed(values[cut:], rebuilt)
        assert rebuilt.image == live.image
        assert snapshot(rebuilt.image) == snapshot(live.image)


@pytest.mark.requirement("K595-30", "K631-05")
@ENTIRE
@given(histories(), st.lists(st.integers(1, 5), max_size=40))
def test_replay_in_batches_of_any_size_gives_the_same_image(
    values: list[bytes], sizes: list[int]
) -> None:
    """Replicas apply in other pieces than the leader wrote; some of them through batches of the log."""
    pieces, rest = CommittedImage(), values
    for size in sizes:
        some, rest = rest[:size], rest[size:]
        if some:
            log = encode_values(base_offset=0, leader_epoch=1, timestamp_ms=1, values=some)
            replayed(record_values(split_batches(log)[0][0]), pieces)
    for value in rest:
        replayed([value], pieces)
    whole = replayed(values)
    assert pieces.image == whole.image
    assert snapshot(pieces.image) == snapshot(whole.image)


@ENTIRE
@given(histories(transactions=False), st.integers(0, 40))
def test_older_image_is_not_modified(values: list[bytes], cut: int) -> None:
    kept = replayed(values[:cut])
    image, reported = kept.image, snapshot(kept.image)
    replayed(values[cut:], kept)
    assert snapshot(image) == reported


@ENTIRE
@given(histories(max_size=60))
def test_indexes_are_consistent_with_the_image(values: list[bytes]) -> None:
    committed = CommittedImage()
    for start in range(0, len(values), 7):
        replayed(values[start : start + 7], committed)
    assert_indexes(committed.image)


def assert_indexes(image: ClusterImage) -> None:
    """Each index equals one that is rebuilt."""
    topics = image.topics
    every = [
        (PartitionKey(topic.topic_id, number), partition)
        for topic in topics
        for number, partition in topic.partitions.items()
    ]
    assert topics.partition_count == len(every)
    assert {topic.name for topic in topics} == set(topics.names())
    for topic in topics:
        assert topics.named(topic.name) is topic
    replicas = Counter(broker for _, partition in every for broker in partition.replicas)
    assert set(topics.of_brokers.brokers()) == set(replicas)
    leaders = Counter(partition.leader for _, partition in every if partition.has_leader)
    assert dict(topics.led) == leaders
    for broker in range(6):
        assert topics.replica_count(broker) == replicas[broker]
        assert Counter(topic.topic_id for topic in topics.topics_of(broker)) == Counter(
            {key.topic_id for key, partition in every if broker in partition.replicas}
        )
        assert set(topics.partitions_of(broker)) == {
            ((key.topic_id.int, key.partition_id), partition)
            for key, partition in every
            if broker in partition.replicas
        }
    assert set(topics.leaderless()) == {key for key, each in every if not each.has_leader}
    assert set(topics.reassigning()) == {key for key, each in every if each.is_reassigning}
    assert set(topics.not_preferred()) == {
        key for key, each in every if each.has_leader and each.leader != each.preferred_leader
    }
