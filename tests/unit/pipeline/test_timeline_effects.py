"""A timeline shows what took effect: as in the image, and no longer than the log can show."""

from dataclasses import replace
from pathlib import Path

import pytest

from quorum_node.records import metadata as md
from quorum_node.records.control import LeaderChange, VotersRecord
from quorum_node.records.identity import ReplicaKey
from quorum_pipeline.__main__ import main
from quorum_pipeline.timeline.events import Event, summary
from support.timelines import read_timeline, timeline_of
from support.written_log import TOPIC_ID, LogWriter, broker, partition, voter

TOPIC = md.TopicRecord(name="orders", topic_id=TOPIC_ID)
BEGIN, END, ABORT = (
    md.BeginTransactionRecord(name="t"), md.EndTransactionRecord(), md.AbortTransactionRecord()
)  # fmt: skip
LEADERLESS = md.PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=-1)


def events_of(*records: object) -> list[Event]:
    """A second from record to record."""
    return timeline_of([(1000 * number, record) for number, record in enumerate(records)])


def of(kind: str, events: list[Event]) -> list[tuple[str, int, int | None]]:
    """Subject, offset and seconds."""
    return [
        (each.subject, each.begin_offset, each.duration_ms and each.duration_ms // 1000)
        for each in events
        if each.kind == kind
    ]


@pytest.mark.requirement("SP-05")
@pytest.mark.parametrize(("end", "counts"), [(END, True), (ABORT, False), (BEGIN, False)])
def test_transaction_records_count_at_its_end_and_never_when_aborted(
    end: object, counts: bool
) -> None:
    found = events_of(
        TOPIC, partition(0, (1, 2)), BEGIN, LEADERLESS, md.RemoveTopicRecord(topic_id=TOPIC_ID),
        end, END, md.NoOpRecord(),
    )  # fmt: skip
    assert of("partition offline", found) == ([("orders-0", 3, 1)] if counts else [])
    assert of("topic deleted", found) == ([("orders", 4, 0)] if counts else [])


@pytest.mark.requirement("SP-05")
def test_open_transaction_is_ignored_and_control_records_are_not_delayed() -> None:
    elected = LeaderChange(2, (ReplicaKey(2),), (ReplicaKey(2),))
    found = events_of(
        broker(1), BEGIN, md.UnregisterBrokerRecord(broker_id=1, broker_epoch=1), elected
    )
    assert [each.kind for each in found] == ["election"]
    found = events_of(
        broker(1), BEGIN, TOPIC, VotersRecord((voter(1, 1),)), elected, ABORT,
        VotersRecord((voter(1, 1), voter(2, 2))),
    )  # fmt: skip
    assert [each.kind for each in found] == ["election", "voter added"]


@pytest.mark.requirement("SP-05")
def test_older_fencing_records_count() -> None:
    found = events_of(
        broker(1), md.FenceBrokerRecord(id=1, epoch=1), md.NoOpRecord(),
        md.UnfenceBrokerRecord(id=1, epoch=1),
        md.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=1, in_controlled_shutdown=1),
        md.FenceBrokerRecord(id=1, epoch=1), replace(broker(1), broker_epoch=9, fenced=True),
        md.UnfenceBrokerRecord(id=1, epoch=9),
    )  # fmt: skip
    assert of("broker down", found) == [("broker 1", 1, 2), ("broker 1", 5, 2)]
    assert of("controlled shutdown", found) == [("broker 1", 4, 1)]


@pytest.mark.requirement("SP-05")
def test_change_of_another_broker_epoch_is_ignored() -> None:
    stale = (
        md.FenceBrokerRecord(id=1, epoch=2),
        md.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=2, fenced=1),
    )
    assert of("broker down", events_of(broker(1), *stale)) == []
    gone = md.UnregisterBrokerRecord(broker_id=1, broker_epoch=1)
    assert of("broker down", events_of(broker(1), gone, md.FenceBrokerRecord(id=1, epoch=1))) == []


@pytest.mark.requirement("SP-05")
def test_shutdown_ends_when_the_broker_is_unfenced_or_registers() -> None:
    shutting_down = md.BrokerRegistrationChangeRecord(
        broker_id=1, broker_epoch=1, in_controlled_shutdown=1
    )
    for back in (
        md.UnfenceBrokerRecord(id=1, epoch=1),
        broker(1),
        replace(broker(1), fenced=True),
        md.UnregisterBrokerRecord(broker_id=1, broker_epoch=1),
    ):
        found = events_of(broker(1), shutting_down, md.NoOpRecord(), back)
        assert of("controlled shutdown", found) == [("broker 1", 1, 2)], back


@pytest.mark.requirement("SP-05")
def test_only_another_replica_of_the_same_node_is_a_replacement() -> None:
    def voters(*who: tuple[int, int]) -> VotersRecord:
        return VotersRecord(tuple(voter(*each) for each in who))

    back = events_of(voters((1, 1), (2, 2)), voters((2, 2)), voters((1, 1), (2, 2)))
    assert [(each.kind, each.subject) for each in back] == [
        ("voter removed", "node 1"),
        ("voter added", "node 1"),
    ], "the same replica came back"
    others = events_of(voters((1, 1), (2, 2)), voters((2, 2)), voters((2, 2), (3, 3)))
    assert [(each.kind, each.subject) for each in others] == [
        ("voter removed", "node 1"),
        ("voter added", "node 3"),
    ]
    both = events_of(voters((1, 1)), voters((1, 1), (2, 2)), voters((1, 1), (2, 2), (2, 3)))
    assert [(each.kind, each.subject) for each in both] == [("voter added", "node 2")] * 2


@pytest.mark.requirement("SP-05")
def test_idle_time_is_no_election(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    writer = LogWriter(tmp_path)
    writer.elect(1)
    writer.append(md.NoOpRecord())
    writer.time_ms += 10 * 3_600_000
    writer.elect(2)
    writer.close()
    events = read_timeline(tmp_path).events
    first, second = (each for each in events if each.kind == "election")
    assert second.is_instant
    assert (second.begin_offset, second.duration_ms) == (2, 0)
    assert (first.at_most_ms, second.at_most_ms) == (0, 36_001_000)
    assert summary(events) == [("election", 2, 36_001_000, 36_001_000, True)]
    page = tmp_path / "page.html"
    assert main(["timeline", "--log", str(tmp_path), "--html", str(page)]) == 0
    assert "longest ≤ 10 h 0 min" in capsys.readouterr().out
    assert page.read_text().count("≤ 10 h 0 min") == 4, "median, longest, bar, table"


@pytest.mark.requirement("SP-05")
def test_conditions_started_before_the_log_come_from_the_snapshot(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, segment_bytes=1)
    level = md.FeatureLevelRecord(name="metadata.version", feature_level=md.LATEST_LEVEL)
    writer.append_control(VotersRecord((voter(1, 1),)))
    writer.append(level)
    stops = md.BrokerRegistrationChangeRecord(broker_id=3, broker_epoch=3, in_controlled_shutdown=1)
    writer.append(*map(broker, (1, 2, 3)), md.FenceBrokerRecord(id=1, epoch=1), stops)
    writer.append(TOPIC, partition(0, (1, 2)), LEADERLESS)
    cut = writer.snapshot(drop_log=True).end_offset
    writer.append_control(VotersRecord((voter(1, 1), voter(2, 2))))
    writer.append(md.FenceBrokerRecord(id=2, epoch=1), md.UnfenceBrokerRecord(id=1, epoch=1))
    writer.append(md.PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=2))
    writer.close()
    timeline = read_timeline(tmp_path)
    assert 0 < timeline.start_offset < cut == 10, "whole segments go"
    found = [(each.kind, each.subject, each.begin_offset, each.detail) for each in timeline.events]
    since = f"since offset {cut} or before"
    assert found == [
        ("topic created", "orders", 7, ""),
        ("partition offline", "orders-0", 9, ""),
        ("broker down", "broker 1", cut, since),
        ("controlled shutdown", "broker 3", cut, since),
        ("voter added", "node 2", cut, found[4][3]),
    ]
