"""The source of a history: `--log`, the directory of a replica, `--archive`, or `--bootstrap`, a running quorum.

Owns the choice of the source, and whether Spark is used. Small inputs, and archives in the local file system, are
read without importing Spark. Archives that only Hadoop can read need it.
"""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Protocol

from quorum_node.missing_extra import brought_by
from quorum_node.records.control import VotersRecord
from quorum_node.records.metadata import RegisterBrokerRecord
from quorum_node.records.snapshot_id import SnapshotId
from quorum_pipeline.commands.progress import Progress
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.local_files import LocalFiles, is_local, local_path, size_of
from quorum_pipeline.files.log_directory import LogDirectory, open_log
from quorum_pipeline.live.controllers import Controllers, controllers_of
from quorum_pipeline.state.difference import Difference
from quorum_pipeline.state.moment import Moment
from quorum_pipeline.state.tables import Tables

if TYPE_CHECKING:
    from quorum_pipeline.files.archive_reader import ArchiveReader
    from quorum_pipeline.spark.stages import Stages


_NO_MASTER = "none"
_MAX_SECONDS = 86_400.0
SCRATCH = "quorum-pipeline-"
WORTH_SPARK_BYTES = 512 << 20
"""Inputs below this size are read faster than Spark starts."""


class AnyState(Tables, Protocol):
    """A state: its tables, its snapshot, and the input of a reassignment plan."""

    end_offset: int
    epoch: int
    timestamp_ms: int

    @property
    def id(self) -> SnapshotId:
        """Id of its snapshot."""

    @property
    def in_transaction(self) -> bool:
        """Whether a metadata transaction is open."""

    @property
    def voters(self) -> VotersRecord | None:
        """The current voters."""

    def snapshot(self, voters: VotersRecord | None = None) -> Iterator[bytes]:
        """Yield the bytes of its snapshot, with other `voters` if given. Raises PipelineError if the state can't be a
        snapshot.
        """

    def reset_epochs(self) -> None:
        """Reset epochs, for a new cluster whose nodes do not have the old ones."""

    def brokers(self) -> list[RegisterBrokerRecord]:
        """The registrations of brokers, sorted by id."""

    def placed(self) -> Iterator[tuple[str, int, tuple[int, ...]]]:
        """Yield topic, number and replicas of each partition in order, without replicas that are being removed."""


class TableHistory(Protocol):
    """A history that returns the tables of any moment."""

    def at(self, moment: Moment) -> AnyState:
        """Return the state at a moment. Raises PipelineError."""

    def differences(self, start: int, end: int) -> Iterator[Difference]:
        """Yield the differences between two offsets. Raises PipelineError."""

    def how(self) -> str:
        """Where the work was done, and its distribution."""


def add_history(parser: argparse.ArgumentParser, *, live: bool = False) -> None:
    """Add the arguments of the source; exactly one of them is required. `live`: it may be a running quorum."""
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--log", type=Path, metavar="DIR", help="directory of a metadata log")
    group.add_argument("--archive", metavar="URI", help="what `archive` wrote")
    parser.set_defaults(bootstrap=None)
    if live:
        add_bootstrap(group, parser)
    add_spark(parser)


def add_bootstrap(group: Any, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of a running quorum; `group` has the other sources."""
    group.add_argument(
        "--bootstrap", metavar="HOST:PORT,...", help="controllers of a running quorum"
    )
    parser.add_argument(
        "--tls",
        metavar="DIR",
        help="folder with ca.crt, tls.crt and tls.key of an archiver, for a running quorum",
    )
    parser.add_argument(
        "--command-config",
        metavar="FILE",
        help="properties file of Kafka's tools instead of --tls: security.protocol=SSL and ssl.* with PEM files",
    )
    parser.add_argument(
        "--replicas",
        metavar="HOST:PORT,...",
        help=(
            "admin APIs of replicas, such as observers, that are read instead of those of the voters; `none`: only the leader is read"
        ),
    )


def controllers_in(arguments: argparse.Namespace) -> Controllers | None:
    """Return the controllers that the arguments name; None without --bootstrap. Raises PipelineError."""
    if arguments.bootstrap is not None:
        return controllers_of(
            arguments.bootstrap,
            arguments.tls or "",
            arguments.command_config or "",
            arguments.replicas or "",
        )
    if arguments.tls or arguments.command_config or arguments.replicas:
        raise PipelineError("--tls, --command-config and --replicas apply only to --bootstrap")
    return None


def add_spark(parser: argparse.ArgumentParser) -> None:
    """Add the arguments for Spark."""
    parser.add_argument(
        "--partitions",
        type=at_least_one,
        default=2,
        metavar="N",
        help="number of concurrent reads in this process; default 2",
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--master",
        help=(
            "Spark master, whose executors need access to the files; default: in this process up to 512 MiB, else "
            "local[*]; `none`: in this process"
        ),
    )
    where.add_argument(
        "--remote",
        metavar="URL",
        help="of a Spark Connect server, such as sc://spark:15002, instead of --master",
    )


def at_least_one(text: str) -> int:
    """Parse the number of an option. Raises ArgumentTypeError."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1")
    return int(text)


def seconds(text: str) -> float:
    """Parse the number of an option. Raises ArgumentTypeError."""
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found <= _MAX_SECONDS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return found


@contextmanager
def opened_tables(arguments: argparse.Namespace, progress: Progress) -> Iterator[TableHistory]:
    """The history for `state`, `diff`, `restore` and `plan`: reduced and merged on Spark executors, or by the same
    functions in this process.
    """
    from quorum_pipeline.files.archive_tasks import ArchiveSource
    from quorum_pipeline.spark.spark_history import DirectorySource, JobHistory

    archive: str | None = arguments.archive
    controllers = controllers_in(arguments)
    if controllers is not None:
        from quorum_pipeline.live import live_tasks

        size_bytes = live_tasks.size_of(controllers)
        with (
            opened_stages(arguments, progress, size_bytes) as stages,
            JobHistory(stages, live_tasks.LiveSource(controllers)) as found,
        ):
            yield found
        return
    with TemporaryDirectory(prefix=SCRATCH) as scratch:
        if archive is not None:
            # Only the changes since its last full state are read, so its size does not matter.
            with (
                opened_archive(arguments, progress, archive) as (stages, reader),
                JobHistory(stages, ArchiveSource(reader, Path(scratch))) as found,
            ):
                yield found
            return
        with opened_stages(arguments, progress, size_of(arguments.log)) as stages:
            print_uncommitted(open_log(arguments.log), progress)
            with JobHistory(stages, DirectorySource(arguments.log)) as found:
                yield found


@contextmanager
def opened_archive(
    arguments: argparse.Namespace,
    progress: Progress,
    uri: str,
    size_bytes: int = 0,
    *,
    elsewhere: bool = False,
    delta: bool = False,
) -> Iterator[tuple["Stages", "ArchiveReader"]]:
    """Stages for an archive, and its reader. `elsewhere`: also for another directory of Hadoop's. Raises PipelineError."""
    elsewhere = elsewhere or mounted(uri) is None
    with opened_stages(arguments, progress, size_bytes, elsewhere=elsewhere, delta=delta) as stages:
        yield stages, reader_of(uri, stages)


def reader_of(uri: str, stages: "Stages") -> "ArchiveReader":
    """Return the reader of an archive; with Spark's stages if it is not certainly local."""
    from quorum_pipeline.files.archive_reader import ArchiveReader

    if mounted(uri) is not None:
        return ArchiveReader(LocalFiles(), uri)
    from quorum_pipeline.spark.hadoop_files import HadoopFiles
    from quorum_pipeline.spark.stages import SparkStages

    assert isinstance(stages, SparkStages), "Hadoop's file systems are known to Spark's JVM"
    return ArchiveReader(HadoopFiles(stages.context), uri)


def check_outside(arguments: argparse.Namespace, *outputs: Path | None) -> None:
    """Raise PipelineError if an output is in the directory of the source: a node, or readers of the archive, would take it for
    their own.
    """
    uri: str | None = getattr(arguments, "archive", None)
    source: Path | None = arguments.log if uri is None else mounted(uri)
    if source is None:
        return
    for each in outputs:
        if each is not None and each.resolve().is_relative_to(source.resolve()):
            what = "log" if uri is None else "archive"
            raise PipelineError(
                f"{each} is inside the directory of the {what} {source}, which must not be changed: use another directory"
            )


def check_files(*files: Path | None) -> None:
    """Raise PipelineError if a file can't be written, before a job begins whose result it gets."""
    for each in files:
        if each is not None and each.is_dir():
            raise PipelineError(f"{each} is a directory; specify a file")
        if each is not None and not each.parent.is_dir():
            raise PipelineError(f"{each.parent} is not a directory: create it first")
    places = [each.resolve() for each in files if each is not None]
    if len({*places}) < len(places):
        raise PipelineError(f"{places[0]} is specified twice: one result would replace the other")


def print_uncommitted(log: LogDirectory, progress: Progress) -> None:
    """Print the note on records at the end of the log that may not be committed."""
    note = log.uncommitted_end()
    if note is not None:
        progress.report(f"note: {note}")


def mounted(archive: str) -> Path | None:
    """The local path of an archive, if it is certain and local."""
    return local_path(archive) if is_local(archive) else None


@contextmanager
def opened_stages(
    arguments: argparse.Namespace,
    progress: Progress,
    size_bytes: int = 0,
    *,
    elsewhere: bool = False,
    delta: bool = False,
) -> Iterator["Stages"]:
    """Yield Spark's stages with `--master` or `--remote`, or for more than WORTH_SPARK_BYTES; else those of this process.
    `elsewhere`: there is a directory that may be in a file system that only Hadoop supports. `delta`: Delta tables are written,
    by this process's Spark. Raises PipelineError.
    """
    _check_place(arguments, elsewhere=elsewhere, delta=delta)
    small = size_bytes < WORTH_SPARK_BYTES and not elsewhere and not delta
    if arguments.remote is not None:
        opened = _remote_stages(arguments, progress)
    elif arguments.master == _NO_MASTER or (arguments.master is None and small):
        opened = _stages_here(arguments, progress)
    else:
        opened = _spark_stages(arguments, progress, delta=delta)
    with opened as stages:
        yield stages


def _check_place(arguments: argparse.Namespace, *, elsewhere: bool, delta: bool) -> None:
    """Raise PipelineError if the work can't be done where the arguments request it."""
    if elsewhere and arguments.remote is not None:
        raise PipelineError(
            "a directory that is not in a mounted file system needs --master, and not --remote"
        )
    if elsewhere and arguments.master == _NO_MASTER:
        raise PipelineError(
            "a directory that is not in a mounted file system needs Spark, and not --master none"
        )
    if delta and (arguments.remote is not None or arguments.master == _NO_MASTER):
        raise PipelineError(
            "Delta tables are written with --master, not with --remote or --master none"
        )


@contextmanager
def _stages_here(arguments: argparse.Namespace, progress: Progress) -> Iterator["Stages"]:
    from quorum_pipeline.spark.stages import StagesHere

    here = StagesHere(arguments.partitions)
    with progress.watching(here.progress):
        yield here


@contextmanager
def _remote_stages(arguments: argparse.Namespace, progress: Progress) -> Iterator["Stages"]:
    with brought_by("connect"):
        from quorum_pipeline.spark.remote_stages import RemoteStages, open_remote, shown_url

        shown = shown_url(arguments.remote)
        progress.report(f"connecting to Spark at {shown}")
        session = open_remote(arguments.remote)
    try:
        with _spark_errors(shown):
            yield RemoteStages(session, arguments.remote)
    finally:
        session.stop()


@contextmanager
def _spark_stages(
    arguments: argparse.Namespace, progress: Progress, *, delta: bool
) -> Iterator["Stages"]:
    from quorum_pipeline.spark.session import open_session, stop_session
    from quorum_pipeline.spark.stages import SparkStages

    progress.report("starting Spark")
    session = open_session("quorum-pipeline", arguments.master, rows_in_jvm=False, delta=delta)
    try:
        stages = SparkStages(session.sparkContext)
        with _spark_errors(str(session.sparkContext.master)), progress.watching(stages.progress):
            yield stages
    finally:
        stop_session(session)


@contextmanager
def _spark_errors(place: str) -> Iterator[None]:
    """Convert errors of Spark to PipelineError."""
    from quorum_pipeline.spark.reason import SparkError, reason_of

    try:
        yield
    except SparkError as error:
        raise PipelineError(f"Spark at {place}: {reason_of(error)}") from None
