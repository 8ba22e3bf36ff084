"""`quorum-pipeline timeline`: what happened to the cluster, when, and how long it took."""

import argparse
from pathlib import Path

from quorum_pipeline.commands.progress import Progress
from quorum_pipeline.files.timeline import read_timeline, write_events
from quorum_pipeline.timeline.events import summary
from quorum_pipeline.timeline.report import figure, html_report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """See `--help`."""
    parser.add_argument("--log", type=Path, required=True, metavar="DIR", help="a metadata log")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page with pictures")
    parser.add_argument("--parquet", type=Path, metavar="FILE", help="write every event as a row")


def run(arguments: argparse.Namespace) -> int:
    """Raises PipelineError."""
    progress = Progress("reading", "offsets")
    found = read_timeline(arguments.log, progress)
    if arguments.html is not None:
        title = f"Timeline of {arguments.log.resolve().name}"
        with arguments.html.open("w", encoding="utf-8") as file:
            file.writelines(html_report(title, found.events, found.begin_ms, found.end_ms))
    if arguments.parquet is not None:
        write_events(arguments.parquet, found.events)
    for each in summary(found.events):
        median, longest = (
            figure(value, bound=each.bounds) for value in (each.median_ms, each.longest_ms)
        )
        print(f"{each.kind:20} {each.times:8,}   median {median:>12}   longest {longest:>12}")
    print(
        f"{len(found.events):,} events in offsets {found.start_offset} to {found.end_offset};"
        f" {progress.seconds:.1f} s"
    )
    return 0
