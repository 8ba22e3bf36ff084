"""`quorum-pipeline diff`: what changed in the cluster between two offsets."""

import argparse
import json
from collections import Counter

from quorum_pipeline.commands.histories import add_history, opened_tables
from quorum_pipeline.commands.progress import Progress
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.state.difference import Difference


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """See `--help`."""
    add_history(parser, live=True)
    parser.add_argument("--from", dest="start", type=int, required=True, metavar="N", help="offset")
    parser.add_argument("--to", dest="end", type=int, required=True, metavar="M", help="offset")
    parser.add_argument("--json", action="store_true", help="one JSON object for each difference")


def run(arguments: argparse.Namespace) -> int:
    """Run the command. Raises PipelineError."""
    if arguments.start > arguments.end:
        raise PipelineError(f"--from {arguments.start} is greater than --to {arguments.end}")
    progress = Progress("replaying", "offsets")
    counts: Counter[str] = Counter()
    with opened_tables(arguments, progress) as history:
        for each in history.differences(arguments.start, arguments.end):
            counts[f"{each.kind} in {each.table}"] += 1
            print(_json(each) if arguments.json else _line(each))
        if not arguments.json:
            summary = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
            print(
                f"from offset {arguments.start} to {arguments.end}: {summary or 'nothing changed'}"
            )
        progress.report(history.how())
    return 0


def _line(each: Difference) -> str:
    named = "/".join(str(part) for part in each.key)
    if each.before is None or each.after is None:
        return f"{each.kind:8}{each.table} {named}"
    changes = [f"{name}: {each.before[name]} -> {each.after[name]}" for name in each.fields]
    return f"{each.kind:8}{each.table} {named}  {'; '.join(changes)}"


def _json(each: Difference) -> str:
    document = {
        "table": each.table,
        "kind": each.kind,
        "key": each.key,
        "before": each.before,
        "after": each.after,
    }
    return json.dumps(document, ensure_ascii=False)
