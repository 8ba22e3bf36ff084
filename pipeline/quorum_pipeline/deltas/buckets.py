"""Partitions a span by key, so that each bucket can be merged independently. PURE.

Owns the assignment of keys to buckets: topics and partitions by topic id, and by number of the partition if the topic is
large (`shards.py`); configs, brokers and others by what identifies them. Only topic names cross buckets: merged topics
report removed and taken names (`Names`), which configs are checked against.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar
from zlib import crc32

from quorum_node.image.resource_types import TOPIC
from quorum_pipeline.deltas.chain import Chain
from quorum_pipeline.deltas.delta import Delta, survives
from quorum_pipeline.deltas.shards import range_of
from quorum_pipeline.deltas.span import Span

Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(slots=True)
class Names:
    """Names according to merged topics. `takers`: name → offset and id of the topic that took it last, and whether it still exists."""

    removed: dict[str, int] = field(default_factory=dict)
    takers: dict[str, tuple[int, int, bool]] = field(default_factory=dict)

    def add(self, other: "Names") -> list[int]:
        """Add the names of other topics. Returns the ids of topics whose name was taken by another one."""
        nameless: list[int] = []
        for name, offset in other.removed.items():
            self.removed[name] = max(offset, self.removed.get(name, offset))
        for name, taker in other.takers.items():
            before = self.takers.get(name, taker)
            last = self.takers[name] = max(before, taker)
            nameless += [each[1] for each in (before, taker) if each[2] and each != last]
        return nameless


def by_topic(span: Span, count: int) -> list[Span]:
    """Split the topics and partitions of `span` into `count` spans. Each one has the transaction boundaries."""
    return [_cut(span, partial(_topics_of, number, count)) for number in range(count)]


def large_topics(span: Span) -> dict[int, int]:
    """Return the highest range of partitions of each large topic, by topic id."""
    found: dict[int, int] = {}
    for chain in (span.head, span.body, span.tail):
        for delta in () if chain is None else chain.deltas:
            for number, partition_id in _partitions_of(delta):
                highest = range_of(partition_id)
                if highest > found.get(number, 0):
                    found[number] = highest
    return found


def by_shard(span: Span, shards: Mapping[int, int]) -> list[Span]:
    """Split a bucket of topics by shard, the home first. `shards`: number of shards of its large topics, by topic id."""
    count = max(shards.values())
    return [_cut(span, partial(_shard_of, number, shards)) for number in range(count)]


def by_name(span: Span, count: int) -> list[Span]:
    """Split everything else into `count` spans."""
    return [_cut(span, partial(_others_of, number, count)) for number in range(count)]


def names_of(delta: Delta, count: int) -> list[Names]:
    """Return the names of a bucket's merged topics, for each bucket of `by_name`."""
    found = [Names() for _ in range(count)]
    for name, offset in delta.removed_names.items():
        found[_bucket(name, count)].removed[name] = offset
    for name, (offset, number) in delta.named.items():
        there = delta.holder(name) is not None
        found[_bucket(name, count)].takers[name] = (offset, number, there)
    return found


def drop_configs(delta: Delta, names: Names) -> None:
    """Drop configs of topics that were removed later."""
    delta.configs = {
        key: value
        for key, value in delta.configs.items()
        if value[1] is not None and survives(key, value[0], names.removed)
    }


def _cut(span: Span, part: Callable[[Chain], Chain]) -> Span:
    return Span(
        part(span.head),
        span.boundary,
        part(span.body),
        None if span.tail is None else part(span.tail),
        span.malformed,
        span.stopped,
    )


def _topics_of(number: int, count: int, chain: Chain) -> Chain:
    return Chain([_topics(each, number, count) for each in chain.deltas], list(chain.names))


def _topics(delta: Delta, number: int, count: int) -> Delta:
    def mine(items: Iterable[tuple[int, Value]]) -> dict[int, Value]:
        return {key: value for key, value in items if key % count == number}

    return Delta(
        topics=mine(delta.topics.items()),
        partitions=mine(delta.partitions.items()),
        named={name: taker for name, taker in delta.named.items() if taker[1] % count == number},
        removed_names=delta.removed_names if number == 0 else {},
        cleared={key for key in delta.cleared if key % count == number},
        all_cleared=delta.all_cleared,
        needs_topics=mine(delta.needs_topics.items()),
        needs_partitions={
            key: offset
            for key, offset in delta.needs_partitions.items()
            if key[0] % count == number
        },
        required={
            key: required for key, required in delta.required.items() if key[0] % count == number
        },
        wrong=delta.wrong if number == 0 else None,
    )


def _partitions_of(delta: Delta) -> Iterator[tuple[int, int]]:
    """Yield topic id and number of the partitions that a delta is about."""
    for number, ops in delta.partitions.items():
        for partition_id in ops:
            yield number, partition_id
    yield from delta.needs_partitions
    yield from delta.required


def _shard_of(number: int, shards: Mapping[int, int], chain: Chain) -> Chain:
    return Chain([_shard(each, number, shards) for each in chain.deltas], list(chain.names))


def _shard(delta: Delta, shard: int, shards: Mapping[int, int]) -> Delta:
    def here(number: int) -> bool:
        return shard < shards.get(number, 1)

    def mine(number: int, partition_id: int) -> bool:
        return range_of(partition_id) % shards.get(number, 1) == shard

    partitions = {
        number: {each: op for each, op in ops.items() if mine(number, each)}
        for number, ops in delta.partitions.items()
        if here(number)
    }
    return Delta(
        topics={number: topic for number, topic in delta.topics.items() if here(number)},
        partitions={number: ops for number, ops in partitions.items() if ops},
        named={name: taker for name, taker in delta.named.items() if here(taker[1])},
        removed_names={} if shard else delta.removed_names,
        cleared={number for number in delta.cleared if here(number)},
        all_cleared=delta.all_cleared,
        needs_topics={number: at for number, at in delta.needs_topics.items() if here(number)},
        needs_partitions={key: at for key, at in delta.needs_partitions.items() if mine(*key)},
        required={key: required for key, required in delta.required.items() if mine(*key)},
        wrong=None if shard else delta.wrong,
    )


def _others_of(number: int, count: int, chain: Chain) -> Chain:
    parts = [_others(each, number, count) for each in chain.deltas]
    first = parts[0]
    for each in parts[1:]:
        first.then(each)
    return Chain([first])


def _others(delta: Delta, number: int, count: int) -> Delta:
    return Delta(
        configs=_some(delta.configs, number, count, lambda key: key[1] if key[0] == TOPIC else key),
        brokers=_some(delta.brokers, number, count, lambda key: key),
        puts=_some(delta.puts, number, count, lambda key: key),
        left_out=delta.left_out if number == 0 else set(),
    )


def _some(
    items: dict[Key, Value], number: int, count: int, name: Callable[[Key], object]
) -> dict[Key, Value]:
    return {key: value for key, value in items.items() if _bucket(name(key), count) == number}


def _bucket(name: object, count: int) -> int:
    """Bucket of a key, equal in every process."""
    return crc32(repr(name).encode(errors="surrogatepass")) % count


def merged(spans: Iterable[Span]) -> Span:
    """Merge parts of adjacent spans, in order."""
    found = Span()
    for each in spans:
        found.then(each)
    return found
