"""Sends linearizable reads to every node in turn and detects stale ones.

A process of its own: `python -m support.workload.checker --url ... --acknowledgements FILE --reads
FILE`. Before each read it takes in what the writer's file holds: all of that was acknowledged before
the read began, so the read has to see it. Counts what it can prove at once; the exact verdict over
reads and log together is `judgement`'s.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

from support.workload import history
from support.workload.arguments import Bounds, bounds_of, now_ms, parser, target_of
from support.workload.target import Answer, Target
from support.workload.writer import Journal

_PATH = (
    f"/v1/configs/{history.RESOURCE_TYPE}/{history.RESOURCE_NAME}/{history.NAME}"
    "?consistency=linearizable"
)


@dataclass(slots=True)
class Known:
    """The records that were acknowledged before the next read begins."""

    number: int = 0
    offset: int = -1

    def learn(self, events: list[history.Event]) -> None:
        for event in events:
            if isinstance(event, history.Acknowledged):
                self.number = max(self.number, event.number)
                self.offset = max(self.offset, event.offset)


def is_stale(read: history.Read, known: Known) -> bool:
    """Whether the read misses a record that was acknowledged before it began."""
    if read.value is None:
        return known.offset >= 0
    return read.end_offset <= known.offset


def read_once(target: Target, path: str = _PATH) -> history.Read | history.ReadFailed:
    """One read on the next node; a key that does not exist yet is read as None."""
    target.turn()
    url = target.url
    start_ms = now_ms()
    outcome = target.call("GET", path)
    end_ms = now_ms()
    if isinstance(outcome, Answer) and outcome.ok:
        value, offset = str(outcome.body["value"]), int(outcome.body["offset"])
        return history.Read(value, offset, start_ms, end_ms, url)
    if isinstance(outcome, Answer) and outcome.body.get("code") == "NOT_FOUND":
        return history.Read(None, -1, start_ms, end_ms, url)
    return history.ReadFailed(start_ms, end_ms, url, outcome.error)


def check(target: Target, tail: history.Tail, journal: Journal, bounds: Bounds) -> int:
    """Read until the end; returns the number of stale reads."""
    known, stale = Known(), 0
    while not bounds.over:
        known.learn(tail.new_events())
        event = read_once(target)
        journal.add(event)
        if isinstance(event, history.Read) and is_stale(event, known):
            stale += 1
            print(f"stale: {event} although {known} was acknowledged before", file=sys.stderr)
        bounds.count()
        bounds.pace()
    return stale


def main() -> int:
    arguments_parser = parser(__doc__ or "")
    arguments_parser.add_argument("--reads", type=Path, required=True, help="where reads go")
    arguments = arguments_parser.parse_args()
    target = target_of(arguments)
    journal = Journal(arguments.reads)
    bounds = bounds_of(arguments)
    try:
        stale = check(target, history.Tail(arguments.acknowledgements), journal, bounds)
    finally:
        journal.close()
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
