"""`quorum-pipeline state`: writes brokers, topics, partitions, configs, voters and ACLs at one moment."""

import argparse
import json
from pathlib import Path

from quorum_pipeline.commands.histories import (
    AnyState,
    TableHistory,
    add_history,
    check_outside,
    opened_tables,
)
from quorum_pipeline.commands.moments import add_moment, moment_of, shown_time
from quorum_pipeline.commands.progress import Progress
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.output_file import completed
from quorum_pipeline.state.tables import STATE_TABLES

_NAMES = [table.name for table in STATE_TABLES]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """See `--help`."""
    add_history(parser, live=True)
    add_moment(parser)
    parser.add_argument("--show", choices=_NAMES, help="print this table, one JSON object a row")
    parser.add_argument(
        "--output", type=Path, help="write every table to this directory, as Parquet"
    )
    parser.add_argument(
        "--snapshot", type=Path, help="write the state to this directory, as a node's snapshot"
    )


def run(arguments: argparse.Namespace) -> int:
    """Run the command. Raises PipelineError."""
    check_outside(arguments, arguments.output, arguments.snapshot)
    progress = Progress("replaying", "offsets")
    with opened_tables(arguments, progress) as history:
        return _print_result(arguments, progress, history, history.at(moment_of(arguments)))


def _print_result(
    arguments: argparse.Namespace, progress: Progress, history: TableHistory, state: AnyState
) -> int:
    if arguments.output is not None:
        from quorum_pipeline.files.table_files import write_tables

        progress.report(f"writing tables to {arguments.output}")
        write_tables(arguments.output, state)
    snapshot = write_snapshot(arguments.snapshot, state) if arguments.snapshot else None
    if arguments.show is not None:
        table = next(each for each in STATE_TABLES if each.name == arguments.show)
        for row in state.rows(table):
            print(json.dumps(row, ensure_ascii=False))
        return 0
    counts = ", ".join(f"{state.count(t)} {t.name}" for t in STATE_TABLES)
    print(
        f"state at offset {state.end_offset}, epoch {state.epoch}, {shown_time(state.timestamp_ms)}"
    )
    print(f"  {counts}")
    if state.in_transaction:
        print("  a metadata transaction is open here; its records are not included")
    if snapshot is not None:
        print(f"  snapshot: {snapshot}")
    print(f"  {history.how()}; {progress.seconds:.1f} s")
    return 0


def write_snapshot(directory: Path, state: AnyState) -> Path:
    """Write a snapshot file with Kafka's name; return its path. Raises PipelineError, also if it exists."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / state.id.file_name
    if path.exists():
        raise PipelineError(
            f"{path} exists already: remove it, or choose another directory for --snapshot"
        )
    with completed(path) as unfinished, unfinished.open("xb") as file:
        for data in state.snapshot():
            file.write(data)
    return path
