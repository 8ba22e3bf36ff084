"""Options of `metadata_log`, as typed by users: an omitted option has the default of the docstring."""

from dataclasses import replace
from pathlib import Path

import pytest

from quorum_pipeline.errors import PipelineError
from quorum_pipeline.live.controllers import Controllers
from quorum_pipeline.spark.options import (
    EARLIEST,
    LATEST,
    NO_END,
    LogOptions,
    log_options,
    state_options,
)
from quorum_pipeline.spark.snapshot_source import snapshot_tasks

DEFAULTS = LogOptions(
    Path("/node"), None, EARLIEST, NO_END, 8 << 20, 1_000_000, keep_problems=False
)


@pytest.mark.requirement("SP-01")
def test_defaults_and_given_options() -> None:
    assert log_options({"path": "/node"}) == DEFAULTS
    given = {"PATH": "file:///node", "startOffset": "3", "endoffset": "9", "spanBytes": "5"}
    wanted = replace(DEFAULTS, start_offset=3, end_offset=9, span_bytes=5)
    assert log_options(given) == wanted
    given |= {"maxRows": "7", "onProblem": "Keep"}
    assert log_options(given) == replace(wanted, max_rows=7, keep_problems=True)
    kafka = {"path": "/node", "startingOffsets": "3", "endingOffsets": "9"}
    assert log_options(kafka) == replace(DEFAULTS, start_offset=3, end_offset=9)
    words = {"path": "/node", "startingOffsets": "earliest", "endingOffsets": "Latest"}
    assert log_options(words) == DEFAULTS
    assert log_options({"path": "/node", "maxOffsetsPerTrigger": "7"}).max_rows == 7
    assert log_options({"path": "/node", "startingOffsets": "latest"}).start_offset == LATEST
    loose = {"path": "/node", "failOnDataLoss": "FALSE", "minPartitions": "4"}
    assert log_options(loose) == replace(DEFAULTS, fail_on_data_loss=False, min_partitions=4)
    found = log_options({"bootstrap": "a:1,[::1]:2"})
    assert (found.path, found.controllers) == (None, Controllers((("a", 1), ("::1", 2))))
    times = {"path": "/node", "startingTimestamp": "5", "endingTimestamp": "1970-01-01T00:00:01Z"}
    assert log_options(times) == replace(DEFAULTS, start_ms=5, end_ms=1000)
    latest = {"path": "/node", "startingOffsetsByTimestampStrategy": "Latest"}
    assert log_options(latest) == replace(DEFAULTS, latest_if_none=True)
    secured = log_options({"bootstrap": "a:1", "tls": "/tls", "commandConfig": "/c"}).controllers
    assert secured == Controllers((("a", 1),), "/tls", "/c")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "specify either the path"),
        ({"path": "/node", "bootstrap": "a:1"}, "specify either the path"),
        ({"path": "/node", "ofset": "1"}, "unknown option 'ofset'"),
        ({"path": "/node", "startOffset": "-1"}, "startOffset is '-1'"),
        (
            {"path": "/node", "maxRows": "0"},
            "maxRows is '0'; it has to be an integer of at least 1",
        ),
        ({"path": "/node", "onProblem": "skip"}, "it is fail or keep"),
        ({"path": "/node", "startingOffsets": "newest"}, "startOffset is 'newest'"),
        ({"path": "/node", "failOnDataLoss": "no"}, "failOnDataLoss is 'no'; it is true or false"),
        ({"path": "/node", "minPartitions": "0"}, "minPartitions is '0'"),
        ({"path": "/node", "startingOffsets": "1", "startOffset": "1"}, "specify one of them"),
        ({"bootstrap": "a"}, "'a' is not host:port"),
        ({"bootstrap": "a:65536"}, "'65536' in 'a:65536' is not a port"),
        ({"bootstrap": "a:²"}, "'²' in 'a:²' is not a port"),
        ({"path": "/node", "startOffset": "²"}, "startOffset is '²'"),
        (
            {"path": "/node", "startOffset": "9", "endOffset": "3"},
            "9 is greater than endingOffsets 3",
        ),
        ({"path": "hdfs://h/node"}, "hdfs://h/node is not in a mounted file system"),
        ({"path": "/node", "tls": "/tls"}, "specify them with bootstrap"),
        ({"path": "/node", "replicas": "a:1"}, "specify them with bootstrap"),
        ({"path": "/node", "startingTimestamp": "noon"}, "'noon' is not a valid time"),
        ({"path": "/node", "startingTimestamp": "1", "startOffset": "1"}, "specify one of them"),
        ({"path": "/node", "endingTimestamp": "1", "endingOffsets": "1"}, "specify one of them"),
        ({"path": "/node", "startingTimestamp": "2", "endingTimestamp": "1"}, "is after ending"),
        (
            {"path": "/node", "startingOffsetsByTimestampStrategy": "first"},
            "Strategy is 'first'; it is error or latest",
        ),
    ],
)
def test_invalid_option_is_reported_by_name(given: dict[str, str], says: str) -> None:
    with pytest.raises(PipelineError, match=says):
        log_options(given)


def test_path_is_a_path_or_a_file_uri() -> None:
    for text in ("/a/node", "file:/a/node", "file:///a/node/"):
        assert log_options({"path": text}).path == Path("/a/node")
        assert state_options({"path": text, "table": "topics"}).path == Path("/a/node")
    with pytest.raises(PipelineError, match=r"^s3a://b/a is not in a mounted file system"):
        state_options({"path": "s3a://b/a", "table": "topics"})


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"path": "/node", "latest": "yes"}, "latest is 'yes'; it is true or false"),
        ({"path": "/node", "commandConfig": "/c"}, "specify them with bootstrap"),
        ({"path": "hdfs://h/node"}, "is not in a mounted file system"),
    ],
)
def test_invalid_snapshot_options_are_reported(given: dict[str, str], says: str) -> None:
    with pytest.raises(PipelineError, match=says):
        snapshot_tasks(given)
