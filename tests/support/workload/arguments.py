"""The command line of writer and checker, and their end conditions."""

import argparse
import os
import signal
import time
from pathlib import Path
from types import FrameType

from support.workload.target import Target


def parser(description: str) -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--url", action="append", required=True, help="admin API; may be repeated")
    made.add_argument("--acknowledgements", type=Path, required=True, help="the writer's file")
    made.add_argument("--max-seconds", type=float, default=3600.0)
    made.add_argument("--max-count", type=int, default=1_000_000)
    made.add_argument("--interval-ms", type=float, default=20.0)
    made.add_argument("--timeout-ms", type=int, default=1000)
    made.add_argument("--token-file", type=Path, help="read again when a token is refused")
    made.add_argument("--authorities", type=Path, help="whom to trust; read for each connection")
    return made


def target_of(arguments: argparse.Namespace) -> Target:
    """The server gives up a little before the client, so that most outcomes arrive as answers."""
    return Target(
        arguments.url,
        token=os.environ.get("METADATAQUORUM_TOKEN"),
        token_file=arguments.token_file,
        authorities=arguments.authorities,
        timeout_ms=arguments.timeout_ms + 250,
    )


class Bounds:
    """Ends a loop after a time, a count, SIGTERM, or the end of the parent process, whichever is first."""

    def __init__(self, *, max_seconds: float, max_count: int, interval_ms: float) -> None:
        self._deadline = time.monotonic() + max_seconds
        self._left = max_count
        self._interval_s = interval_ms / 1000
        self._due = time.monotonic()
        self._stopped = False
        self._parent = os.getppid()
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGINT, self._stop)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stopped = True

    @property
    def over(self) -> bool:
        # Left alone it would write into whatever quorum gets the same port next.
        orphaned = os.getppid() != self._parent
        late = time.monotonic() >= self._deadline
        return self._stopped or self._left <= 0 or late or orphaned

    def count(self) -> None:
        self._left -= 1

    def pace(self) -> None:
        """Wait for the next turn: a steady rate without catching up after a stall."""
        now = time.monotonic()
        self._due = max(self._due + self._interval_s, now)
        time.sleep(self._due - now)


def bounds_of(arguments: argparse.Namespace) -> Bounds:
    return Bounds(
        max_seconds=arguments.max_seconds,
        max_count=arguments.max_count,
        interval_ms=arguments.interval_ms,
    )


def now_ms() -> float:
    """The clock that the processes of one machine share."""
    return time.monotonic() * 1000
