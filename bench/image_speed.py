"""The cost of replay: decoding and applying the records of topics and configs, memory, snapshots.

    python bench/image_speed.py [partitions]

CPU time of one thread, the best of several rounds where they are short. All parts use the same topics: ten partitions each, three
replicas on a hundred brokers, two configs. These figures determine the duration of a start and of a failover, because both replay the
log.
"""

import gc
import random
import resource
import sys
from collections.abc import Iterable, Iterator
from time import process_time
from uuid import UUID

from quorum_node.image.cluster_image import ClusterImage
from quorum_node.image.committed import CommittedImage
from quorum_node.image.resource_types import TOPIC
from quorum_node.records.batches import encode_values, split_batches
from quorum_node.records.metadata import (
    ConfigRecord,
    MetadataMessage,
    PartitionChangeRecord,
    PartitionRecord,
    TopicRecord,
    decode_metadata,
    encode_metadata,
    record_version,
)
from quorum_node.records.plain_records import record_values
from quorum_node.records.snapshot_format import SnapshotBounds, SnapshotReader, encode_snapshot
from quorum_node.records.snapshot_id import SnapshotId

BROKERS, PARTITIONS_A_TOPIC, CONFIGS_A_TOPIC = 100, 10, 2
DIRECTORIES = [UUID(int=1000 + broker) for broker in range(BROKERS)]
RECORDS_A_BATCH = 1000
LEVEL = 30


def topic_id(number: int) -> UUID:
    """A topic id: random in a real cluster, but the same in every run here."""
    return UUID(int=random.Random(number).getrandbits(128))


def topics(partitions: int) -> Iterator[MetadataMessage]:
    """The records that create the topics."""
    for number in range(partitions // PARTITIONS_A_TOPIC):
        topic = topic_id(number)
        yield TopicRecord(name=f"topic-{number}", topic_id=topic)
        for partition in range(PARTITIONS_A_TOPIC):
            shift = 1 + (number + partition) % (BROKERS - 2)
            first = (number * PARTITIONS_A_TOPIC + partition) % BROKERS
            replicas = tuple((first + step) % BROKERS for step in (0, shift, shift + 1))
            yield PartitionRecord(
                partition_id=partition,
                topic_id=topic,
                replicas=replicas,
                isr=replicas,
                leader=replicas[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=tuple(DIRECTORIES[broker] for broker in replicas),
            )


def changes(image: ClusterImage) -> Iterator[MetadataMessage]:
    """The records of broker failures: ISRs shrink, every third leader moves."""
    for topic in image.topics:
        for partition_id, partition in topic.partitions.items():
            yield PartitionChangeRecord(
                partition_id=partition_id,
                topic_id=topic.topic_id,
                isr=partition.isr[1:],
                leader=partition.isr[1],
            )


def configs(partitions: int) -> Iterator[MetadataMessage]:
    """Config records of topics."""
    for number in range(partitions // PARTITIONS_A_TOPIC):
        for key in range(CONFIGS_A_TOPIC):
            yield ConfigRecord(
                resource_type=TOPIC,
                resource_name=f"topic-{number}",
                name=("retention.ms", "cleanup.policy")[key % 2],
                value=str(number),
            )


def encoded(records: Iterable[MetadataMessage]) -> list[bytes]:
    """Encoded records."""
    return [encode_metadata(each, record_version(type(each), LEVEL)) for each in records]


def batches(values: list[bytes]) -> bytes:
    """Batches of the encoded records."""
    return b"".join(
        encode_values(
            base_offset=start,
            leader_epoch=1,
            timestamp_ms=1,
            values=values[start : start + RECORDS_A_BATCH],
        )
        for start in range(0, len(values), RECORDS_A_BATCH)
    )


def show(what: str, seconds: float, count: int) -> None:
    """Print one line: nanoseconds per record and in total."""
    print(f"{what:44} {seconds / count * 1e9:8.0f} ns each  {seconds:8.2f} s", flush=True)


def decoding(name: str, values: list[bytes]) -> None:
    """Decoding of record bodies, best of five."""
    some = values[:20_000]
    best = min(_timed(lambda: [decode_metadata(value) for value in some]) for _ in range(5))
    show(f"decode {name}", best, len(some))


def _timed(call: object) -> float:
    assert callable(call)
    began = process_time()
    call()
    return process_time() - began


def replayed(name: str, committed: CommittedImage, values: list[bytes]) -> None:
    """Replay of whole batches, as the applier does it."""
    log = batches(values)
    began = process_time()
    for batch in split_batches(log)[0]:
        committed.replay(map(decode_metadata, record_values(batch)))
    show(f"replay {name}", process_time() - began, len(values))


def resident_bytes() -> int:
    """Resident memory of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def main() -> None:
    """Command line: all measurements in the order of a cluster's life."""
    partitions = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    gc.disable()
    committed = CommittedImage()
    values = encoded(topics(partitions))
    decoding("PartitionRecord", [value for value in values if value[1] == 3])
    gc.collect()
    before = resident_bytes()
    replayed("topics and partitions", committed, values)
    values.clear()
    gc.collect()
    print(f"memory: {(resident_bytes() - before) / partitions:.0f} bytes a partition")
    settings = encoded(configs(partitions))
    decoding("ConfigRecord", settings)
    before = resident_bytes()
    replayed("configs", committed, settings)
    count = len(settings)
    settings.clear()
    gc.collect()
    print(f"memory: {(resident_bytes() - before) / count:.0f} bytes a config")
    snapshot(committed.image, partitions)
    moved = encoded(changes(committed.image))
    decoding("PartitionChangeRecord", moved)
    replayed("partition changes", committed, moved)
    began = process_time()
    gc.collect()
    print(f"one full collection of garbage: {process_time() - began:.2f} s")


def snapshot(image: ClusterImage, partitions: int) -> None:
    """Writing and loading of a snapshot."""
    snapshot_id, bounds = SnapshotId(1, 1), SnapshotBounds(1)
    began = process_time()
    data = b"".join(encode_snapshot(snapshot_id, bounds, image.snapshot_records()))
    show(f"write a snapshot ({len(data) >> 20} MiB)", process_time() - began, partitions)
    began = process_time()
    reader, loaded = SnapshotReader(snapshot_id), CommittedImage()
    for start in range(0, len(data), 1 << 20):
        for batch in reader.feed(data[start : start + (1 << 20)]):
            if not batch.header.is_control:
                loaded.replay(map(decode_metadata, record_values(batch)))
    reader.finish()
    show("load it", process_time() - began, partitions)
    assert loaded.image == image


if __name__ == "__main__":
    main()
