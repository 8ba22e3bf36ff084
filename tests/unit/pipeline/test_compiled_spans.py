"""Spans whose records are decoded by compiled loops, split by key and merged by bucket: the state of a node, or no result."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorum_node.image.cluster_image import ClusterImage
from quorum_node.image.resource_types import TOPIC
from quorum_node.records import metadata as md
from quorum_pipeline.canonical_encoding import Unsupported
from quorum_pipeline.compaction.offset_runs import OffsetRun, by_bucket, compacted, unpacked
from quorum_pipeline.compaction.record_run import decoded, run_of_values
from quorum_pipeline.compaction.sharding import by_shard, large_topics, partitions_of
from quorum_pipeline.deltas.pieces import counted
from quorum_pipeline.deltas.shards import (
    SHARD_PARTITIONS,
    homes_of_ids,
    is_shard,
    key_of,
)
from quorum_pipeline.state.compacted import compacted as as_objects
from quorum_pipeline.state.compiled_span import CompiledSpan, check_aborted
from quorum_pipeline.state.merged_buckets import StateBucket, names_bucket, topics_bucket
from support.delta_checks import CUTS, SHORT
from support.delta_records import SHARDED_LOGS, node_state
from support.elr_histories import elr_histories
from support.metadata_histories import histories
from support.written_log import TOPIC_ID

SHARD_SIZES = st.sampled_from([1, 2, SHARD_PARTITIONS])
Parts = dict[tuple[int, int, int], bytes]
"""By bucket (those of names behind those of topics, shards with their keys), span and piece."""


def compiled(values: list[bytes], begin: int, end: int, block: int) -> CompiledSpan:
    found = CompiledSpan()
    for at in range(begin, end, block):
        stop = min(at + block, end)
        found.add(run_of_values(values[at:stop]), np.arange(at, stop))
    return found


def state_of(
    values: list[bytes], cuts: list[int], block: int, count: int, rounds: int = 1
) -> tuple[list[StateBucket], bool]:
    """Buckets of the state, then shards, and whether a transaction is open. `rounds`: how often what is left is compacted again.

    Raises Unsupported.
    """
    borders = sorted({0, len(values), *(each for each in cuts if each < len(values))})
    spans = [compiled(values, *each, block) for each in itertools.pairwise(borders)]
    parts: Parts = {}
    pieces = {}
    large: dict[int, int] = {}
    for number, span in enumerate(spans):
        for piece, run in span.pieces():
            left = run
            for _ in range(rounds):
                left = compacted([left])
            pieces[number, piece] = left
            topics, names = by_bucket(left, count)
            large = large_topics(left, large)
            for bucket, part in enumerate(topics + names):
                if len(part):
                    parts[bucket, number, piece] = part.packed()
    parts.update(split(parts, homes_of_ids([large], count), count))
    order, dropped, is_open = counted([(each.boundary, each.is_open) for each in spans])
    for each in dropped:
        if each in pieces:
            check_aborted(pieces[each])

    def of_bucket(bucket: int) -> list[bytes]:
        return [parts[bucket, *each] for each in order if (bucket, *each) in parts]

    of_topics = [topics_bucket(of_bucket(number), count) for number in range(count)]
    of_names = [
        names_bucket(of_bucket(count + number), [each.reported[number] for each in of_topics])
        for number in range(count)
    ]
    shards = sorted({bucket for bucket, *_ in parts if is_shard(bucket)})
    of_shards = [topics_bucket(of_bucket(bucket), count) for bucket in shards]
    return [
        *(each.state for each in of_topics),
        *of_names,
        *(each.state for each in of_shards),
    ], is_open


def split(parts: Parts, shards: dict[int, dict[int, int]], count: int) -> Parts:
    """The buckets that have shards, and these."""
    return {
        (key_of(bucket, shard, count), *place): part.packed()
        for (bucket, *place), data in parts.items()
        if bucket in shards
        for shard, part in enumerate(by_shard(unpacked(data), shards[bucket]))
    }


def as_a_node(
    values: list[bytes],
    cuts: list[int],
    block: int,
    count: int,
    rounds: int,
    shard_partitions: int = SHARD_PARTITIONS,
) -> bool:
    """Whether the loops gave a result; the result is asserted."""
    expected = node_state(values)
    try:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr("quorum_pipeline.deltas.shards.SHARD_PARTITIONS", shard_partitions)
            buckets, is_open = state_of(values, cuts, block, count, rounds)
    except Unsupported:
        return False
    assert expected.wrong_at is None, "the loops accept records that a node refuses"
    assert is_open == expected.in_transaction
    assert frozenset().union(*(each.left_out for each in buckets)) == expected.image.left_out
    records = [record for each in buckets[: 2 * count] for record in decoded(each.records().run)]
    for each in buckets[2 * count :]:
        records += decoded(partitions_of(each.records()).run)
    image = ClusterImage().replay_all(records)
    assert list(image.snapshot_records()) == list(expected.image.snapshot_records())
    return True


@SHORT
@given(SHARDED_LOGS, CUTS, st.integers(1, 70), st.integers(1, 4), st.integers(0, 2), SHARD_SIZES)
@pytest.mark.requirement("SP-03")
def test_compiled_spans_merged_by_bucket_give_the_state_of_a_node(
    values: list[bytes],
    cuts: list[int],
    block: int,
    count: int,
    rounds: int,
    shard_partitions: int,
) -> None:
    as_a_node(values, cuts, block, count, rounds, shard_partitions)


@settings(SHORT, max_examples=4_000)
@given(SHARDED_LOGS, CUTS, st.integers(1, 70), st.integers(1, 4), st.integers(0, 2), SHARD_SIZES)
@pytest.mark.long
@pytest.mark.requirement("SP-03")
def test_compiled_spans_merged_by_bucket_give_the_state_of_a_node_for_many_examples(
    values: list[bytes],
    cuts: list[int],
    block: int,
    count: int,
    rounds: int,
    shard_partitions: int,
) -> None:
    as_a_node(values, cuts, block, count, rounds, shard_partitions)


@settings(SHORT, max_examples=40)
@given(
    histories(max_size=60, newer=False), CUTS, st.integers(1, 70), st.integers(1, 4), SHARD_SIZES
)
@pytest.mark.requirement("SP-03")
def test_controller_records_are_handled_by_compiled_loops(
    values: list[bytes], cuts: list[int], block: int, count: int, shard_partitions: int
) -> None:
    assert as_a_node(values, cuts, block, count, 1, shard_partitions)


@SHORT
@given(elr_histories(), CUTS, st.integers(1, 70), st.integers(1, 4), st.integers(0, 2), SHARD_SIZES)
def test_cleared_eligible_leader_replicas_are_those_of_a_node(
    values: list[bytes],
    cuts: list[int],
    block: int,
    count: int,
    rounds: int,
    shard_partitions: int,
) -> None:
    assert as_a_node(values, cuts, block, count, rounds, shard_partitions)


@settings(SHORT, max_examples=4_000)
@given(elr_histories(), CUTS, st.integers(1, 70), st.integers(1, 4), st.integers(0, 2), SHARD_SIZES)
@pytest.mark.long
def test_cleared_eligible_leader_replicas_are_those_of_a_node_for_many_examples(
    values: list[bytes],
    cuts: list[int],
    block: int,
    count: int,
    rounds: int,
    shard_partitions: int,
) -> None:
    assert as_a_node(values, cuts, block, count, rounds, shard_partitions)


def left(records: list[md.MetadataMessage]) -> tuple[int, int]:
    """The number of rows that remain, as encoded records and as objects."""
    run = run_of_values([md.encode_metadata(each, each.HIGHEST_VERSION) for each in records])
    kept = compacted([OffsetRun(run, np.arange(len(run)))])
    return len(kept), sum(1 for _ in as_objects(run))


def change(partition_id: int, **fields: tuple[int, ...]) -> md.MetadataMessage:
    return md.PartitionChangeRecord(partition_id=partition_id, topic_id=TOPIC_ID, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["t", ""])
def test_changes_are_combined_across_clear_elr(name: str) -> None:
    records: list[md.MetadataMessage] = []
    for _ in range(10):
        records += [change(each, isr=(1, 2)) for each in range(50)]
        records.append(md.ClearElrRecord(topic_name=name))
    assert left(records) == (60, 60), "a row for each partition and each ClearElr"


def test_changes_of_what_is_cleared_are_combined_across_clear_elr() -> None:
    """As objects they are not."""
    others = [change(each, isr=(1, 2)) for each in range(3)]
    electable = [change(0, eligible_leader_replicas=(1,)), change(1, last_known_elr=(1,))]
    clear = md.ClearElrRecord(topic_name="t")
    assert left([*others, *electable, clear, *others]) == (4, 4)
    assert left([*others, clear, *electable, *others]) == (4, 6)


def test_replaced_config_is_left_out_across_clear_elr() -> None:
    first, last = (
        md.ConfigRecord(resource_type=TOPIC, resource_name="t", name="k", value=each)
        for each in ("first", "last")
    )
    assert left([first, md.ClearElrRecord(topic_name="t"), last]) == (2, 2)


@pytest.mark.parametrize("changes", [150_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_hot_partition_is_one_row_and_heartbeats_are_none(changes: int) -> None:
    change = md.PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, isr=(1, 2), leader=1)
    values = [md.encode_metadata(change, 2), md.encode_metadata(md.NoOpRecord(), 0)] * changes
    span = CompiledSpan()
    span.add(run_of_values(values), np.arange(len(values)))
    ((_, left),) = span.pieces()
    assert len(left) == 1
    again = compacted([left, unpacked(left.packed())])
    assert len(again) == 1


def test_configs_of_a_deleted_topic_are_removed_and_those_of_its_successor_stay() -> None:
    """Topics and configs are in other buckets, the removal has only an id, and each record is in a span of its own."""

    def named(value: str) -> md.ConfigRecord:
        return md.ConfigRecord(resource_type=2, resource_name="a", name="k", value=value)

    topic = md.TopicRecord(name="a", topic_id=TOPIC_ID)
    other = md.TopicRecord(name="a", topic_id=type(TOPIC_ID)(int=78))
    remove = md.RemoveTopicRecord(topic_id=TOPIC_ID)
    for records, left in (
        ([topic, named("1"), remove], 0),
        ([topic, named("1"), remove, other, named("2")], 1),
        ([topic, remove, named("1")], 1),
    ):
        values = [md.encode_metadata(each, each.HIGHEST_VERSION) for each in records]
        assert as_a_node(values, list(range(len(values))), 1, 2, 1)
        buckets, _ = state_of(values, list(range(len(values))), 1, 2)
        configs = sum(len(each.records().of_kind(md.ConfigRecord.RECORD_TYPE)) for each in buckets)
        assert configs == left


def test_transaction_across_five_spans_counts_when_it_ends() -> None:
    begin, end = md.BeginTransactionRecord(name="t"), md.EndTransactionRecord()
    topics = [
        md.TopicRecord(name=f"t{number}", topic_id=type(TOPIC_ID)(int=number))
        for number in range(5)
    ]
    for records, is_open, there in (
        ([begin, *topics, end], False, 5), ([begin, *topics], True, 0), ([*topics[:2], begin, *topics[2:]], True, 2),
    ):  # fmt: skip
        values = [md.encode_metadata(each, each.HIGHEST_VERSION) for each in records]
        buckets, found = state_of(values, list(range(len(values))), 1, 2)
        assert found == is_open
        assert sum(len(each.image().topics.ids) for each in buckets) == there
    values = [
        md.encode_metadata(each, each.HIGHEST_VERSION)
        for each in (begin, *topics, md.AbortTransactionRecord(reason=None))
    ]
    for cuts in ([], [2, 4]):
        buckets, _ = state_of(values, cuts, 1, 2)
        assert sum(len(each.image().topics.ids) for each in buckets) == 0
    values[3] = values[3][:5]
    with pytest.raises(Unsupported):
        state_of(values, [2, 4], 1, 2)
