"""Events with the seconds that the log's own timestamps give."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID
from xml.etree import ElementTree

import pyarrow.parquet as pq
import pytest

from quorum_node.records import metadata as md
from quorum_node.records.control import VotersRecord
from quorum_pipeline.__main__ import main
from quorum_pipeline.timeline.events import TOPIC_CREATED, Event, summary
from quorum_pipeline.timeline.report import html_report, shown
from support.timelines import read_timeline, timeline_of
from support.written_log import BEGAN_MS, TOPIC_ID, LogWriter, broker, partition, voter


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """One second from batch to batch by default."""
    writer = LogWriter(tmp_path)
    old = (voter(1, 101), voter(2, 102), voter(3, 103))
    writer.elect(1)
    writer.append_control(VotersRecord(old))
    writer.append(*(broker(number) for number in (1, 2, 3)))
    topic = md.TopicRecord(name="orders", topic_id=TOPIC_ID)
    writer.append(topic, partition(0, (1, 2)), partition(1, (2, 3)))

    def change(number: int, **fields: Any) -> None:
        if "replicas" in fields:
            fields["directories"] = tuple(UUID(int=2000 + each) for each in fields["replicas"])
        writer.append(md.PartitionChangeRecord(partition_id=number, topic_id=TOPIC_ID, **fields))

    def registration(**fields: int) -> None:
        writer.append(md.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=1, **fields))

    writer.time_ms += 6_500
    writer.elect(2)  # the failover: 7.5 s after the record before
    writer.append_control(VotersRecord((*old, voter(1, 201))))  # the new replica comes first
    writer.time_ms += 2_000
    writer.append_control(VotersRecord((*old[1:], voter(1, 201))))
    writer.append_control(VotersRecord((old[1], voter(1, 201))))
    registration(fenced=1)
    change(0, leader=-1)
    change(0, leader=2, leader_recovery_state=md.RECOVERING)
    writer.time_ms += 30_000
    change(0, leader_recovery_state=md.RECOVERED)
    registration(fenced=-1)
    change(1, replicas=(2, 3, 1), adding_replicas=(1,), removing_replicas=(3,))
    change(1, isr=(2, 3, 1))
    writer.time_ms += 60_000
    change(1, replicas=(2, 1), adding_replicas=(), removing_replicas=())
    registration(in_controlled_shutdown=1)
    writer.close()
    return writer.directory


def found(path: Path, kind: str) -> list[Event]:
    return [each for each in read_timeline(path).events if each.kind == kind]


def durations(path: Path, kind: str) -> list[tuple[str, int | None]]:
    return [(each.subject, each.duration_ms) for each in found(path, kind)]


@pytest.mark.requirement("SP-05")
def test_timeline_lists_events_with_durations(written: Path) -> None:
    assert durations(written, "election") == [("node 1", 0), ("node 2", 0)]
    assert [each.at_most_ms for each in found(written, "election")] == [0, 7_500]
    assert durations(written, "voter replaced") == [("node 1", 3_000)]
    assert durations(written, "voter removed") == [("node 3", 0)]
    assert durations(written, "voter added") == []
    assert durations(written, "broker down") == [("broker 1", 34_000)]
    assert durations(written, "partition offline") == [("orders-0", 1_000)]
    assert durations(written, "unclean election") == [("orders-0", 31_000)]
    assert durations(written, "reassignment") == [("orders-1", 62_000)]
    assert durations(written, "controlled shutdown") == [("broker 1", None)]
    assert [each.begin_ms for each in found(written, "topic created")] == [BEGAN_MS + 3_000]
    (replaced,) = found(written, "voter replaced")
    assert "added" in replaced.detail
    assert "removed" in replaced.detail


@pytest.mark.requirement("SP-05")
def test_command_writes_a_page_and_a_table(
    written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, table = tmp_path / "timeline.html", tmp_path / "timeline.parquet"
    assert (
        main(["timeline", "--log", str(written), "--html", str(page), "--parquet", str(table)]) == 0
    )
    output = capsys.readouterr().out
    assert "reassignment" in output
    assert "1 min 2 s" in output
    rows = pq.read_table(table).to_pylist()
    events = read_timeline(written).events
    assert [each["duration_ms"] for each in rows] == [each.duration_ms for each in events]
    for row in rows:
        took = None if row["end"] is None else row["end"] - row["begin"]
        assert took == (None if took is None else timedelta(milliseconds=row["duration_ms"]))
    text = page.read_text()
    assert "<script" not in text
    assert "http" not in text.replace("http://www.w3.org", "")
    bars = list(ElementTree.fromstring(chart_of(text)).iter("rect"))
    assert len(bars) == len(rows)


class TimelineBuilder:
    """A timeline of records that are added one by one, at seconds."""

    def __init__(self) -> None:
        self._records: list[tuple[int, object]] = []

    def __call__(self, second: int, *records: object) -> "TimelineBuilder":
        self._records += [(1000 * second, record) for record in records]
        return self

    def of(self, kind: str) -> list[tuple[str, int | None]]:
        """Subject and duration in seconds."""
        found = [each for each in timeline_of(self._records) if each.kind == kind]
        durations = [each.duration_ms for each in found]
        seconds = [None if each is None else each // 1000 for each in durations]
        return list(zip((each.subject for each in found), seconds, strict=True))


def fenced(number: int) -> md.BrokerRegistrationChangeRecord:
    return md.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=1, fenced=number)


SHUTTING_DOWN = md.BrokerRegistrationChangeRecord(
    broker_id=1, broker_epoch=1, in_controlled_shutdown=1
)


def change(**fields: Any) -> md.PartitionChangeRecord:
    return md.PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, **fields)


@pytest.mark.requirement("SP-05")
def test_voter_replacement_is_detected_in_either_record_order() -> None:
    reported = TimelineBuilder()
    reported(0, VotersRecord((voter(1, 101), voter(2, 102))))
    reported(1, VotersRecord((voter(2, 102),)))
    reported(5, VotersRecord((voter(2, 102), voter(1, 201))))
    assert reported.of("voter replaced") == [("node 1", 4)]
    assert reported.of("voter removed") == reported.of("voter added") == []
    reported(6, VotersRecord((voter(2, 102), voter(1, 201), voter(3, 103))))
    assert reported.of("voter added") == [("node 3", 0)]


@pytest.mark.requirement("SP-05")
def test_broker_is_down_until_it_returns_or_is_removed() -> None:
    registered, again = broker(1), replace(broker(1), fenced=True)
    reported = TimelineBuilder()(0, registered)(1, again)(3, registered)
    assert reported.of("broker down") == [("broker 1", 2)]
    reported(10, SHUTTING_DOWN)(12, fenced(1))(13, fenced(1))(20, fenced(-1))
    assert reported.of("controlled shutdown") == [("broker 1", 2)]
    assert reported.of("broker down")[1:] == [("broker 1", 8)]
    reported(30, fenced(1))(35, md.UnregisterBrokerRecord(broker_id=1, broker_epoch=1))
    assert reported.of("broker down")[2:] == [("broker 1", 5)]
    assert reported.of("broker unregistered") == [("broker 1", 0)]
    reported(40, again)
    assert len(reported.of("broker down")) == 3, "it is a new one, which was never up"


@pytest.mark.requirement("SP-05")
def test_partition_conditions_end_as_recorded_in_the_log() -> None:
    reported = TimelineBuilder()(
        0, md.TopicRecord(name="orders", topic_id=TOPIC_ID), partition(0, (1, 2))
    )
    reported(1, change(leader=-1))(3, change(isr=(2,)))(6, change(leader=2))
    assert reported.of("partition offline") == [("orders-0", 5)]
    reported(10, change(adding_replicas=(3,), removing_replicas=(1,)))
    reported(12, change(adding_replicas=()))(13, change(isr=(2, 3)))(
        17, change(removing_replicas=())
    )
    assert reported.of("reassignment") == [("orders-0", 7)]
    reported(17, change(adding_replicas=(3,)))(18, change(isr=(2, 3)))(
        19, change(adding_replicas=())
    )
    assert reported.of("reassignment")[1:] == [("orders-0", 2)]
    reported(20, change(leader=-1, leader_recovery_state=md.RECOVERING, adding_replicas=(4,)))
    reported(26, md.RemoveTopicRecord(topic_id=TOPIC_ID))
    for kind in ("partition offline", "unclean election", "reassignment"):
        assert reported.of(kind)[-1:] == [("orders-0", 6)], kind


def test_timeline_covers_the_log_range_and_its_leader_epochs(written: Path) -> None:
    timeline = read_timeline(written)
    assert (timeline.begin_ms, timeline.start_offset) == (BEGAN_MS, 0)
    assert timeline.end_ms == max(each.begin_ms for each in timeline.events)
    details = [each.detail for each in found(written, "election")]
    assert details == ["epoch 2, the first leader", "epoch 3, after node 1"]


def test_median_of_durations() -> None:
    took = (1, 9, 5)
    events = [Event("broker down", "n", 0, ms, 2 * n, 2 * n + 1) for n, ms in enumerate(took)]
    assert summary(events) == [("broker down", 3, 5, 9, False)]


def test_instantaneous_event_has_no_duration(written: Path) -> None:
    found = {kind: durations for kind, *durations in summary(read_timeline(written).events)}
    assert found["topic created"] == [1, None, None, False]
    assert found["election"] == [2, 7_500, 7_500, True]
    assert found["controlled shutdown"] == [1, None, None, False]


@pytest.mark.parametrize(
    ("span_ms", "second_tick"),
    [(10_000, "22:13:22.000"), (60_000, "22:13:32"), (500_000_000, "2023-11-16 02:00")],
)
def test_time_labels_distinguish_adjacent_ticks(span_ms: int, second_tick: str) -> None:
    page = "".join(html_report("a page", [], BEGAN_MS, BEGAN_MS + span_ms))
    ticks = [each.text for each in ElementTree.fromstring(chart_of(page)).iter("text")]
    assert ticks[1] == second_tick
    assert len(set(ticks)) == len(ticks) == 6


def test_long_name_is_shortened_in_the_middle() -> None:
    """Partitions of a topic differ at the end."""
    name = "a-topic-with-a-name-that-is-long-enough-"
    events = [Event(TOPIC_CREATED, f"{name}{n}", BEGAN_MS, BEGAN_MS, n, n) for n in (1, 2)]
    page = "".join(html_report("a page", events, BEGAN_MS, BEGAN_MS + 1))
    texts = [each.text for each in ElementTree.fromstring(chart_of(page)).iter("text")]
    assert texts[:3] == [
        "topic created",
        "a-topic-with…ng-enough-1",
        "a-topic-with…ng-enough-2",
    ]


@pytest.mark.parametrize("span_ms", [0, 60_000])
def test_bars_are_within_the_time_of_the_log(span_ms: int) -> None:
    """A condition in the snapshot began earlier, and a leader's clock was ahead."""
    hour_ms = 3_600_000
    events = [
        Event("broker down", "broker 1", BEGAN_MS - hour_ms, None, 1, None),
        Event("broker down", "broker 2", BEGAN_MS - hour_ms, BEGAN_MS, 1, 2),
        Event("broker down", "broker 3", BEGAN_MS + hour_ms, BEGAN_MS + 2 * hour_ms, 3, 4),
    ]
    page = "".join(html_report("a page", events, BEGAN_MS, BEGAN_MS + span_ms))
    bars = list(ElementTree.fromstring(chart_of(page)).iter("rect"))
    assert len(bars) == len(events)
    for bar in bars:
        begin, width = float(bar.attrib["x"]), float(bar.attrib["width"])
        assert 300 <= begin < begin + width <= 1100


@pytest.mark.parametrize("time_ms", [10**15, -(10**15)])
def test_time_outside_of_the_calendar_is_shown_as_a_number(time_ms: int) -> None:
    events = [Event("broker down", "broker 1", BEGAN_MS, time_ms, 1, 2)]
    page = "".join(html_report("a page", events, BEGAN_MS, time_ms))
    assert f"to {time_ms} ms after 1970" in page


def chart_of(page: str) -> str:
    return page[page.index("<svg") : page.index("</svg>") + 6]


def test_durations_are_human_readable() -> None:
    assert [shown(each) for each in (None, 1, 59_999, 61_000, 7_260_000)] == [
        "goes on", "0.001 s", "59.999 s", "1 min 1 s", "2 h 1 min",
    ]  # fmt: skip
