"""Where a history is read from: `--log`, the directory of a replica, or `--archive`.

Owns the choice of the source, and whether Spark is used. Small inputs, and archives in the local file system, are
read without importing Spark.
"""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Protocol

from quorum_node.missing_extra import brought_by
from quorum_node.records.control import VotersRecord
from quorum_node.records.metadata import RegisterBrokerRecord
from quorum_node.records.snapshot_id import SnapshotId
from quorum_pipeline.commands.progress import Progress
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.local_files import LocalFiles, lies_here, local_path, size_of
from quorum_pipeline.files.log_directory import LogDirectory, open_log
from quorum_pipeline.state.difference import Difference, differences
from quorum_pipeline.state.moment import Moment
from quorum_pipeline.state.tables import Tables

if TYPE_CHECKING:
    from quorum_pipeline.files.archive_reader import ArchiveReader
    from quorum_pipeline.spark.spark_history import Source
    from quorum_pipeline.spark.stages import Stages


_NO_MASTER = "none"
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
        """The name of its snapshot."""

    @property
    def in_transaction(self) -> bool:
        """Whether a metadata transaction is open."""

    @property
    def voters(self) -> VotersRecord | None:
        """The voters in force."""

    def snapshot(self, voters: VotersRecord | None = None) -> Iterator[bytes]:
        """The bytes of its snapshot, with other `voters` if they are given. Raises PipelineError if there can be
        none.
        """

    def begin_anew(self) -> None:
        """Reset epochs, for a new cluster in which no node knows the old ones."""

    def brokers(self) -> list[RegisterBrokerRecord]:
        """Their registrations, by number."""

    def placed(self) -> Iterator[tuple[str, int, tuple[int, ...]]]:
        """Topic, number and replicas of each partition, without those that are leaving; in order."""


class TableHistory(Protocol):
    """What can be asked for the tables of any moment."""

    def at(self, moment: Moment) -> AnyState:
        """Raises PipelineError."""

    def differences(self, start: int, end: int) -> Iterator[Difference]:
        """Between two offsets. Raises PipelineError."""

    def how(self) -> str:
        """Where the work was done, and its distribution."""


class _Replaying:
    """A remote archive: Spark reads it, and its records are replayed in this process."""

    def __init__(self, archive: "ArchiveReader", progress: Progress, partitions: int) -> None:
        self._archive = archive
        self._progress = progress
        self._partitions = partitions
        self._end_offset = 0

    def at(self, moment: Moment) -> AnyState:
        from quorum_pipeline.files.archived_state import replay_archive

        found = replay_archive(self._archive, moment, self._progress, self._partitions)
        self._end_offset = found.end_offset
        return found

    def differences(self, start: int, end: int) -> Iterator[Difference]:
        return differences(self.at(Moment(offset=start)), self.at(Moment(offset=end)))

    def how(self) -> str:
        return f"replayed in this process up to offset {self._end_offset}"


def add_history(parser: argparse.ArgumentParser) -> None:
    """The arguments; one of the two is needed."""
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--log", type=Path, metavar="DIR", help="directory of a metadata log")
    group.add_argument("--archive", metavar="URI", help="what `archive` wrote")
    add_spark(parser)


def add_spark(parser: argparse.ArgumentParser) -> None:
    """Where it runs."""
    parser.add_argument(
        "--partitions",
        type=_count,
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


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1")
    return int(text)


@contextmanager
def opened_tables(arguments: argparse.Namespace, progress: Progress) -> Iterator[TableHistory]:
    """The history for `state`, `diff`, `restore` and `plan`: reduced and merged on Spark executors, or by the same
    functions in this process.
    """
    root = arguments.log if arguments.archive is None else mounted(arguments.archive)
    if root is None:
        with _reader(arguments, progress) as archive:
            yield _Replaying(archive, progress, arguments.partitions)
        return
    from quorum_pipeline.spark.spark_history import DirectorySource, JobHistory

    with (
        opened_stages(arguments, progress, _size(arguments, root)) as stages,
        TemporaryDirectory(prefix=SCRATCH) as scratch,
    ):
        source: Source = DirectorySource(root)
        if arguments.archive is None:
            say_uncommitted(open_log(root), progress)
        if arguments.archive is not None:
            from quorum_pipeline.files.archive_reader import ArchiveReader
            from quorum_pipeline.files.archive_tasks import ArchiveSource

            reader = ArchiveReader(LocalFiles(), arguments.archive)
            source = ArchiveSource(reader, root, Path(scratch))
        with JobHistory(stages, source) as found:
            yield found


def say_uncommitted(log: LogDirectory, progress: Progress) -> None:
    """Print the note on records at the end of the log that may not be committed."""
    note = log.uncommitted_end()
    if note is not None:
        progress.say(f"note: {note}")


def _size(arguments: argparse.Namespace, root: Path) -> int:
    """Size of the input; for an archive only the changes since its last whole state."""
    return size_of(root) if arguments.archive is None else 0


def mounted(archive: str) -> Path | None:
    """The local path of an archive, if it is certain and local."""
    return local_path(archive) if lies_here(archive) else None


@contextmanager
def opened_stages(
    arguments: argparse.Namespace, progress: Progress, size_bytes: int = 0
) -> Iterator["Stages"]:
    """Spark's with `--master` or `--remote`, or for more than WORTH_SPARK_BYTES; else in this process. Raises
    PipelineError.
    """
    from quorum_pipeline.spark.stages import SparkStages, StagesHere

    if arguments.remote is not None:
        with brought_by("connect"):
            from quorum_pipeline.spark.remote_stages import RemoteStages, open_remote

            progress.say(f"connecting to Spark at {arguments.remote}")
            remote = open_remote(arguments.remote)
        from quorum_pipeline.spark.reason import SparkError, reason_of

        try:
            yield RemoteStages(remote, arguments.remote)
        except SparkError as error:
            raise PipelineError(f"Spark at {arguments.remote}: {reason_of(error)}") from None
        finally:
            remote.stop()
        return
    small = arguments.master is None and size_bytes < WORTH_SPARK_BYTES
    if small or arguments.master == _NO_MASTER:
        yield StagesHere(arguments.partitions)
        return
    from quorum_pipeline.spark.reason import SparkError, reason_of
    from quorum_pipeline.spark.session import open_session

    progress.say("starting Spark")
    session = open_session("quorum-pipeline", arguments.master, rows_in_jvm=False)
    try:
        yield SparkStages(session.sparkContext)
    except SparkError as error:
        raise PipelineError(f"Spark at {session.sparkContext.master}: {reason_of(error)}") from None
    finally:
        session.stop()


@contextmanager
def _reader(arguments: argparse.Namespace, progress: Progress) -> Iterator["ArchiveReader"]:
    if arguments.remote is not None:
        raise PipelineError(
            f"{arguments.archive} is not in a mounted file system: read it with --master, not with --remote"
        )
    from quorum_pipeline.spark.archive import Archive
    from quorum_pipeline.spark.session import open_session

    progress.say("starting Spark")
    session = open_session("quorum-pipeline", arguments.master)
    try:
        yield Archive(session, arguments.archive)
    finally:
        session.stop()
