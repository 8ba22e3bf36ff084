"""`quorum-pipeline timeline`: lists the events of a cluster with their times and durations."""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

from quorum_pipeline.commands.histories import (
    SCRATCH,
    add_history,
    check_files,
    controllers_in,
    mounted,
    opened_archive,
    opened_stages,
    print_uncommitted,
)
from quorum_pipeline.commands.progress import Progress
from quorum_pipeline.files.events_file import write_events
from quorum_pipeline.files.local_files import size_of
from quorum_pipeline.files.log_directory import open_log
from quorum_pipeline.files.merge_retries import retry_on_merge
from quorum_pipeline.files.output_file import completed
from quorum_pipeline.spark.stages import Stages
from quorum_pipeline.spark.timeline_job import (
    ReadTimeline,
    TimelineSource,
    archive_source,
    log_source,
    quorum_source,
    read_timeline,
)
from quorum_pipeline.timeline.events import summary
from quorum_pipeline.timeline.report import figure, html_report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """See `--help`."""
    add_history(parser, live=True)
    parser.add_argument("--html", type=Path, metavar="FILE", help="write an HTML page with charts")
    parser.add_argument(
        "--parquet", type=Path, metavar="FILE", help="write every event as a row of a Parquet file"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the command. Raises PipelineError."""
    check_files(arguments.html, arguments.parquet)
    progress = Progress("reading", "offsets")
    name, place, found = _read(arguments, progress)
    if arguments.html is not None:
        title = f"Timeline of {Path(name).resolve().name}"
        with completed(arguments.html) as page, page.open("w", encoding="utf-8") as file:
            file.writelines(html_report(title, found.events, found.begin_ms, found.end_ms))
    if arguments.parquet is not None:
        with completed(arguments.parquet) as unfinished:
            write_events(unfinished, found.events)
    for each in summary(found.events):
        median, longest = (
            figure(value, bound=each.bounds) for value in (each.median_ms, each.longest_ms)
        )
        print(f"{each.kind:20} {each.times:8,}   median {median:>12}   longest {longest:>12}")
    print(f"{len(found.events):,} events in offsets {found.start_offset} to {found.end_offset}")
    print(f"  {found.how(place)}; {progress.seconds:.1f} s")
    return 0


def _read(arguments: argparse.Namespace, progress: Progress) -> tuple[str, str, ReadTimeline]:
    """Return the name of the source, where it was read, and the timeline. Raises PipelineError."""

    def of(stages: Stages, source: TimelineSource) -> tuple[str, str, ReadTimeline]:
        progress.report(f"reading {source.name} {stages.place}")
        return source.name, stages.place, read_timeline(stages, source)

    controllers = controllers_in(arguments)
    if controllers is not None:
        from quorum_pipeline.live.live_tasks import size_of as size_of_quorum

        with (
            opened_stages(arguments, progress, size_of_quorum(controllers)) as stages,
            TemporaryDirectory(prefix=SCRATCH) as scratch,
        ):
            return of(stages, quorum_source(controllers, stages.slots, Path(scratch)))
    if arguments.log is not None:
        with opened_stages(arguments, progress, size_of(arguments.log)) as stages:
            print_uncommitted(open_log(arguments.log), progress)
            return of(stages, log_source(arguments.log, stages.slots))
    root = mounted(arguments.archive)
    size_bytes = 0 if root is None else size_of(root)
    with (
        opened_archive(arguments, progress, arguments.archive, size_bytes) as (stages, reader),
        TemporaryDirectory(prefix=SCRATCH) as scratch,
    ):
        return retry_on_merge([reader], lambda: of(stages, archive_source(reader, Path(scratch))))
