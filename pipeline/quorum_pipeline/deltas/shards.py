"""Shards: the partitions of a large topic in several buckets, so that no task merges all of them. PURE.

Owns which partitions belong to which shard, the key of a shard among the buckets of topics, and where it is merged.
Shard 0 is the bucket of the topic's id, its home. The other shards have copies of the records about the topic itself:
its creation, its removal, and the clearing of its eligible leader replicas. Only the home reports the topic and its name.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

Topic = TypeVar("Topic")
"""What identifies a topic."""
SHARD_PARTITIONS = 4096
"""A topic is large if it has a partition with at least this number. Each run of so many partitions is in one shard."""
_PARTS_PER_BUCKET = 4
"""Large topics are split into so many parts per bucket, so that buckets differ little in size. Few shards are needed if
many topics are large."""


def range_of(partition_id: int) -> int:
    """Return the number of the range of a partition. Topics with partitions above range 0 are large."""
    return max(partition_id, 0) // SHARD_PARTITIONS


def shard_counts(found: Iterable[Mapping[Topic, int]], buckets: int) -> dict[Topic, int]:
    """Return the number of shards of each topic that has more than one.

    `found`: highest range of each large topic, of several spans of a log.
    """
    ranges: dict[Topic, int] = {}
    for each in found:
        for topic, highest in each.items():
            ranges[topic] = max(ranges.get(topic, 0), highest + 1)
    total = sum(ranges.values())
    counts = {
        topic: min(buckets, count, -(-_PARTS_PER_BUCKET * buckets * count // total))
        for topic, count in ranges.items()
    }
    return {topic: count for topic, count in counts.items() if count > 1}


def by_home(
    shards: Mapping[Topic, int], home_of: Callable[[Topic], int]
) -> dict[int, dict[Topic, int]]:
    """Group topics with shards by their home."""
    found: dict[int, dict[Topic, int]] = {}
    for topic, count in shards.items():
        found.setdefault(home_of(topic), {})[topic] = count
    return found


def homes_of_ids(found: Iterable[Mapping[int, int]], buckets: int) -> dict[int, dict[int, int]]:
    """Return the number of shards of topics by home and topic id; `found`: see `shard_counts`."""
    return by_home(shard_counts(found, buckets), lambda number: number % buckets)


def key_of(home: int, shard: int, buckets: int) -> int:
    """Return the key of a shard of topics with this home; shard 0 has the number of the bucket."""
    return -(home + shard * buckets) if shard else home


def is_shard(key: int) -> bool:
    """Return whether a key is that of a shard other than 0."""
    return key < 0


def place_of(buckets: int, key: int) -> int:
    """Return the number of the task that merges a bucket or shard: adjacent shards of a topic are merged by adjacent tasks."""
    shard, home = divmod(abs(key), buckets)
    return (home + shard) % buckets
