"""Deltas cut by key and merged bucket by bucket are the state of a node; its snapshot comes out sorted by place."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorum_node.image.cluster_image import ClusterImage
from quorum_node.image.features import FeaturesImage
from quorum_node.records import metadata as md
from quorum_node.records.batches import DecodedRecord
from quorum_node.records.control import KRaftVersion, LeaderChange, VotersRecord, encode_control
from quorum_node.records.identity import ReplicaKey
from quorum_pipeline.deltas.buckets import (
    Names,
    by_name,
    by_shard,
    by_topic,
    drop_configs,
    large_topics,
    merged,
    names_of,
)
from quorum_pipeline.deltas.contradiction import first_of
from quorum_pipeline.deltas.rows import image_of
from quorum_pipeline.deltas.shards import (
    SHARD_PARTITIONS,
    homes_of_ids,
    is_shard,
    key_of,
)
from quorum_pipeline.deltas.snapshot_order import Place, placed
from quorum_pipeline.deltas.span import Outcome, Span
from quorum_pipeline.deltas.summary import Summary
from support.delta_checks import CUTS, SHORT, reduced
from support.delta_records import SHARDED_LOGS, node_state
from support.written_log import voter


def split(span: Span, count: int, shards: dict[int, dict[int, int]]) -> dict[int, Span]:
    """The buckets of topics of a span, and their shards, by key."""
    found = {}
    for home, part in enumerate(by_topic(span, count)):
        pieces = by_shard(part, shards[home]) if home in shards else [part]
        found.update({key_of(home, shard, count): each for shard, each in enumerate(pieces)})
    return found


def bucket_outcomes(
    values: list[bytes], cuts: list[int], count: int, shard_partitions: int
) -> tuple[list[Outcome], list[Outcome], list[int]]:
    """Of each shard; of each bucket of topics, then of each of the others; and ids of topics without a name."""
    borders = sorted({0, len(values), *(each for each in cuts if each < len(values))})
    spans = [reduced(values, *each) for each in pairwise(borders)]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("quorum_pipeline.deltas.shards.SHARD_PARTITIONS", shard_partitions)
        shards = homes_of_ids(map(large_topics, spans), count)
        parts = [split(span, count, shards) for span in spans]
    topics = {key: merged(each[key] for each in parts).finish() for key in parts[0]}
    others = [
        merged(each).finish()
        for each in zip(*(by_name(span, count) for span in spans), strict=True)
    ]
    nameless: list[int] = []
    reported = [
        names_of(outcome.delta, count) for key, outcome in topics.items() if not is_shard(key)
    ]
    for number, outcome in enumerate(others):
        names = Names()
        for each in reported:
            nameless += names.add(each[number])
        drop_configs(outcome.delta, names)
    of_shards = [outcome for key, outcome in topics.items() if is_shard(key)]
    homes = [outcome for key, outcome in topics.items() if not is_shard(key)]
    return of_shards, [*homes, *others], nameless


def without(outcome: Outcome, nameless: list[int]) -> ClusterImage:
    delta = outcome.delta
    delta.named = {name: each for name, each in delta.named.items() if each[1] not in nameless}
    return image_of(delta)


def snapshot_of(
    images: list[ClusterImage], level: FeaturesImage
) -> Iterator[tuple[Place, md.MetadataMessage]]:
    """The records of some parts of a state, which finalizes these levels, with their places."""
    for image in images:
        for row in placed(replace(image, features=level).snapshot_messages()):
            record = row[1]
            if (
                not isinstance(record, md.FeatureLevelRecord)
                or record.name in image.features.levels
            ):
                yield row


EVERY_SHARD_SIZE = st.sampled_from([1, 2, SHARD_PARTITIONS])


@SHORT
@given(SHARDED_LOGS.filter(bool), CUTS, st.integers(1, 4), EVERY_SHARD_SIZE)
@pytest.mark.requirement("SP-03")
def test_state_merged_by_bucket_equals_that_of_a_node(
    values: list[bytes], cuts: list[int], count: int, shard_partitions: int
) -> None:
    expected = node_state(values)
    shards, others, nameless = bucket_outcomes(values, cuts, count, shard_partitions)
    wrong = first_of(*(each.wrong for each in shards + others))
    assert (wrong.offset if wrong else None) == expected.wrong_at
    if wrong is not None:
        return
    assert {each.in_transaction for each in shards + others} == {expected.in_transaction}
    images = [without(each, nameless) for each in others]
    assert frozenset().union(*(each.left_out for each in images)) == expected.image.left_out
    level = expected.image.features
    rows = list(snapshot_of(images, level))
    for row in snapshot_of([without(each, nameless) for each in shards], level):
        if not isinstance(row[1], md.TopicRecord):
            assert isinstance(row[1], md.PartitionRecord), "nothing else is in a shard"
            rows.append(row)
    rows.sort(key=lambda row: row[0])
    assert [record for _, record in rows] == list(expected.image.snapshot_messages())


@settings(SHORT, max_examples=3_000)
@given(SHARDED_LOGS.filter(bool), CUTS, st.integers(1, 4), EVERY_SHARD_SIZE)
@pytest.mark.long
@pytest.mark.requirement("SP-03")
def test_state_merged_by_bucket_equals_that_of_a_node_for_many_examples(
    values: list[bytes], cuts: list[int], count: int, shard_partitions: int
) -> None:
    test_state_merged_by_bucket_equals_that_of_a_node.hypothesis.inner_test(  # type: ignore[attr-defined]
        values, cuts, count, shard_partitions
    )


def test_adjacent_summaries_are_combined() -> None:
    first = Summary(0, 5, epoch=1, timestamp_ms=10, records=5, leader_id=1)
    second = Summary(5, 9, epoch=2, timestamp_ms=20, records=4, kraft_version=1)
    both = first.then(second)
    assert (both.start_offset, both.end_offset, both.records) == (0, 9, 9)
    assert (both.epoch, both.timestamp_ms, both.leader_id, both.kraft_version) == (2, 20, 1, 1)
    assert both.then(Summary(9, 9)) == both, "an empty bucket has an epoch or a time"
    missing = first.then(Summary(6, 9))
    assert missing.stop
    assert missing.wrong is not None
    assert missing.wrong.offset == 5
    assert missing.then(second) == missing


def test_control_records_give_leader_and_voters() -> None:
    def after_control(
        at: Summary, offset: int, record: LeaderChange | KRaftVersion | VotersRecord
    ) -> Summary:
        encoded = encode_control(record)
        return at.control(DecodedRecord(offset, 0, encoded.key, encoded.value), 7)

    small = VotersRecord((voter(1, 1),), "cluster", initial_voters=2)
    large = VotersRecord((voter(1, 1), voter(2, 2)), "cluster", initial_voters=2)
    at = after_control(Summary(0, 0), 3, LeaderChange(2, (ReplicaKey(2),), (ReplicaKey(2),)))
    at = after_control(after_control(at, 4, KRaftVersion(1)), 5, small)
    assert (at.leader_id, at.kraft_version, at.has_formed) == (2, 1, False)
    at = after_control(at, 6, large)
    assert at.has_formed
    at = replace(at, end_offset=8).then(after_control(Summary(8, 9), 8, small))
    assert at.has_formed
    assert at.voters is not None
    assert (len(at.voters.voters), at.voters.log_position) == (1, (8, 7))
