"""`quorum-pipeline archive`: writes every record of a log once to Parquet; resumes after any interruption."""

import argparse
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from importlib import import_module
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from quorum_pipeline.commands.histories import (
    add_bootstrap,
    at_least_one,
    check_outside,
    controllers_in,
    print_uncommitted,
    seconds,
)
from quorum_pipeline.commands.progress import Progress
from quorum_pipeline.commands.stop_signal import stop_signal
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.local_files import local_path
from quorum_pipeline.files.log_directory import LogDirectory, open_log
from quorum_pipeline.live.controllers import Controllers
from quorum_pipeline.redaction import redacted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from quorum_pipeline.spark.archive import Archive
    from quorum_pipeline.spark.archive_job import Merging

_SWITCH_SECONDS = 0.0005
_MAX_PLACES = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """See `--help`."""
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--log", type=Path, metavar="DIR", help="directory of a metadata log")
    add_bootstrap(source, parser)
    parser.add_argument("--to", required=True, metavar="URI", help="the archive: any Hadoop path")
    parser.add_argument("--follow", action="store_true", help="run until stopped")
    parser.add_argument(
        "--every", type=seconds, default=5.0, metavar="SECONDS", help="with --follow"
    )
    parser.add_argument(
        "--max-rows", type=at_least_one, default=10_000_000, help="of one range of offsets"
    )
    parser.add_argument(
        "--span-bytes",
        type=at_least_one,
        default=32 << 20,
        help="bytes of a directory's log that one task reads",
    )
    parser.add_argument(
        "--compact",
        action="store_true",
        help="afterwards merge small files; without --log and --bootstrap only merge",
    )
    parser.add_argument(
        "--compact-rows", type=at_least_one, default=5_000_000, help="of a merged directory"
    )
    parser.add_argument(
        "--merge-every",
        type=seconds,
        default=600.0,
        metavar="SECONDS",
        help="with --follow: how often small directories are merged",
    )
    parser.add_argument(
        "--keep-merged",
        type=seconds,
        default=3600.0,
        metavar="SECONDS",
        help="with --follow: how long merged directories remain for queries that have begun to read them",
    )
    parser.add_argument(
        "--no-merge", action="store_true", help="with --follow: leave small directories as they are"
    )
    parser.add_argument(
        "--state-rows",
        type=at_least_one,
        default=1_000_000,
        metavar="N",
        help="write a whole state when the deltas since the last one have this many rows",
    )
    parser.add_argument(
        "--keep-states",
        type=at_least_one,
        metavar="DAYS",
        help="of whole states that are older, keep only the last one of each day; default: keep all",
    )
    parser.add_argument(
        "--master", help="Spark master; default local[*], or the one of spark-submit"
    )
    parser.add_argument(
        "--remote", metavar="URL", help="not supported: archive needs its own Spark context"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the command; return 1 if there are records in quarantine. Raises PipelineError."""
    # Installed first: the first process of a container ignores SIGTERM without a handler.
    stopped = Event()
    with stop_signal(signal.SIGTERM, stopped):
        return _run(arguments, stopped)


def _run(arguments: argparse.Namespace, stopped: Event) -> int:
    if arguments.remote is not None:
        raise PipelineError(
            "archive can't run over Spark Connect, because its executors can't write files directly: use --master"
        )
    source = _source(arguments)
    if source is None and not arguments.compact:
        raise PipelineError("nothing to do: specify --log DIR, --bootstrap HOST:PORT, or --compact")
    progress = Progress("archiving", "offsets")
    if isinstance(source, LogDirectory):
        print_uncommitted(source, progress)
    progress.report("starting Spark")
    with _opened_session(arguments, reads=source is not None) as session:
        from quorum_pipeline.spark.archive import Archive

        archive = Archive(session, arguments.to)
        archive.state_rows, archive.keep_days = arguments.state_rows, arguments.keep_states
        if source is None and not archive.contents().ranges:
            raise PipelineError(f"{arguments.to} is not an archive, or is empty: nothing to merge")
        with archive.only_writer():
            before = archive.contents()
            if source is not None:
                _write(archive, source, arguments, progress, stopped)
            if arguments.compact:
                _compact(archive, arguments.compact_rows, progress)
            after = archive.contents()
        if after.quarantined:
            for place in archive.quarantined_places(_MAX_PLACES):
                print(f"quarantine: {redacted(place)}")
    added = after.end - max(before.end, after.start)
    print(
        f"archive {redacted(arguments.to)}: offsets {after.start} to {after.end}, {added:,} of them new,"
        f" {after.quarantined} in quarantine; {progress.seconds:.1f} s"
    )
    return 1 if after.quarantined else 0


@contextmanager
def _opened_session(arguments: argparse.Namespace, *, reads: bool) -> Iterator["SparkSession"]:
    """A session for the archive. `reads`: records of a log are read, not only merged."""
    from quorum_pipeline.spark.session import end_session, open_session

    elsewhere = "://" in arguments.to and not arguments.to.startswith("file:")
    # Imports while Java starts cost no time, provided that they release the interpreter often
    # enough for the thread that starts it.
    sys.setswitchinterval(_SWITCH_SECONDS)
    with ThreadPoolExecutor(max_workers=1) as pool:
        pool.submit(import_module, "quorum_pipeline.spark.archive_job")
        session = open_session(
            "quorum-pipeline archive",
            arguments.master,
            rows_in_jvm=elsewhere or arguments.compact or arguments.follow,
            workers_at_once=not elsewhere and reads,
        )
    try:
        yield session
    finally:
        end_session(session)


def _write(
    archive: "Archive",
    source: LogDirectory | Controllers,
    arguments: argparse.Namespace,
    progress: Progress,
    stopped: Event,
) -> None:
    """Write the records of the source, with --follow until `stopped`."""
    from quorum_pipeline.spark.archive_job import ArchiveJob

    job = ArchiveJob(
        archive,
        source,
        arguments.max_rows,
        arguments.every if arguments.follow else None,
        arguments.span_bytes,
        _merging(arguments),
    )
    progress.measure(lambda: archive.written_bytes)
    with stop_signal(signal.SIGINT, stopped), progress.watching(archive.progress):
        job.run(progress, progress.report, stopped.wait, progress.expect)


def _compact(archive: "Archive", rows: int, progress: Progress) -> None:
    """Merge directories up to this number of rows, and delete whole states that need not be kept."""
    left = archive.compact(rows, progress.report)
    print(f"merged: {left} directories remain")
    if expired := archive.expire_states():
        print(f"deleted: {expired} whole states, older than {archive.keep_days} days")


def _merging(arguments: argparse.Namespace) -> "Merging | None":
    from quorum_pipeline.spark.archive_job import Merging

    if not arguments.follow or arguments.no_merge:
        return None
    return Merging(arguments.compact_rows, arguments.merge_every, arguments.keep_merged)


def _source(arguments: argparse.Namespace) -> LogDirectory | Controllers | None:
    """The source; errors are reported before Spark starts. Raises PipelineError."""
    controllers = controllers_in(arguments)
    if arguments.log is not None:
        log = open_log(arguments.log)
        check_outside(arguments, local_path(arguments.to))
        return log
    if controllers is None:
        return None
    with closing(controllers.open()) as quorum:
        quorum.committed()
    return controllers
