"""Rows of `metadata_state` and `metadata_changes`: those of the commands, at any moment, from a log and from an
archive.
"""

from collections.abc import Mapping
from pathlib import Path

import pytest

from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.log_directory import open_log
from quorum_pipeline.spark.options import changes_options, state_options
from quorum_pipeline.spark.table_rows import change_rows, state_rows
from quorum_pipeline.state.difference import differences
from quorum_pipeline.state.moment import Moment, parsed_time_ms
from quorum_pipeline.state.tables import SCHEMA_VERSION, STATE_TABLES
from support.replayed_directory import replay_directory
from support.written_archive import write_archive
from support.written_log import LogWriter, write_history

REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "pipeline.md"


@pytest.fixture
def places(tmp_path: Path) -> list[Path]:
    """A log and an archive of it."""
    writer = LogWriter(tmp_path / "node", segment_bytes=2_000)
    write_history(writer)
    writer.close()
    log = open_log(tmp_path / "node")
    write_archive(tmp_path / "archive", log.path, 0, 7, log.end_offset(), deltas=True)
    return [tmp_path / "node", tmp_path / "archive"]


def requested(path: Path, table: str, **more: str) -> Mapping[str, str]:
    return {"path": str(path), "table": table, **more}


@pytest.mark.requirement("SP-03")
def test_table_at_an_offset_and_at_a_time(places: list[Path]) -> None:
    expected = replay_directory(places[0], Moment(offset=52))
    for path in places:
        for table in STATE_TABLES:
            rows = list(expected.rows(table))
            wanted = requested(path, table.name, versionAsOf="52")
            assert list(state_rows(state_options(wanted))) == rows, table.name
        at = requested(path, "brokers", timestampAsOf="2023-11-14T22:13:23Z")
        assert len(list(state_rows(state_options(at)))) == 3
        early = requested(path, "brokers", TIMESTAMPASOF="2023-11-14T22:13:22.999Z")
        assert list(state_rows(state_options(early))) == []
        assert list(state_rows(state_options(requested(path, "topics")))) == []


@pytest.mark.requirement("SP-03")
def test_changes_as_rows_of_a_change_feed(places: list[Path]) -> None:
    before, after = (replay_directory(places[0], Moment(offset=each)) for each in (10, 52))
    found = [each for each in differences(before, after) if each.table == "partitions"]
    for path in places:
        wanted = requested(path, "partitions", startingVersion="10", endingVersion="52")
        rows = list(change_rows(changes_options(wanted)))
        kinds = [row["_change_type"] for row in rows]
        assert kinds == ["update_preimage", "update_postimage"]
        assert {row["_commit_version"] for row in rows} == {52}
        assert found[0].before is not None
        assert found[0].after is not None
        assert [found[0].before["leader"], found[0].after["leader"]] == [
            row["leader"] for row in rows
        ]
        gone = requested(path, "topics", startingVersion="52")
        (row,) = change_rows(changes_options(gone))
        assert (row["name"], row["_change_type"]) == ("orders", "delete")
        made = requested(path, "topics", startingVersion="0", endingVersion="52")
        assert [row["_change_type"] for row in change_rows(changes_options(made))] == ["insert"]


@pytest.mark.parametrize(
    ("given", "reported"),
    [
        ({}, "specify either the path"),
        ({"path": "/x", "bootstrap": "h:1", "table": "topics"}, "specify either the path"),
        ({"path": "/x", "tls": "/tls", "table": "topics"}, "specify them with bootstrap"),
        ({"path": "/x"}, "there are brokers, topics"),
        ({"path": "/x", "table": "topic"}, "table is 'topic'"),
        ({"path": "/x", "table": "topics", "asOf": "1"}, "there are path, bootstrap, tls, "),
        ({"path": "/x", "table": "topics", "versionAsOf": "-1"}, "versionAsOf is '-1'"),
        ({"path": "/x", "table": "topics", "timestampAsOf": "now"}, "'now' is not a valid time"),
        (
            {"path": "/x", "table": "topics", "versionAsOf": "1", "timestampAsOf": "2026-01-01"},
            "either versionAsOf or timestampAsOf",
        ),
    ],
)
def test_state_options(given: dict[str, str], reported: str) -> None:
    with pytest.raises(PipelineError, match=reported):
        state_options(given)


def test_change_options() -> None:
    given = {"path": "/x", "table": "topics"}
    with pytest.raises(PipelineError, match="specify startingVersion or startingTimestamp: "):
        changes_options({**given, "endingVersion": "1"})
    with pytest.raises(PipelineError, match="startingVersion 2 is greater than endingVersion 1"):
        changes_options({**given, "startingVersion": "2", "endingVersion": "1"})
    with pytest.raises(PipelineError, match="specify either startingVersion or startingTimestamp"):
        changes_options({**given, "startingVersion": "2", "startingTimestamp": "2026-01-01"})


def test_changes_between_times_are_those_between_their_offsets(places: list[Path]) -> None:
    """Both times are included. A time may be combined with an offset."""
    second = "2023-11-14T22:13:{:02}Z".format
    everything = replay_directory(places[0], Moment())
    times = (second(22), second(25))
    starts = replay_directory(places[0], Moment(time_ms=parsed_time_ms(times[0]) - 1)).end_offset
    ends = replay_directory(places[0], Moment(time_ms=parsed_time_ms(times[1]))).end_offset
    assert 0 < starts < ends < everything.end_offset
    for path in places:
        for table in ("brokers", "topics", "partitions", "configs", "voters"):
            by_offset = requested(path, table, startingVersion=str(starts), endingVersion=str(ends))
            expected = list(change_rows(changes_options(by_offset)))
            by_time = requested(path, table, startingTimestamp=times[0], endingTimestamp=times[1])
            assert list(change_rows(changes_options(by_time))) == expected
            mixed = requested(path, table, startingVersion=str(starts), endingTimestamp=times[1])
            assert list(change_rows(changes_options(mixed))) == expected
        assert list(
            change_rows(changes_options(requested(path, "brokers", startingTimestamp=times[0])))
        )
        wrong = {"startingTimestamp": times[1], "endingTimestamp": times[0]}
        with pytest.raises(PipelineError, match=r"start at offset \d+, after their end at \d+"):
            list(change_rows(changes_options(requested(path, "topics", **wrong))))


def test_reference_lists_the_columns_of_this_version() -> None:
    text = REFERENCE.read_text()
    assert f"Version {SCHEMA_VERSION} of the schema" in text
    for table in STATE_TABLES:
        columns = ", ".join(f"{name} {kind}" for name, kind in table.columns.items())
        assert f"| `{table.name}` | {columns} |" in text
