"""Where a history is read from: `--log`, the directory of a replica, or `--archive`, what `archive` wrote.

Owns the choice. A log needs no Spark, nor does an archive in this machine's file system: for them it is not even imported.
"""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Protocol

from quorum_node.records.control import VotersRecord
from quorum_node.records.metadata import RegisterBrokerRecord
from quorum_node.records.snapshot_id import SnapshotId
from quorum_pipeline.commands.progress import Progress
from quorum_pipeline.files.local_files import LocalFiles, lies_here, local_path
from quorum_pipeline.files.replay import replay_directory
from quorum_pipeline.state.difference import Difference, differences
from quorum_pipeline.state.moment import Moment
from quorum_pipeline.state.replayed import Replayed
from quorum_pipeline.state.tables import Tables

if TYPE_CHECKING:
    from quorum_pipeline.files.archive_reader import ArchiveReader
    from quorum_pipeline.spark.spark_history import Source
    from quorum_pipeline.spark.stages import Stages


_NO_MASTER = "none"
SCRATCH = "quorum-pipeline-"
WORTH_SPARK_BYTES = 512 << 20
"""What is shorter is read before Spark has started."""


class History(Protocol):
    """What can be asked for any moment."""

    def at(self, moment: Moment) -> Replayed:
        """Raises PipelineError."""


class AnyState(Tables, Protocol):
    """A state as tables, as a snapshot, and as what a plan needs of it."""

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
        """The bytes of its snapshot, with other `voters` if they are given. Raises PipelineError if there can be none."""

    def begin_anew(self) -> None:
        """Nobody who knows this state's epochs is in the cluster that it is for: it has its first one."""

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
        """Where it was done, and what of it where."""


class _Replaying:
    """In this process: records are replayed one after the other."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._end_offset = 0

    def at(self, moment: Moment) -> AnyState:
        found = self._history.at(moment)
        self._end_offset = found.end_offset
        return found

    def differences(self, start: int, end: int) -> Iterator[Difference]:
        return differences(self.at(Moment(offset=start)), self.at(Moment(offset=end)))

    def how(self) -> str:
        return (
            f"replayed in this process up to offset {self._end_offset}; --master does it on Spark"
        )


def add_history(parser: argparse.ArgumentParser) -> None:
    """The arguments; one of the two is needed."""
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--log", type=Path, metavar="DIR", help="directory of a metadata log")
    group.add_argument("--archive", metavar="URI", help="what `archive` wrote")
    parser.add_argument(
        "--partitions",
        type=_count,
        default=2,
        metavar="N",
        help="read so many pieces at a time; default 2",
    )
    parser.add_argument(
        "--master",
        help="of Spark: what is asked of --log is made on its executors, and --archive is read wherever it lies (default"
        " local[*]); `none`: the same functions in this process",
    )


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on")
    return int(text)


@contextmanager
def opened_history(arguments: argparse.Namespace, progress: Progress) -> Iterator[History]:
    """Open for as long as the context is."""
    if arguments.archive is None:
        yield _Directory(arguments.log, progress, arguments.partitions)
        return
    with _reader(arguments, progress) as archive:
        yield _Archived(archive, progress, arguments.partitions)


@contextmanager
def opened_tables(arguments: argparse.Namespace, progress: Progress) -> Iterator[TableHistory]:
    """What `state`, `diff`, `restore` and `plan` ask. With `--master` a log is reduced and merged on Spark's executors."""
    here = None if arguments.archive is None else mounted(arguments.archive)
    if here is None and (arguments.log is None or arguments.master is None):
        with opened_history(arguments, progress) as history:
            yield _Replaying(history)
        return
    from quorum_pipeline.spark.spark_history import DirectorySource, JobHistory

    with (
        opened_stages(arguments, progress) as stages,
        TemporaryDirectory(prefix=SCRATCH) as scratch,
    ):
        source: Source
        if here is None:
            source = DirectorySource(arguments.log)
        else:
            from quorum_pipeline.files.archive_reader import ArchiveReader
            from quorum_pipeline.files.archive_tasks import ArchiveSource

            reader = ArchiveReader(LocalFiles(), arguments.archive)
            source = ArchiveSource(reader, here, Path(scratch))
        with JobHistory(stages, source) as found:
            yield found


def mounted(archive: str) -> Path | None:
    """Where an archive lies, if that is certain, and the file system is one of this machine."""
    return local_path(archive) if lies_here(archive) else None


@contextmanager
def opened_stages(
    arguments: argparse.Namespace, progress: Progress, size_bytes: int = 0
) -> Iterator["Stages"]:
    """Spark's with `--master`, or for more than WORTH_SPARK_BYTES; else in this process. Raises PipelineError."""
    from quorum_pipeline.spark.stages import SparkStages, StagesHere

    small = arguments.master is None and size_bytes < WORTH_SPARK_BYTES
    if small or arguments.master == _NO_MASTER:
        yield StagesHere(arguments.partitions)
        return
    from quorum_pipeline.spark.session import open_session

    progress.say("starting Spark")
    session = open_session("quorum-pipeline", arguments.master, rows_in_jvm=False)
    try:
        yield SparkStages(session.sparkContext)
    finally:
        session.stop()


@contextmanager
def _reader(arguments: argparse.Namespace, progress: Progress) -> Iterator["ArchiveReader"]:
    if arguments.master is None and lies_here(arguments.archive):
        from quorum_pipeline.files.archive_reader import ArchiveReader

        yield ArchiveReader(LocalFiles(), arguments.archive)
        return
    from quorum_pipeline.spark.archive import Archive
    from quorum_pipeline.spark.session import open_session

    progress.say("starting Spark")
    session = open_session("quorum-pipeline", arguments.master)
    try:
        yield Archive(session, arguments.archive)
    finally:
        session.stop()


class _Directory:
    def __init__(self, path: Path, progress: Progress, partitions: int) -> None:
        self._path = path
        self._progress = progress
        self._partitions = partitions

    def at(self, moment: Moment) -> Replayed:
        return replay_directory(self._path, moment, self._progress, self._partitions)


class _Archived:
    def __init__(self, archive: "ArchiveReader", progress: Progress, partitions: int) -> None:
        self._archive = archive
        self._progress = progress
        self._partitions = partitions

    def at(self, moment: Moment) -> Replayed:
        from quorum_pipeline.files.archived_state import replay_archive

        return replay_archive(self._archive, moment, self._progress, self._partitions)
