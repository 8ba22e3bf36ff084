"""Parses and checks the options of the data sources; errors name the allowed values."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.local_files import local_path
from quorum_pipeline.live.controllers import Controllers, controllers_of
from quorum_pipeline.redaction import remember_secrets
from quorum_pipeline.state.moment import Moment, parsed_time_ms
from quorum_pipeline.state.tables import StateTable, table_named

NO_END = (1 << 63) - 1
EARLIEST, LATEST = -2, -1
"""In place of a start offset: the first offset of the log, or (streams) its end when the query starts. As in Kafka's ListOffsets."""


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Either `path` or `controllers` is set. `start_offset` may be EARLIEST or LATEST, `end_offset` is exclusive; `max_rows`
    bounds one micro batch. `fail_on_data_loss`: offsets that the log does not have are an error. `min_partitions`: number of
    tasks of a query, if it has as many records. `start_ms`, `end_ms`: times (ms since 1970) in place of the offsets;
    `latest_if_none`: a start after all records is the end of the log, and no error.
    """

    path: Path | None
    controllers: Controllers | None
    start_offset: int
    end_offset: int
    span_bytes: int
    max_rows: int
    keep_problems: bool
    fail_on_data_loss: bool = True
    min_partitions: int = 1
    start_ms: int | None = None
    end_ms: int | None = None
    latest_if_none: bool = False

    @property
    def named_path(self) -> Path:
        """The path, for sources that require one."""
        assert self.path is not None
        return self.path


_RANGE_OPTIONS = (
    "startOffset", "endOffset", "maxRows", "onProblem", "startingOffsets", "endingOffsets", "maxOffsetsPerTrigger",
    "failOnDataLoss", "minPartitions", "startingTimestamp", "endingTimestamp", "startingOffsetsByTimestampStrategy",
)  # fmt: skip
_QUORUM_OPTIONS = ("bootstrap", "tls", "commandConfig", "replicas")
_LOG_OPTIONS = ("path", *_QUORUM_OPTIONS, "spanBytes", *_RANGE_OPTIONS)


def log_options(given: Mapping[str, str]) -> LogOptions:
    """Parse the options of `metadata_log`; names are case-insensitive. Raises PipelineError."""
    options = _as_ours(_known(given, _LOG_OPTIONS))
    path, bootstrap = options.get("path"), options.get("bootstrap")
    if bool(path) == bool(bootstrap):
        raise PipelineError(
            "specify either the path of a metadata log's directory, or bootstrap: host:port of controllers"
        )
    check_credentials(options)
    return _range_options(
        options,
        path_in(options) if path else None,
        controllers_in(options) if bootstrap else None,
    )


_ARCHIVE_OPTIONS = ("path", *_RANGE_OPTIONS)


def archive_options(given: Mapping[str, str]) -> LogOptions:
    """Parse the options of `metadata_archive`. Raises PipelineError."""
    options = _as_ours(_known(given, _ARCHIVE_OPTIONS))
    if not options.get("path"):
        raise PipelineError("specify the path of an archive")
    return _range_options(options, path_in(options), None)


def _range_options(
    options: Mapping[str, str], path: Path | None, controllers: Controllers | None
) -> LogOptions:
    on_problem = options.get("onproblem", "fail").lower()
    if on_problem not in ("fail", "keep"):
        raise PipelineError(f"onProblem is {on_problem!r}; it is fail or keep")
    fail = options.get("failondataloss", "true").lower()
    if fail not in ("true", "false"):
        raise PipelineError(f"failOnDataLoss is {fail!r}; it is true or false")
    word = _START_WORDS.get(options.get("startoffset", "earliest").lower())
    start = _number(options, "startOffset", 0) if word is None else word
    end = _number(options, "endOffset", NO_END)
    if start > end:
        raise PipelineError(f"startingOffsets {start} is greater than endingOffsets {end}")
    start_ms = _time(options, "startingTimestamp", "startoffset")
    end_ms = _time(options, "endingTimestamp", "endoffset")
    if start_ms is not None and end_ms is not None and start_ms > end_ms:
        raise PipelineError("startingTimestamp is after endingTimestamp")
    strategy = options.get("startingoffsetsbytimestampstrategy", "error").lower()
    if strategy not in ("error", "latest"):
        raise PipelineError(
            f"startingOffsetsByTimestampStrategy is {strategy!r}; it is error or latest"
        )
    return LogOptions(
        path=path,
        controllers=controllers,
        start_offset=start,
        end_offset=end,
        span_bytes=_number(options, "spanBytes", 8 << 20, least=1),
        max_rows=_number(options, "maxRows", 1_000_000, least=1),
        keep_problems=on_problem == "keep",
        fail_on_data_loss=fail == "true",
        min_partitions=_number(options, "minPartitions", 1, least=1),
        start_ms=start_ms,
        end_ms=end_ms,
        latest_if_none=strategy == "latest",
    )


def _time(options: Mapping[str, str], name: str, offset_name: str) -> int | None:
    """Return a time in ms since 1970: a number of milliseconds, as in Spark's Kafka source, or ISO 8601. Raises PipelineError."""
    text = options.get(name.lower())
    if text is None:
        return None
    if offset_name in options:
        raise PipelineError(f"{name} and an offset are both given: specify one of them")
    return int(text) if text.isascii() and text.isdecimal() else parsed_time_ms(text)


def controllers_in(options: Mapping[str, str]) -> Controllers:
    """Return the controllers that `bootstrap`, `tls`, `commandconfig` and `replicas` name; keys are in lower case. Raises
    PipelineError.
    """
    return controllers_of(
        options["bootstrap"],
        options.get("tls", ""),
        options.get("commandconfig", ""),
        options.get("replicas", ""),
    )


def check_credentials(options: Mapping[str, str]) -> None:
    """Raise PipelineError if there are options of connections without `bootstrap`; keys are in lower case."""
    given = any(options.get(each) for each in ("tls", "commandconfig", "replicas"))
    if given and not options.get("bootstrap"):
        raise PipelineError(
            "tls, commandConfig and replicas are for connections: specify them with bootstrap"
        )


def path_in(options: Mapping[str, str]) -> Path:
    """Return the local path in `path`: a path, or a URI of the scheme file. Raises PipelineError."""
    found = local_path(options["path"])
    if found is None:
        raise PipelineError(
            f"{options['path']} is not in a mounted file system, so it can't be read"
        )
    return found


_START_WORDS = {"earliest": EARLIEST, "latest": LATEST}
_KAFKA_OPTIONS = {
    "startingoffsets": ("startoffset", {}),
    "endingoffsets": ("endoffset", {"latest": str(NO_END)}),
    "maxoffsetspertrigger": ("maxrows", {}),
}  # fmt: skip
"""Option names of Spark's Kafka source: the name here, and words for numbers."""


def _as_ours(options: dict[str, str]) -> dict[str, str]:
    """Rename options of Spark's Kafka source. Raises PipelineError if an option is given under both names."""
    found = dict(options)
    for name, (ours, words) in _KAFKA_OPTIONS.items():
        if name not in options:
            continue
        if ours in found:
            raise PipelineError(f"{name} and {ours} mean the same: specify one of them")
        found[ours] = words.get(options[name].lower(), options[name])
        del found[name]
    return found


@dataclass(frozen=True, slots=True)
class TableOptions:
    """Options of `metadata_state` and `metadata_changes`.

    `uri`: a log or an archive, as it was given. `path`: the same in this machine's file system, None if it is not mounted.
    `controllers`: a running quorum instead of both.
    `moments`: one of a state; two of changes.
    """

    uri: str
    path: Path | None
    table: StateTable
    moments: tuple[Moment, ...]
    controllers: Controllers | None = None


_TABLE_OPTIONS = ("path", *_QUORUM_OPTIONS, "table")
_CHANGES_OPTIONS = ("startingVersion", "endingVersion", "startingTimestamp", "endingTimestamp")


def state_options(given: Mapping[str, str], *, anywhere: bool = False) -> TableOptions:
    """Parse the options of `metadata_state`. `anywhere`: allow an archive that is not mounted. Raises PipelineError."""
    options = _known(given, (*_TABLE_OPTIONS, "versionAsOf", "timestampAsOf"))
    moment = _moment(options, "versionAsOf", "timestampAsOf")
    return _table_options(options, (moment,), anywhere=anywhere)


def changes_options(given: Mapping[str, str], *, anywhere: bool = False) -> TableOptions:
    """Parse the options of `metadata_changes`. `anywhere`: allow an archive that is not mounted. Raises PipelineError."""
    options = _known(given, (*_TABLE_OPTIONS, *_CHANGES_OPTIONS))
    start = _moment(options, "startingVersion", "startingTimestamp")
    end = _moment(options, "endingVersion", "endingTimestamp")
    if start.time_ms is not None:
        start = Moment(time_ms=start.time_ms - 1)  # before the records of this time
    if start == Moment():
        raise PipelineError(
            "specify startingVersion or startingTimestamp: the first offset or time of the wanted changes"
        )
    if end.offset is not None and end.offset < (start.offset or 0):
        raise PipelineError(
            f"startingVersion {start.offset} is greater than endingVersion {end.offset}"
        )
    return _table_options(options, (start, end), anywhere=anywhere)


def _known(given: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Return the options by name in lower case. Raises PipelineError if one is unknown."""
    options = {name.lower(): value for name, value in given.items()}
    remember_secrets(options.values())
    known = {name.lower(): name for name in names}
    if unknown := sorted(options.keys() - known.keys()):
        raise PipelineError(f"unknown option {unknown[0]!r}; there are {', '.join(known.values())}")
    return options


def _table_options(
    options: Mapping[str, str], moments: tuple[Moment, ...], *, anywhere: bool
) -> TableOptions:
    uri, bootstrap = options.get("path"), options.get("bootstrap")
    if bool(uri) == bool(bootstrap):
        raise PipelineError(
            "specify either the path of a metadata log's directory, or of an archive, or bootstrap: host:port of controllers"
        )
    check_credentials(options)
    table = table_named(options.get("table", ""))
    if not uri:
        found = controllers_in(options)
        return TableOptions(found.name, None, table, moments, found)
    path = local_path(uri)
    if path is None and not anywhere:
        raise PipelineError(
            f"{uri} is not in a mounted file system: use state_frame or changes_frame of quorum_pipeline.spark.frames"
        )
    return TableOptions(uri, path, table, moments)


def _moment(options: Mapping[str, str], version: str, timestamp: str = "") -> Moment:
    given = [name for name in (version, timestamp) if name and name.lower() in options]
    if len(given) > 1:
        raise PipelineError(f"specify either {version} or {timestamp}")
    if given == [timestamp]:
        return Moment(time_ms=parsed_time_ms(options[timestamp.lower()]))
    return Moment(offset=_number(options, version, 0) if given else None)


def _number(options: Mapping[str, str], name: str, default: int, least: int = 0) -> int:
    text = options.get(name.lower(), str(default))
    if not text.isdecimal() or int(text) < least:
        raise PipelineError(f"{name} is {text!r}; it has to be an integer of at least {least}")
    return int(text)
