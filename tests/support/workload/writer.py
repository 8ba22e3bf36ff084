"""Commits numbered records one at a time, and records the outcomes.

A process of its own: `python -m support.workload.writer --url ... --acknowledgements FILE`. A write
without a sure outcome is repeated with the same number until it is acknowledged, so at its end every
number from the first to the last has been acknowledged. Each acknowledgement is in the file before
the next write begins. What the history means is judged elsewhere (`judgement`).
"""

import os
import sys
import time
from pathlib import Path
from typing import IO

from support.workload import history
from support.workload.arguments import Bounds, bounds_of, now_ms, parser, target_of
from support.workload.target import Answer, Target, surely_refused

_RETRY_PAUSE_S = 0.02
_SYNC_EVERY_MS = 1000.0


class Journal:
    """Appends events; each is written at once, and synced within a second."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: IO[str] = open(path, "a")  # noqa: SIM115  closed by `close`
        self._synced_ms = now_ms()

    def add(self, event: history.Event) -> None:
        self._file.write(history.encode_event(event))
        self._file.flush()
        if now_ms() - self._synced_ms > _SYNC_EVERY_MS:
            os.fdatasync(self._file.fileno())
            self._synced_ms = now_ms()

    def close(self) -> None:
        self.add(history.Finished(now_ms()))
        os.fsync(self._file.fileno())
        self._file.close()


def write_once(target: Target, number: int, attempt: int, timeout_ms: int) -> history.Attempted:
    """One attempt and its outcome."""
    path = f"/v1/configs/{history.RESOURCE_TYPE}/{history.RESOURCE_NAME}/{history.NAME}"
    body = {"value": history.encode_value(number, attempt), "timeoutMs": timeout_ms}
    start_ms = now_ms()
    outcome = target.call("PUT", path, body)
    end_ms = now_ms()
    if isinstance(outcome, Answer) and outcome.ok:
        offset, epoch = int(outcome.body["offset"]), int(outcome.body["epoch"])
        return history.Acknowledged(number, attempt, offset, epoch, start_ms, end_ms)
    kind = history.Refused if surely_refused(outcome) else history.Unknown
    return kind(number, attempt, start_ms, end_ms, outcome.error)


def write_numbers(target: Target, journal: Journal, bounds: Bounds, timeout_ms: int) -> int:
    """Write the numbers; returns the number of acknowledged ones."""
    number, attempt, acknowledged = 1, 1, 0
    while not bounds.over:
        event = write_once(target, number, attempt, timeout_ms)
        journal.add(event)
        if isinstance(event, history.Acknowledged):
            number, attempt, acknowledged = number + 1, 1, acknowledged + 1
            bounds.count()
            bounds.pace()
        else:
            attempt += 1
            time.sleep(_RETRY_PAUSE_S)  # not a wait for anything: spares a node that is down
    return acknowledged


def main() -> int:
    arguments = parser(__doc__ or "").parse_args()
    target = target_of(arguments)
    journal = Journal(arguments.acknowledgements)
    bounds = bounds_of(arguments)
    try:
        acknowledged = write_numbers(target, journal, bounds, arguments.timeout_ms)
    finally:
        journal.close()
    print(f"{acknowledged} records acknowledged", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
