"""Partitions of a large topic in several buckets: the same state, history and errors, and no bucket has to merge all of them."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorum_node.records import metadata as md
from quorum_pipeline.archive.layout import STATES
from quorum_pipeline.deltas import shards
from quorum_pipeline.deltas.shards import is_shard, key_of, place_of, shard_counts
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.archive_reader import ArchiveReader
from quorum_pipeline.files.archive_tasks import ArchiveSource
from quorum_pipeline.files.local_files import LocalFiles
from quorum_pipeline.spark.compacted_job import CompactedLog
from quorum_pipeline.spark.spark_history import JobHistory
from quorum_pipeline.spark.stages import StagesHere
from quorum_pipeline.spark.state_job import ReducedLog, SparkState
from quorum_pipeline.spark.state_parts import Part, part_image, snapshot_values
from quorum_pipeline.spark.stored_states import keep_state
from quorum_pipeline.state.difference import differences
from quorum_pipeline.state.moment import Moment
from quorum_pipeline.state.tables import STATE_TABLES, TABLES_BY_NAME
from quorum_pipeline.state.versions import buckets_of
from support.delta_checks import CUTS, SHORT
from support.delta_records import BEGUN, SHARDED_LOGS, node_state
from support.metadata_histories import histories
from support.replayed_directory import replay_directory
from support.values_source import ValuesSource, plan_of
from support.version_checks import tables_at, tables_of, versions_of
from support.written_archive import write_archive
from support.written_log import TOPIC_ID, LogWriter, partition

STAGES = StagesHere(2)
FEW = settings(SHORT, max_examples=25)


@pytest.fixture(autouse=True)
def one_partition_per_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Topics of a few partitions are large."""
    monkeypatch.setattr(shards, "SHARD_PARTITIONS", 1)


def check(state: SparkState, values: list[bytes]) -> None:
    """Of all tables and the snapshot, against the node's replay."""
    expected = node_state(values)
    assert state.in_transaction == expected.in_transaction
    assert state.left_out == expected.image.left_out
    nameless = len(expected.image.topics) > len(expected.image.topics.ids)
    for table in STATE_TABLES:
        if table.name == "voters" or (table.name == "brokers" and nameless):
            continue
        assert list(state.rows(table)) == list(table.rows(Part(expected.image))), table.name
        assert state.count(table) == table.count(Part(expected.image))
    found = state.of_values(list).collect()
    assert len(found) == len(list(expected.image.snapshot_messages())), "one record twice"


@FEW
@given(SHARDED_LOGS.filter(bool), CUTS, st.integers(1, 70), st.integers(2, 5))
def test_state_of_sharded_topics_equals_that_of_a_node(
    values: list[bytes], cuts: list[int], block: int, count: int
) -> None:
    check_every_way(values, cuts, block, count)


@settings(SHORT, max_examples=2_000)
@given(SHARDED_LOGS.filter(bool), CUTS, st.integers(1, 70), st.integers(2, 5))
@pytest.mark.long
def test_state_of_sharded_topics_equals_that_of_a_node_for_many_examples(
    values: list[bytes], cuts: list[int], block: int, count: int
) -> None:
    check_every_way(values, cuts, block, count)


def check_every_way(values: list[bytes], cuts: list[int], block: int, count: int) -> bool:
    """Record by record, and by compiled loops if they give a result; returns whether they did."""
    plan = plan_of(values, cuts, block)
    wrong_at = node_state(values).wrong_at
    with ReducedLog(STAGES, plan, count) as reduced:
        if wrong_at is not None:
            with pytest.raises(PipelineError, match=rf"^offset {wrong_at}: "):
                reduced.state()
        else:
            check(reduced.state(), values)
    with JobHistory(STAGES, ValuesSource(plan, count)) as history:
        if wrong_at is None:
            check(history.at(Moment()), values)
        return wrong_at is None and not history.one_by_one


def _elr(name: str) -> md.AnyMetadata:
    return md.ClearElrRecord(topic_name=name)


_FIRST = UUID(int=1)
_MOVED = md.PartitionChangeRecord(partition_id=1, topic_id=_FIRST, directories=(UUID(int=9),))
_AGAIN = md.PartitionRecord(
    partition_id=1, topic_id=_FIRST, replicas=(1,), isr=(1,), leader=1, leader_epoch=0, partition_epoch=0
)  # fmt: skip


@pytest.mark.parametrize(
    "records",
    [
        [_elr("")],
        [_elr("a")],
        [_elr("unknown"), _elr("a")],
        [md.RemoveTopicRecord(topic_id=_FIRST)],
        [md.RemoveTopicRecord(topic_id=_FIRST), md.TopicRecord(name="a", topic_id=_FIRST), _AGAIN],
        [md.RemoveTopicRecord(topic_id=_FIRST), _AGAIN],
        [_MOVED],
        [_MOVED, _AGAIN],
        [md.BeginTransactionRecord(name="n"), _elr("a"), md.EndTransactionRecord()],
    ],
    ids=[
        "all cleared", "cleared", "cleared after another", "removed", "made again", "removed before", "directories",
        "directories before", "transaction",
    ],
)  # fmt: skip
def test_records_about_a_topic_are_applied_in_all_of_its_shards(
    records: list[md.AnyMetadata],
) -> None:
    """Two topics with two partitions each, and then these records: in one span with them, in another one, or each in one."""
    values = BEGUN + [
        md.encode_metadata(each, getattr(each, "HIGHEST_VERSION", 0)) for each in records
    ]
    for cuts in ([], [len(BEGUN)], list(range(len(values)))):
        compiled = check_every_way(values, cuts, 20, 2)
        assert compiled == (node_state(values).wrong_at is None)


@FEW
@given(histories(max_size=60, newer=False).filter(bool), st.data(), st.booleans())
def test_differences_of_sharded_topics_equal_those_of_two_nodes(
    values: list[bytes], data: st.DataObject, compiled: bool
) -> None:
    """Also if a topic is large only at the later moment."""
    start = data.draw(st.integers(0, len(values)))
    plan = plan_of(values, data.draw(CUTS), 20, (start, len(values)))
    with (CompactedLog if compiled else ReducedLog)(STAGES, plan, 3) as log:
        before, after = log.state(0), log.state(1)
    images = [Part(node_state(values[:end]).image) for end in (start, len(values))]
    rows = [{table.name: list(table.rows(each)) for table in STATE_TABLES} for each in images]
    found = list(after.differences(before))
    for table in STATE_TABLES:
        keyed = [
            {tuple(row[name] for name in table.key): row for row in each[table.name]}
            for each in rows
        ]
        changed = {key for each in keyed for key in each if keyed[0].get(key) != keyed[1].get(key)}
        mine = [each for each in found if each.table == table.name]
        assert len(mine) == len(changed)
        for each in mine:
            row = each.after or each.before
            assert row is not None
            key = tuple(row[name] for name in table.key)
            assert (each.before, each.after) == (keyed[0].get(key), keyed[1].get(key))


@FEW
@given(SHARDED_LOGS, st.integers(2, 5))
def test_versions_of_sharded_topics_are_the_rows_of_a_node(values: list[bytes], count: int) -> None:
    versions, wrong = versions_of(values, count)
    end = len(values) if wrong is None else wrong
    assert wrong == node_state(values).wrong_at
    assert tables_at(versions, end) == tables_of(node_state(values[:end]).image)


def test_versions_of_one_large_topic_are_computed_in_all_buckets() -> None:
    counts = Counter(bucket for n in range(40) for bucket in buckets_of(partition(n, (1,)), 4))
    assert counts == dict.fromkeys(range(4), 10)


def large_log(partitions: int) -> list[bytes]:
    """One topic with so many partitions, each of which changes once."""
    records: list[md.AnyMetadata] = [md.TopicRecord(name="large", topic_id=TOPIC_ID)]
    records += [partition(number, (1, 2)) for number in range(partitions)]
    records += [
        md.PartitionChangeRecord(partition_id=number, topic_id=TOPIC_ID, leader=2)
        for number in range(partitions)
    ]
    return [md.encode_metadata(each, getattr(each, "HIGHEST_VERSION", 0)) for each in records]


@pytest.mark.parametrize("compiled", [True, False], ids=["compiled", "record by record"])
@pytest.mark.parametrize("buckets", [2, 4, 7])
def test_partitions_of_one_large_topic_are_merged_by_all_tasks(
    monkeypatch: pytest.MonkeyPatch, buckets: int, compiled: bool
) -> None:
    monkeypatch.setattr(shards, "SHARD_PARTITIONS", 20)
    check_all_tasks_merge(49 * 20 - 3, buckets, compiled=compiled)


@pytest.mark.long
def test_two_hundred_thousand_partitions_of_a_topic_are_merged_by_all_tasks() -> None:
    check_all_tasks_merge(200_000, 8, compiled=True)


def check_all_tasks_merge(count: int, buckets: int, *, compiled: bool) -> None:
    values = large_log(count)
    plan = plan_of(values, [100, 1000], len(values))
    with (CompactedLog if compiled else ReducedLog)(STAGES, plan, buckets) as log:
        state = log.state()
        sizes = Counter[int]()
        for key, rows in state.parts(TABLES_BY_NAME["partitions"]).map(_size).collect():
            sizes[place_of(buckets, key)] += rows
        assert state.count(TABLES_BY_NAME["partitions"]) == count
        (row,) = state.rows(TABLES_BY_NAME["topics"])
    assert row["partitions"] == sum(sizes.values()) == count
    assert len(sizes) == buckets
    assert max(sizes.values()) <= 1.5 * count / buckets


def _size(keyed: tuple[int, bytes]) -> tuple[int, int]:
    values = (md.decode_metadata(value) for _, value in snapshot_values({}, frozenset(), keyed))
    return keyed[0], sum(isinstance(each, md.PartitionRecord) for each in values)


@pytest.mark.parametrize("log_of", [CompactedLog, ReducedLog], ids=["compiled", "record by record"])
def test_shards_contain_nothing_of_other_topics_of_the_same_bucket(
    log_of: type[CompactedLog | ReducedLog],
) -> None:
    small = UUID(int=TOPIC_ID.int + 3)
    records = [
        md.TopicRecord(name="small", topic_id=small),
        replace(partition(0, (1, 2)), topic_id=small),
        md.PartitionChangeRecord(partition_id=0, topic_id=small, leader=2),
    ]
    values = large_log(7) + [md.encode_metadata(each, each.HIGHEST_VERSION) for each in records]
    with log_of(STAGES, plan_of(values, [3]), 3) as log:
        parts = log.state().parts(TABLES_BY_NAME["topics"]).collect()
    names = {key: set(part_image(frozenset(), data).topics.ids) for key, data in parts}
    assert {key for key, found in names.items() if "small" in found} == {TOPIC_ID.int % 3}
    assert [found for key, found in names.items() if is_shard(key)] == [{"large"}] * 2


def test_number_of_shards_is_bounded_if_many_topics_are_large() -> None:
    assert shard_counts([{1: 48}], 4) == {1: 4}
    assert shard_counts([{1: 2}, {1: 5, 2: 1}, {}], 2) == {1: 2, 2: 2}
    assert shard_counts([], 4) == shard_counts([{}, {}], 4) == {}
    many = shard_counts([dict.fromkeys(range(1000), 9)], 16)
    assert many == {}, "the topics themselves are spread"
    some = shard_counts([dict.fromkeys(range(30), 9)], 16)
    assert sum(some.values()) <= 4 * 16 + 30


def test_keys_of_shards_are_unique_and_their_places_are_spread() -> None:
    keys = [key_of(home, shard, 5) for home in range(5) for shard in range(5)]
    assert len(set(keys)) == 25
    assert [is_shard(key) for key in keys] == [shard > 0 for _ in range(5) for shard in range(5)]
    assert set(Counter(place_of(5, key) for key in keys).values()) == {5}
    assert [place_of(5, key_of(3, shard, 5)) for shard in range(5)] == [3, 4, 0, 1, 2]


# -- archives


def history(root: Path, scratch: Path) -> JobHistory:
    return JobHistory(STAGES, ArchiveSource(ArchiveReader(LocalFiles(), str(root)), scratch))


def write_large(writer: LogWriter) -> list[int]:
    """Two topics, of which one is large; it is deleted and made again in the last step. Returns the offset after each step."""
    other = UUID(int=TOPIC_ID.int + 1)
    writer.append(
        md.TopicRecord(name="large", topic_id=TOPIC_ID),
        *(partition(number, (1, 2)) for number in range(9)),
        md.TopicRecord(name="small", topic_id=other),
    )
    steps = [writer.end_offset]
    writer.append(
        *(
            md.PartitionChangeRecord(partition_id=number, topic_id=TOPIC_ID, leader=2)
            for number in range(9)
        )
    )
    steps.append(writer.end_offset)
    writer.append(md.ClearElrRecord(topic_name="large"), md.RemoveTopicRecord(topic_id=TOPIC_ID))
    steps.append(writer.end_offset)
    again = UUID(int=TOPIC_ID.int + 2)
    writer.append(
        md.TopicRecord(name="large", topic_id=again),
        md.PartitionRecord(
            partition_id=7, topic_id=again, replicas=(1,), isr=(1,), leader=1, leader_epoch=0,
            partition_epoch=0,
        ),
    )  # fmt: skip
    return [*steps, writer.end_offset]


@pytest.mark.parametrize("kept_in_shards", [True, False], ids=["shards", "one file per bucket"])
def test_states_of_archives_are_read_however_their_topics_were_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept_in_shards: bool
) -> None:
    """Also those of earlier versions, in which all partitions of a topic are in one file."""
    writer, root = LogWriter(tmp_path / "node"), tmp_path / "archive"
    steps = write_large(writer)
    writer.close()
    write_archive(root, writer.directory, 0, steps[0], deltas=True)
    with monkeypatch.context() as patched:
        if not kept_in_shards:
            patched.setattr(shards, "SHARD_PARTITIONS", 4096)
        assert keep_state(STAGES, ArchiveReader(LocalFiles(), str(root)), 1) == steps[0]
    names = sorted(each.name for each in (root / STATES).glob("*/*.parquet"))
    assert any(each.startswith("shards-") for each in names) == kept_in_shards
    write_archive(root, writer.directory, *steps, deltas=True)
    for end in steps:
        with history(root, tmp_path) as found:
            state = found.at(Moment(offset=end))
            assert not found.one_by_one
            assert sum(each.summary.records for each in found.done) == end - steps[0]
            expected = replay_directory(writer.directory, Moment(offset=end))
            assert b"".join(state.snapshot()) == b"".join(expected.snapshot())
            assert list(differences(state, expected)) == []


def test_state_in_shards_has_few_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, root = LogWriter(tmp_path / "node"), tmp_path / "archive"
    writer.append(
        md.TopicRecord(name="t", topic_id=TOPIC_ID), *(partition(n, (1,)) for n in range(40))
    )
    writer.close()
    write_archive(root, writer.directory, 0, writer.end_offset, deltas=True)
    monkeypatch.setattr(ArchiveSource, "buckets", lambda source, slots: 8)
    assert keep_state(STAGES, ArchiveReader(LocalFiles(), str(root)), 1)
    shard_files = list((root / STATES).glob("*/shards-*.parquet"))
    assert 0 < len(shard_files) <= STAGES.slots
