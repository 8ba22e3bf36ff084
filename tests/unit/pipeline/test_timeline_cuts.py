"""Whatever a log is cut into, the timeline is that of one loop over all of its records; from an archive it is the same."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorum_node.records import metadata as md
from quorum_node.records.control import LeaderChange, VotersRecord
from quorum_node.records.identity import ReplicaKey
from quorum_pipeline.__main__ import main
from quorum_pipeline.deltas import shards
from quorum_pipeline.files.log_directory import open_log
from quorum_pipeline.spark import timeline_job
from quorum_pipeline.spark.state_parts import unpacked
from quorum_pipeline.timeline.events import Event
from support.delta_checks import CUTS, SHORT
from support.metadata_histories import histories
from support.reference_timeline import At, PlainTimeline
from support.timelines import archived_timeline, read_timeline, timeline_of
from support.written_archive import write_archive
from support.written_log import TOPIC_ID, LogWriter, partition, voter, write_history

CONTROLS: list[object] = [
    LeaderChange(1, (ReplicaKey(1),), (ReplicaKey(1),)),
    VotersRecord((voter(1, 1), voter(2, 2))),
    VotersRecord((voter(1, 1),)),
    VotersRecord((voter(1, 1), voter(2, 3))),
    md.AbortTransactionRecord(),
]
MORE = st.lists(st.tuples(st.integers(0, 50), st.sampled_from(CONTROLS)), max_size=6)


def plain(records: list[tuple[int, object]]) -> list[Event]:
    timeline = PlainTimeline()
    for offset, (time_ms, record) in enumerate(records):
        timeline.take(At(offset, 4, time_ms), record)
    return timeline.events()


def check(values: list[bytes], more: list[tuple[int, object]], cuts: list[int]) -> None:
    reported: list[object] = [md.decode_metadata(each) for each in values]
    for place, record in more:
        reported.insert(min(place, len(reported)), record)
    records = [(1000 * number, record) for number, record in enumerate(reported)]
    borders = sorted({each for each in cuts if 0 < each < len(records)})
    expected = plain(records)
    assert timeline_of(records, *borders) == expected
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(shards, "SHARD_PARTITIONS", 1)
        assert timeline_of(records, *borders) == expected, "partitions in several buckets"


@pytest.mark.requirement("SP-05")
@settings(SHORT, max_examples=40)
@given(values=histories(max_size=60, newer=False), more=MORE, cuts=CUTS)
def test_timeline_is_the_same_for_any_split(
    values: list[bytes], more: list[tuple[int, object]], cuts: list[int]
) -> None:
    check(values, more, cuts)


@pytest.mark.long
@pytest.mark.requirement("SP-05")
@settings(SHORT, max_examples=300)
@given(values=histories(max_size=120, newer=False), more=MORE, cuts=CUTS)
def test_timeline_is_the_same_for_many_splits(
    values: list[bytes], more: list[tuple[int, object]], cuts: list[int]
) -> None:
    check(values, more, cuts)


@pytest.mark.requirement("SP-05")
def test_recreated_topic_starts_a_new_history() -> None:
    """Also where both topics are in one span: an edge is redundant only during the life of the topic."""
    topic = md.TopicRecord(name="orders", topic_id=TOPIC_ID)
    gone = md.RemoveTopicRecord(topic_id=TOPIC_ID)
    offline = replace(partition(0, (1, 2)), leader=md.NO_LEADER)
    life: list[object] = [topic, offline, gone, md.NoOpRecord(), topic, offline, md.NoOpRecord()]
    records = [(1000 * number, record) for number, record in enumerate(life)]
    for cuts in ([], [2], [3], [5], [1, 2, 3, 4, 5, 6]):
        found = timeline_of(records, *cuts)
        assert found == plain(records)
        ends = [each.end_offset for each in found if each.kind == "partition offline"]
        assert ends == [2, None]


@pytest.mark.requirement("SP-05")
def test_condition_ended_by_a_whole_partition_record_may_start_again() -> None:
    """Such a record without any condition ends all of them."""
    topic = md.TopicRecord(name="orders", topic_id=TOPIC_ID)
    sound = partition(0, (1, 2))
    offline = replace(sound, leader=md.NO_LEADER)
    life: list[object] = [topic, offline, sound, md.NoOpRecord(), offline, md.NoOpRecord()]
    records = [(1000 * number, record) for number, record in enumerate(life)]
    for cuts in ([], [2], [3], [4], [1, 2, 3, 4, 5]):
        found = timeline_of(records, *cuts)
        assert found == plain(records)
        lives = [(e.begin_offset, e.end_offset) for e in found if e.kind == "partition offline"]
        assert lives == [(1, 2), (4, None)], cuts


def test_partitions_of_one_large_topic_are_assembled_in_all_buckets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shards, "SHARD_PARTITIONS", 5)
    count = 5 * 12
    topic = md.TopicRecord(name="orders", topic_id=TOPIC_ID)
    offline = [replace(partition(n, (1, 2)), leader=md.NO_LEADER) for n in range(count)]
    life: list[object] = [topic, *offline, md.RemoveTopicRecord(topic_id=TOPIC_ID)]
    records = [(1000 * number, record) for number, record in enumerate(life)]
    sizes = Counter[int]()
    events = timeline_job._events

    def counted(keyed: tuple[int, Any]) -> Iterator[bytes]:
        key, parts = keyed
        parts = list(parts)
        sizes[shards.place_of(2, key)] += sum(len(unpacked(data).edges) for *_, data in parts)
        return events((key, parts))

    monkeypatch.setattr(timeline_job, "_events", counted)
    assert timeline_of(records, 20, 61) == plain(records)
    assert sum(sizes.values()) >= count
    assert max(sizes.values()) <= 1.5 * sum(sizes.values()) / 2


@pytest.mark.requirement("SP-05")
def test_timeline_from_an_archive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    writer = LogWriter(tmp_path / "node", segment_bytes=800)
    write_history(writer)
    writer.append(md.FenceBrokerRecord(id=1, epoch=1))
    writer.close()
    log = open_log(tmp_path / "node")
    expected = read_timeline(tmp_path / "node", span_bytes=300)
    assert len(expected.reads) > 3
    assert {"election", "broker down", "topic deleted"} <= {e.kind for e in expected.events}
    for number, borders in enumerate(([0, log.end_offset()], [0, 5, 12, 14, 40, log.end_offset()])):
        root = tmp_path / f"archive-{number}"
        write_archive(root, log.path, *borders)
        found = archived_timeline(root)
        assert found.events == expected.events
        assert (found.begin_ms, found.end_ms, found.end_offset) == (
            expected.begin_ms,
            expected.end_ms,
            expected.end_offset,
        )
    assert main(["timeline", "--archive", str(root)]) == 0
    output = capsys.readouterr().out
    assert f"offsets 0 to {log.end_offset()}" in output
    assert f"in this process: {log.end_offset()} records in 5 tasks" in output


def test_damage_is_reported_with_its_location(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = LogWriter(tmp_path, segment_bytes=800)
    write_history(writer)
    writer.close()
    path = open_log(tmp_path).segments[1].path
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    assert main(["timeline", "--log", str(tmp_path)]) == 2
    assert f"{path} is damaged at byte 0" in capsys.readouterr().err
