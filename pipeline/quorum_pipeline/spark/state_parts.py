"""Functions of one bucket of a state, or of the same bucket of two states, for executors.

Owns rows of tables, counts, differences and snapshot records of a bucket. `state_job.py` combines all buckets.
"""

from __future__ import annotations

import pickle
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from quorum_node.image.cluster_image import ClusterImage
from quorum_node.image.features import FeaturesImage
from quorum_node.records.control import VotersRecord
from quorum_node.records.identity import uuid_text
from quorum_node.records.metadata import (
    FeatureLevelRecord,
    RegisterBrokerRecord,
    TopicRecord,
    encode_metadata,
    record_version,
)
from quorum_pipeline.deltas.contradiction import Contradiction
from quorum_pipeline.deltas.rows import image_of
from quorum_pipeline.deltas.shards import is_shard
from quorum_pipeline.deltas.snapshot_order import placed
from quorum_pipeline.state.difference import Difference, differences_of
from quorum_pipeline.state.tables import STATE_TABLES, Row

OF_TOPICS = frozenset(("topics", "partitions"))
_BY_NAME = {table.name: table for table in STATE_TABLES}
TABLE_PLACE = {table.name: place for place, table in enumerate(STATE_TABLES)}


@dataclass(frozen=True, slots=True)
class Part:
    """A bucket of a state, from which `state.tables` makes rows."""

    image: ClusterImage
    voters: VotersRecord | None = None


@dataclass(frozen=True, slots=True)
class Whole:
    """The part of a state that its buckets need for their rows. `nameless`: ids of topics whose name another one has taken;
    `replicas`: number by broker; `in_shards`: number of partitions outside of the bucket of their topic, by text of its id.
    """

    nameless: frozenset[int]
    replicas: Counter[int]
    in_shards: Counter[str]


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of one bucket: counts of rows by table, replicas by broker, records that an image can't contain, and errors.
    `in_shards`: see Whole.
    """

    counts: dict[str, int]
    replicas: dict[int, int]
    left_out: frozenset[str]
    levels: dict[str, int]
    nameless: list[int]
    in_transaction: bool
    wrong: Contradiction | None
    in_shards: dict[str, int] = field(default_factory=dict)


def part_image(nameless: frozenset[int], data: bytes) -> ClusterImage:
    found = unpacked(data)
    if not isinstance(found, tuple):
        # The result of compiled loops has `state`. Their modules are not needed for other results.
        image: ClusterImage = getattr(found, "state", found).image()
        return image
    outcome, _ = found
    for number in nameless:
        outcome.delta.topics.pop(number, None)
    named = outcome.delta.named
    outcome.delta.named = {n: taker for n, taker in named.items() if taker[1] not in nameless}
    return image_of(outcome.delta)


def figures_of_topics(nameless: frozenset[int], keyed: tuple[int, bytes]) -> Figures:
    outcome, _ = unpacked(keyed[1])
    if outcome.wrong is not None:
        return Figures({}, {}, frozenset(), {}, [], False, outcome.wrong)
    image = part_image(nameless, keyed[1])
    counts = {name: _BY_NAME[name].count(Part(image)) for name in OF_TOPICS}
    in_shards = {}
    if is_shard(keyed[0]):
        counts["topics"] = 0
        in_shards = {uuid_text(each.topic_id): len(each.partitions) for each in image.topics}
    replicas = {
        each: image.topics.replica_count(each) for each in image.topics.of_brokers.brokers()
    }
    return Figures(counts, replicas, frozenset(), {}, [], outcome.in_transaction, None, in_shards)


def figures_of_names(keyed: tuple[int, bytes]) -> Figures:
    outcome, nameless = unpacked(keyed[1])
    image = image_of(outcome.delta)
    return Figures(
        counts_of_names(image),
        {},
        image.left_out,
        dict(image.features.levels),
        nameless,
        outcome.in_transaction,
        outcome.wrong,
    )


def counts_of_names(image: ClusterImage) -> dict[str, int]:
    """Return the number of rows of each table that has no topics."""
    return {
        table.name: table.count(Part(image))
        for table in STATE_TABLES
        if table.name not in OF_TOPICS and table.name != "voters"
    }


def rows_of(name: str, whole: Whole, keyed: tuple[int, bytes]) -> Iterator[Row]:
    if name == "topics" and is_shard(keyed[0]):
        return
    for row in _BY_NAME[name].rows(Part(part_image(whole.nameless, keyed[1]))):
        if name == "brokers":
            row["replicas"] = whole.replicas[row["broker_id"]]
        if name == "topics":
            row["partitions"] += whole.in_shards[row["topic_id"]]
        yield row


def brokers_of(
    nameless: frozenset[int], keyed: tuple[int, bytes]
) -> Iterator[RegisterBrokerRecord]:
    yield from part_image(nameless, keyed[1]).brokers.by_id.values()


def placed_in(image: ClusterImage) -> Iterator[tuple[str, int, tuple[int, ...]]]:
    """Yield topic, number and replicas of each partition, in order, without replicas that are being removed."""
    for name in image.topics.names():
        topic = image.topics.named(name)
        assert topic is not None
        for number, partition in sorted(topic.partitions.items()):
            leaving = partition.removing_replicas
            yield name, number, tuple(each for each in partition.replicas if each not in leaving)


def placed_of(
    nameless: frozenset[int], keyed: tuple[int, bytes]
) -> Iterator[tuple[tuple[str, int], tuple[str, int, tuple[int, ...]]]]:
    for name, number, replicas in placed_in(part_image(nameless, keyed[1])):
        yield (name, number), (name, number, replicas)


def with_order(name: str, row: Row) -> tuple[tuple[Any, ...], Row]:
    return _BY_NAME[name].order(row), row


def differences_in(
    names: tuple[str, ...],
    sides: tuple[Whole, Whole],
    pair: tuple[int, tuple[bytes | None, bytes | None]],
) -> Iterator[tuple[tuple[Any, ...], Difference]]:
    """Yield the differences of tables in one bucket; deleted rows come last in each table."""
    bucket, both = pair
    for name in names:
        table = _BY_NAME[name]
        rows = [
            iter(()) if each is None else rows_of(name, side, (bucket, each))
            for side, each in zip(sides, both, strict=True)
        ]
        for each in differences_of(table, *rows):
            row = each.before if each.after is None else each.after
            assert row is not None, "one of the two is there"
            yield (TABLE_PLACE[name], each.after is None, *table.order(row)), each


def snapshot_values(
    levels: dict[str, int], nameless: frozenset[int], keyed: tuple[int, bytes]
) -> Iterator[tuple[tuple[Any, ...], bytes]]:
    """Yield the snapshot records of one bucket; the finalized level determines their versions."""
    features = FeaturesImage().levels.update(levels)
    image = part_image(nameless, keyed[1])
    mine = dict(image.features.levels)
    image = replace(image, features=FeaturesImage(features))
    level = image.features.metadata_version
    for place, record in placed(image.snapshot_messages()):
        if isinstance(record, FeatureLevelRecord) and record.name not in mine:
            continue  # belongs to another bucket
        if isinstance(record, TopicRecord) and is_shard(keyed[0]):
            continue  # as well
        yield place, encode_metadata(record, record_version(type(record), level))


def of_values(
    function: Callable[[Iterator[bytes]], Iterable[Any]],
    levels: dict[str, int],
    nameless: frozenset[int],
    keyed: tuple[int, bytes],
) -> Iterable[Any]:
    return function(value for _, value in snapshot_values(levels, nameless, keyed))


def digest_of(
    number_of: Callable[[bytes], int],
    levels: dict[str, int],
    nameless: frozenset[int],
    keyed: tuple[int, bytes],
) -> Iterator[int]:
    yield sum(number_of(value) for _, value in snapshot_values(levels, nameless, keyed))


def packed(found: Any, level: int = 1) -> bytes:
    """Pickle a value for another process. `level`: of compression, 0 if the value is already compressed."""
    return zlib.compress(pickle.dumps(found, pickle.HIGHEST_PROTOCOL), level)


def unpacked(data: bytes) -> Any:
    """Return the value that was packed."""
    return pickle.loads(zlib.decompress(data))
