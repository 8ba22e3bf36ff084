"""A node that measures the turns of its event loop, in CPU time of the loop's thread, which other work on the machine hardly changes.

    python -m timed_node --config node.properties     SIGUSR1 starts (anew), SIGUSR2 writes turns.json beside it

A turn is everything between two passes of a callback that schedules itself for the next turn. The loop does not sleep while it is measured.
"""

import asyncio
import json
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from quorum_node.server.process.main import main


class Turns:
    """The longest turn since the last start."""

    def __init__(self, output: Path) -> None:
        self._output = output
        self._longest_seconds = self._turn_began = 0.0
        self._count = 0
        self._measuring = False

    def install(self) -> None:
        """Install the signal handlers."""
        signal.signal(signal.SIGUSR1, self._start)
        signal.signal(signal.SIGUSR2, self._write)

    def _start(self, number: int, frame: FrameType | None) -> None:
        self._longest_seconds, self._count = 0.0, 0
        self._turn_began = time.thread_time()
        if not self._measuring:
            self._measuring = True
            asyncio.get_running_loop().call_soon_threadsafe(self._pass)

    def _pass(self) -> None:
        now = time.thread_time()
        self._longest_seconds = max(self._longest_seconds, now - self._turn_began)
        self._turn_began = now
        self._count += 1
        if self._measuring:
            asyncio.get_running_loop().call_soon(self._pass)

    def _write(self, number: int, frame: FrameType | None) -> None:
        self._measuring = False
        found = {"longest_ms": 1e3 * self._longest_seconds, "turns": self._count}
        temporary = self._output.with_suffix(".new")
        temporary.write_text(json.dumps(found))
        temporary.rename(self._output)


if __name__ == "__main__":
    config = Path(sys.argv[sys.argv.index("--config") + 1])
    Turns(config.with_name("turns.json")).install()
    sys.exit(main())
