"""`quorum-pipeline history`: lists the operations that wrote an archive, from its markers."""

import argparse
import json
from collections.abc import Iterator

from quorum_pipeline.commands.histories import opened_archive
from quorum_pipeline.commands.moments import shown_time
from quorum_pipeline.commands.progress import Progress
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.archive_operations import Operation, operations

_HEAD = ("offsets", "operation", "records", "quarantined", "rows", "bytes", "written")
_LEFT = ("offsets", "operation", "written")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """See `--help`."""
    parser.add_argument("--archive", required=True, metavar="URI", help="what `archive` wrote")
    parser.add_argument("--json", action="store_true", help="one JSON object for each operation")
    parser.add_argument(
        "--master", help="Spark master for an archive that is not in a mounted file system"
    )
    parser.set_defaults(remote=None, partitions=1)


def run(arguments: argparse.Namespace) -> int:
    """Run the command. Raises PipelineError if there is no archive."""
    progress = Progress("reading", "offsets")
    with opened_archive(arguments, progress, arguments.archive) as (_, reader):
        found = operations(reader)
    if not found:
        raise PipelineError(f"{arguments.archive} is not an archive, or is empty")
    lines = [_json(each) for each in found] if arguments.json else list(_table(found))
    for line in lines:
        print(line)
    return 0


def _table(found: list[Operation]) -> Iterator[str]:
    rows = [_HEAD, *map(_cells, found)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [
            cell.ljust(width) if name in _LEFT else cell.rjust(width)
            for name, cell, width in zip(_HEAD, row, widths, strict=True)
        ]
        yield "  ".join(cells).rstrip()


def _cells(each: Operation) -> tuple[str, ...]:
    start = "" if each.start_offset is None else f"{each.start_offset}-"
    operation = f"{each.kind} of {each.merged}" if each.merged else each.kind
    return (
        f"{start}{each.end_offset}",
        operation,
        "" if each.records is None else f"{each.records:,}",
        "" if each.records is None else f"{each.quarantined:,}",
        f"{each.rows:,}",
        f"{each.size_bytes:,}",
        shown_time(each.written_ms),
    )


def _json(each: Operation) -> str:
    document = {
        "operation": each.kind,
        "start_offset": each.start_offset,
        "end_offset": each.end_offset,
        "records": each.records,
        "quarantined": each.quarantined,
        "rows": each.rows,
        "merged": each.merged,
        "bytes": each.size_bytes,
        "written": shown_time(each.written_ms),
    }
    return json.dumps(document)
