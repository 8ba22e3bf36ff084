"""`quorum-pipeline audit`: whether replicas hold the same history, and which one doesn't, where."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path

from quorum_pipeline.commands.progress import Progress
from quorum_pipeline.files.audit import audit


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """See `--help`."""
    parser.add_argument("log", type=Path, nargs="+", help="directories of the replicas' logs")
    parser.add_argument("--json", action="store_true", help="one JSON object for each finding")


def run(arguments: argparse.Namespace) -> int:
    """1 if anything was found. Raises PipelineError."""
    progress = Progress("auditing", "bytes")
    found = audit(arguments.log, progress.say)
    for each in found.findings:
        print(json.dumps(asdict(each)) if arguments.json else f"FOUND {each}")
    if arguments.json:
        return 1 if found.findings else 0
    for tail in found.matching.tails:
        print(f"note: {tail}; it was not committed there")
    print(
        f"{len(arguments.log)} logs, {found.bytes:,} bytes, {found.batches:,} batches,"
        f" {found.matching.compared:,} of them compared; agreed on by a majority up to offset"
        f" {found.matching.committed_end}; {found.snapshots} snapshots, {found.replayed} of them compared"
        f" with the log; {progress.seconds:.1f} s"
    )
    print("nothing was found" if not found.findings else f"{len(found.findings)} findings")
    return 1 if found.findings else 0
