"""Combined changes of eligible leader replicas that passed ClearElr records: the state of a node, few rows, and the format of files."""

import itertools
import json
import random
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorum_node.image.cluster_image import ClusterImage
from quorum_node.records import metadata as md
from quorum_pipeline.compaction.offset_runs import (
    OffsetRun,
    by_bucket,
    compacted,
    elr_update_counts,
    merged_topics,
    unpacked,
)
from quorum_pipeline.compaction.record_run import decoded, run_of_values
from quorum_pipeline.deltas.pieces import HEAD
from quorum_pipeline.deltas.summary import Summary
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files import delta_file
from quorum_pipeline.files.delta_file import DeltaHead, read_delta, write_delta
from support.delta_checks import CUTS, SHORT
from support.delta_records import node_state
from support.elr_histories import elr_histories
from support.written_log import TOPIC_ID, partition

HEAD_OF = DeltaHead(Summary(0, 1))


def reduced(values: list[bytes], begin: int, end: int) -> OffsetRun:
    return compacted([OffsetRun(run_of_values(values[begin:end]), np.arange(begin, end))])


def about_topics(records: list[md.MetadataMessage]) -> list[md.MetadataMessage]:
    return [each for each in records if isinstance(each, md.TopicRecord | md.PartitionRecord)]


def merged_as_a_node(
    values: list[bytes], cuts: list[int], seed: int, steps: int, buckets: int
) -> list[OffsetRun]:
    """Reduce spans, compose neighbours in any order up to so many times, merge, and compare; return what was merged."""
    borders = sorted({0, len(values), *(each for each in cuts if each < len(values))})
    spans = [reduced(values, *each) for each in itertools.pairwise(borders)]
    rng = random.Random(seed)
    for _ in range(min(steps, len(spans) - 1)):
        place = rng.randrange(len(spans) - 1)
        spans[place : place + 2] = [
            compacted([unpacked(e.packed()) for e in spans[place : place + 2]])
        ]
    image = ClusterImage()
    for parts in zip(*(by_bucket(each, buckets)[0] for each in spans), strict=True):
        image = image.replay_all(decoded(merged_topics(parts).left.run))
    expected = node_state(values)
    assert expected.wrong_at is None
    assert about_topics(list(image.snapshot_messages())) == about_topics(
        list(expected.image.snapshot_messages())
    )
    return spans


MERGED = (elr_histories(transactions=False), CUTS, st.integers(0, 99), st.integers(0, 8), st.integers(1, 2))  # fmt: skip


@SHORT
@given(*MERGED)
def test_deltas_composed_in_any_order_give_the_state_of_a_node(
    values: list[bytes], cuts: list[int], seed: int, steps: int, buckets: int
) -> None:
    merged_as_a_node(values, cuts, seed, steps, buckets)


@settings(SHORT, max_examples=4_000)
@given(*MERGED)
@pytest.mark.long
def test_deltas_composed_in_any_order_give_the_state_of_a_node_for_many_examples(
    values: list[bytes], cuts: list[int], seed: int, steps: int, buckets: int
) -> None:
    merged_as_a_node(values, cuts, seed, steps, buckets)


def encoded(*records: md.MetadataMessage) -> list[bytes]:
    return [md.encode_metadata(each, each.HIGHEST_VERSION) for each in records]


def electable(partition_id: int, *brokers: int) -> md.PartitionChangeRecord:
    return md.PartitionChangeRecord(
        partition_id=partition_id, topic_id=TOPIC_ID, eligible_leader_replicas=brokers
    )


def begun(partitions: int) -> list[bytes]:
    return encoded(
        md.TopicRecord(name="t", topic_id=TOPIC_ID),
        *(partition(number, (1, 2)) for number in range(partitions)),
    )


@pytest.mark.parametrize("names", [("t",), ("",), ("another",), ("t", "another", "")])
def test_changes_that_all_set_what_is_cleared_are_a_row_for_each_partition(
    names: tuple[str, ...],
) -> None:
    rounds, partitions = 12, 50
    values = begun(partitions)
    first = len(values)
    for number in range(rounds):
        values += encoded(*(electable(each, *range(each % 2)) for each in range(partitions)))
        values += encoded(md.ClearElrRecord(topic_name=names[number % len(names)]))
    spans = merged_as_a_node(values, [first], 0, 0, 1)
    assert len(spans[1]) == partitions + rounds


def test_last_change_between_two_records_decides_whether_something_is_cleared() -> None:
    """The partition has nothing to clear where only an earlier one has set it, however the changes are composed."""
    clear = md.ClearElrRecord(topic_name="t")
    set_and_emptied = [electable(0, 1), electable(0), clear]
    values = [*begun(1), *encoded(*set_and_emptied * 3, electable(0, 1))]
    for cuts in ([2], range(2, len(values))):
        for seed in range(5):
            merged_as_a_node(values, list(cuts), seed, seed * 2, 1)


def test_combined_changes_have_a_limited_number_of_elr_updates() -> None:
    rounds = 600
    change, clear = electable(0, 1), md.ClearElrRecord(topic_name="t")
    values = [*begun(1), *encoded(*[change, clear] * rounds)]
    cuts = [2, *range(2 + 100, len(values), 100)]
    for steps in (0, 3, len(cuts)):
        spans = merged_as_a_node(values, cuts, steps, steps, 1)
        elr_updates = np.concatenate([elr_update_counts(each.run) for each in spans])
        assert rounds <= elr_updates.sum()
    assert len(elr_updates) < 8, "few rows have many elr_updates each"


def written(tmp_path: Path, *records: md.MetadataMessage) -> Path:
    """Write a delta file."""
    values = encoded(*records)
    name, _ = write_delta(tmp_path, "part", HEAD_OF, [(HEAD, reduced(values, 0, len(values)))])
    return tmp_path / name


def format_of(path: Path) -> int:
    number: int = json.loads(pq.read_metadata(path).metadata[b"quorum_pipeline"])["form"]
    return number


CLEAR = md.ClearElrRecord(topic_name="t")


def test_file_has_a_newer_format_only_if_older_versions_would_misread_it(tmp_path: Path) -> None:
    plain = written(tmp_path, electable(0, 1), electable(0, 2), CLEAR)
    assert format_of(plain) == 1
    assert format_of(written(tmp_path, electable(0, 1), CLEAR, electable(0, 2))) == 2


def test_files_with_elr_updates_are_read_and_those_of_a_newer_version_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, electable(0, 1), CLEAR, electable(0, 2))
    span, _ = read_delta(path)
    ((_, run),) = span.pieces()
    assert list(elr_update_counts(run.run)) == [2]
    monkeypatch.setattr(delta_file, "FORMATS", (1,))
    with pytest.raises(PipelineError, match="was written by a newer version of this program"):
        read_delta(path)
