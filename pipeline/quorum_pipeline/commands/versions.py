"""`quorum-pipeline versions`: writes the history of each row of the tables to Parquet; later runs append to it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from signal import SIGINT, SIGTERM
from tempfile import TemporaryDirectory
from threading import Event
from typing import TYPE_CHECKING

from quorum_pipeline.commands.histories import (
    SCRATCH,
    add_history,
    at_least_one,
    check_outside,
    controllers_in,
    mounted,
    opened_archive,
    opened_stages,
    print_uncommitted,
    seconds,
)
from quorum_pipeline.commands.progress import Progress
from quorum_pipeline.commands.stop_signal import stop_signal
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.archive_lock import only_writer
from quorum_pipeline.files.local_files import file_uri, local_path, size_of
from quorum_pipeline.files.log_directory import open_log
from quorum_pipeline.files.version_files import VersionStore, counts_of
from quorum_pipeline.redaction import redacted
from quorum_pipeline.spark.stages import Stages
from quorum_pipeline.spark.versions_job import (
    ArchiveVersions,
    LogVersions,
    QuorumVersions,
    VersionSource,
)
from quorum_pipeline.spark.versions_run import add_versions, follow_versions

if TYPE_CHECKING:
    from quorum_pipeline.spark.version_store import HadoopVersionStore


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """See `--help`."""
    add_history(parser, live=True)
    parser.add_argument(
        "--to",
        required=True,
        metavar="URI",
        help="directory of the versions: a path that every executor mounts, or a URI; later runs add to it",
    )
    parser.add_argument(
        "--to-delta",
        metavar="URI",
        help="also keep the versions as Delta tables here; needs Delta's classes in Spark",
    )
    parser.add_argument(
        "--max-rows",
        type=at_least_one,
        default=1_000_000,
        metavar="N",
        help="number of records whose versions are written at once; default 1000000",
    )
    parser.add_argument("--follow", action="store_true", help="run until stopped")
    parser.add_argument(
        "--every", type=seconds, default=5.0, metavar="SECONDS", help="with --follow; default 5"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the command. Raises PipelineError."""
    to_delta = None if arguments.to_delta is None else mounted(arguments.to_delta)
    to = local_path(arguments.to)
    check_outside(arguments, to, to_delta)
    progress = Progress("versions", "offsets")
    lock = nullcontext() if to is None else only_writer(to.resolve())
    with _opened(arguments, progress) as (stages, source), lock:
        store = _store(arguments.to, stages)
        keep_delta = _delta_keeper(arguments.to_delta, stages, store)
        if arguments.follow:
            stopped = Event()
            with stop_signal(SIGTERM, stopped), stop_signal(SIGINT, stopped):
                added = follow_versions(
                    stages,
                    source,
                    store,
                    arguments.max_rows,
                    progress,
                    stopped,
                    arguments.every,
                    keep_delta,
                )
            progress.report("stopping: what is missing is added by the next run")
        else:
            added = add_versions(
                stages, source, store, arguments.max_rows, progress, stored_more=keep_delta
            )
        found = store.stored()
    if not found:
        raise PipelineError(f"{source.name} has no records, so no versions were written")
    for name, count in counts_of(found):
        print(f"{name:12} {count:12,} versions")
    start, end = found[0].offsets.start, found[-1].offsets.end
    print(
        f"{redacted(arguments.to)}: offsets {start} to {end}, {added.versions:,} versions of them new"
    )
    if arguments.to_delta is not None:
        print(f"{redacted(arguments.to_delta)}: Delta tables of all these versions")
    if added.open_at is not None:
        print(
            f"  a metadata transaction is open at offset {added.open_at}: what follows is left out"
        )
    if added.how:
        print(f"  {added.how}; {progress.seconds:.1f} s")
    return 0


def _store(uri: str, stages: Stages) -> VersionStore | HadoopVersionStore:
    to = local_path(uri)
    if to is not None:
        return VersionStore(to.resolve())
    from quorum_pipeline.spark.stages import SparkStages
    from quorum_pipeline.spark.version_store import HadoopVersionStore

    assert isinstance(stages, SparkStages), "it was opened for Hadoop's file systems"
    return HadoopVersionStore(stages.session(), uri)


def _delta_keeper(
    uri: str | None, stages: Stages, store: VersionStore | HadoopVersionStore
) -> Callable[[], object]:
    """Return what adds the stored versions to the Delta tables, after adding what an interrupted run has left out."""
    if uri is None:
        return lambda: None
    from quorum_pipeline.spark.delta_tables import DeltaTables
    from quorum_pipeline.spark.stages import SparkStages

    assert isinstance(stages, SparkStages), "it was opened for Delta"
    local = mounted(uri)
    tables = DeltaTables(
        stages.session(), uri.rstrip("/") if local is None else file_uri(local.resolve())
    )
    tables.check(store)
    tables.add(store)
    return partial(tables.add, store)


@contextmanager
def _opened(
    arguments: argparse.Namespace, progress: Progress
) -> Iterator[tuple[Stages, VersionSource]]:
    controllers = controllers_in(arguments)
    of_hadoop = local_path(arguments.to) is None
    more = {"delta": arguments.to_delta is not None, "elsewhere": of_hadoop}
    if controllers is not None:
        from quorum_pipeline.live.live_tasks import size_of as size_of_quorum

        size_bytes = size_of_quorum(controllers)
        with opened_stages(arguments, progress, size_bytes, **more) as stages:
            yield stages, QuorumVersions(controllers)
        return
    with TemporaryDirectory(prefix=SCRATCH) as scratch:
        uri: str | None = arguments.archive
        if uri is None:
            with opened_stages(arguments, progress, size_of(arguments.log), **more) as stages:
                print_uncommitted(open_log(arguments.log), progress)
                yield stages, LogVersions(arguments.log)
            return
        root = mounted(uri)
        size_bytes = 0 if root is None else size_of(root)
        with opened_archive(arguments, progress, uri, size_bytes, **more) as (stages, reader):
            yield stages, ArchiveVersions(reader, Path(scratch))
