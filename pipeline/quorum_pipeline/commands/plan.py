"""`quorum-pipeline plan`: a reassignment for the whole cluster, for stock `kafka-reassign-partitions --execute` or
for the operator, as PartitionReassignments.
"""

import argparse
import csv
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from quorum_node.records.metadata import RegisterBrokerRecord
from quorum_pipeline.commands.histories import AnyState, add_history, check_files, opened_tables
from quorum_pipeline.commands.moments import add_moment, moment_of
from quorum_pipeline.commands.progress import Progress
from quorum_pipeline.errors import PipelineError
from quorum_pipeline.files.output_file import completed
from quorum_pipeline.placement import resource
from quorum_pipeline.placement.cluster import Broker, Partition
from quorum_pipeline.placement.plan import Balance, Plan, Reassignment, make_plan
from quorum_pipeline.placement.replicas import NoRoom

_ROLLBACK = "-rollback"
"""Added to the name of the resource that undoes a plan."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """See `--help`."""
    add_history(parser, live=True)
    add_moment(parser)
    parser.add_argument(
        "--drain", type=int, nargs="+", default=[], metavar="ID", help="brokers to be emptied"
    )
    parser.add_argument(
        "--sizes",
        type=Path,
        help="CSV with the columns topic, partition, bytes, to balance disk usage too",
    )
    parser.add_argument(
        "--keep-leaders", action="store_true", help="don't change the order of replicas"
    )
    parser.add_argument(
        "--resource",
        metavar="NAME",
        help="write PartitionReassignments of this name for `kubectl apply`, not JSON for Kafka's tool",
    )
    parser.add_argument("--quorum", metavar="NAME", help="with --resource: the MetadataQuorum")
    parser.add_argument("--output", type=Path, required=True, help="the file of the plan")
    parser.add_argument("--rollback", type=Path, help="a file that undoes the plan")


def run(arguments: argparse.Namespace) -> int:
    """Run the command. Raises PipelineError."""
    _check_resource(arguments)
    check_files(arguments.output, arguments.rollback)
    progress = Progress("replaying", "offsets")
    sizes = _read_sizes(arguments.sizes)
    with opened_tables(arguments, progress) as history:
        state = history.at(moment_of(arguments))
        brokers = _brokers(state, arguments.drain)
        partitions = list(_partitions(state, sizes))
        progress.report(history.how())
    progress.report(f"planning {len(partitions):,} partitions on {len(brokers)} brokers")
    try:
        plan = make_plan(brokers, partitions, leaders=not arguments.keep_leaders)
    except (NoRoom, ValueError) as error:
        raise PipelineError(str(error)) from None
    _write(arguments, arguments.output, "", _placed(plan, lambda each: each.after))
    if arguments.rollback is not None:
        rollback = _placed(plan, lambda each: each.before)
        _write(arguments, arguments.rollback, _ROLLBACK, rollback)
    for line in (*explanation(plan), *left_out(brokers)):
        print(line)
    print(f"written to {arguments.output}; {progress.seconds:.1f} s")
    return 0


def explanation(plan: Plan) -> Iterator[str]:
    """The plan in a few lines."""
    bytes_text = "" if plan.moved_bytes is None else f", {plan.moved_bytes:,} bytes"
    yield (
        f"{len(plan.reassignments):,} partitions change: {plan.moved_replicas:,} replicas move{bytes_text}"
        f" (no plan could do with fewer than {plan.fewest:,}), {plan.reordered:,} only get another"
        " preferred leader"
    )
    for name in ("replicas", "leaders", "bytes"):
        if getattr(plan.before, name) is not None:
            yield f"  {name + ' per broker':20} {_change(plan.before, plan.after, name)}"
    crowded = f"{plan.before.crowded:,} -> {plan.after.crowded:,}"
    yield f"  {'rack rule broken':20} {crowded} partitions"
    if plan.before.misplaced:
        text = f"{plan.before.misplaced:,} -> {plan.after.misplaced:,}"
        yield f"  {'on unusable brokers':20} {text} replicas"


def left_out(brokers: Sequence[Broker]) -> Iterator[str]:
    """Brokers that get no replicas, and why."""
    closed = [each for each in brokers if each.closed and each.usable]
    if closed:
        named = ", ".join(f"{each.id} ({each.closed})" for each in closed)
        yield f"  {'excluded':20} brokers {named}; they keep their replicas: plan again when they are back"


def _change(before: Balance, after: Balance, name: str) -> str:
    return f"{getattr(before, name)}  ->  {getattr(after, name)}"


def _brokers(state: AnyState, drained: list[int]) -> list[Broker]:
    known = {each.broker_id: each for each in state.brokers()}
    if unknown := sorted(set(drained) - set(known)):
        raise PipelineError(
            f"broker {unknown[0]} is not registered; registered are {sorted(known)}"
        )
    if not known:
        raise PipelineError("no broker is registered in this state of the cluster")
    return [
        Broker(number, record.rack, usable=number not in drained, closed=_closed(record))
        for number, record in sorted(known.items())
    ]


def _closed(record: RegisterBrokerRecord) -> str:
    """Why a broker can't get replicas now; empty if it can."""
    if record.fenced:
        return "fenced"
    if record.in_controlled_shutdown:
        return "in controlled shutdown"
    if record.log_dirs and set(record.log_dirs) <= set(record.cordoned_log_dirs or ()):
        return "all log directories cordoned"
    return ""


def _partitions(state: AnyState, sizes: dict[tuple[str, int], int]) -> Iterator[Partition]:
    for name, number, replicas in state.placed():
        yield Partition(name, number, replicas, sizes.get((name, number)))


def _read_sizes(path: Path | None) -> dict[tuple[str, int], int]:
    if path is None:
        return {}
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        try:
            missing = {"topic", "partition", "bytes"} - set(reader.fieldnames or ())
            if missing:
                raise PipelineError(f"{path} has no column {min(missing)!r} in its first line")
            return {(row["topic"], int(row["partition"])): _size(row["bytes"]) for row in reader}
        except (ValueError, TypeError, csv.Error) as error:
            raise PipelineError(f"{path}, line {reader.line_num}: {error}") from None


def _size(text: str) -> int:
    """Parse a number of bytes. Raises ValueError, TypeError if there is none."""
    found = int(text)
    if found < 0:
        raise ValueError(f"{found} is not a number of bytes")
    return found


def _check_resource(arguments: argparse.Namespace) -> None:
    """Validate the arguments before a possibly long log is read."""
    if (arguments.resource is None) != (arguments.quorum is None):
        raise PipelineError(
            "--resource needs --quorum, and --quorum needs --resource: specify both or neither"
        )
    if arguments.resource is None:
        return
    try:
        resource.check_name(arguments.resource)
        resource.check_name(arguments.quorum, resource.MAX_QUORUM_LENGTH)
    except ValueError as error:
        raise PipelineError(str(error)) from None


def _placed(
    plan: Plan, replicas: Callable[[Reassignment], tuple[int, ...]]
) -> Iterator[resource.Placed]:
    return ((each.topic, each.number, replicas(each)) for each in plan.reassignments)


def _write(
    arguments: argparse.Namespace, path: Path, suffix: str, placed: Iterable[resource.Placed]
) -> None:
    if arguments.resource is None:
        _write_json(path, placed)
        return
    name = arguments.resource + suffix
    with completed(path) as unfinished, unfinished.open("w") as file:
        for document in resource.documents(name, arguments.quorum, placed):
            file.write(f"---\n{document}")
        if not file.tell():
            file.write("# Nothing has to move: there is no PartitionReassignment to apply.\n")


def _write_json(path: Path, placed: Iterable[resource.Placed]) -> None:
    """Write the format of `kafka-reassign-partitions`, one partition per line."""
    with completed(path) as unfinished, unfinished.open("w") as file:
        file.write('{"version":1,"partitions":[')
        for number, (topic, partition, replicas) in enumerate(placed):
            document: dict[str, Any] = {
                "topic": topic,
                "partition": partition,
                "replicas": list(replicas),
            }
            file.write(",\n" if number else "\n")
            file.write(json.dumps(document, separators=(",", ":")))
        file.write("\n]}\n")
