"""A node with a sampling profiler, which records the position of its main thread at every millisecond of CPU time.

    python -m sampled_node --config node.properties     SIGUSR1 starts (anew), SIGUSR2 writes samples.json beside it

Sampling, because a tracing profiler makes small functions look several times as expensive as they are. A sample counts for the part of
the program whose code is innermost, including C code that it calls (a system call, a checksum).
"""

import json
import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from types import FrameType

from quorum_node.server.process.main import main

INTERVAL_SECONDS = 0.001
PARTS = (
    ("protocol/", "encode and decode requests"),
    ("<generated", "encode and decode requests"),
    ("records/", "encode and decode records"),
    ("storage/", "append and read the log"),
    ("raft/", "Raft core"),
    ("controller/", "decide (controller)"),
    ("server/controller/", "decide (controller)"),
    ("server/partition/applier", "apply"),
    ("state/", "apply"),
    ("image/", "apply"),
    ("server/wire/", "translate messages"),
    ("server/listener/", "sockets"),
    ("server/peers/", "sockets"),
    ("server/transport/", "sockets"),
    ("server/partition/flusher", "hand over fsyncs"),
    ("server/partition/driver", "driver and host"),
    ("server/partition/replica_host", "driver and host"),
    ("server/observing/tally", "metrics"),
    ("server/observing/metrics", "metrics"),
    ("server/observing/commit_times", "metrics"),
    ("server/observing/request_times", "metrics"),
    ("server/", "queues and routing of requests"),
)
"""Where a file belongs, by the first that fits."""
_PACKAGE = f"{os.sep}quorum_node{os.sep}"


class Samples:
    """Counts by part since the last start."""

    def __init__(self, output: Path) -> None:
        self._output = output
        self._counts: Counter[str] = Counter()
        self._began = self._began_cpu = 0.0

    def install(self) -> None:
        """Install the signal handlers."""
        signal.signal(signal.SIGUSR1, self._start)
        signal.signal(signal.SIGUSR2, self._write)
        signal.signal(signal.SIGPROF, self._sample)

    def _start(self, number: int, frame: FrameType | None) -> None:
        self._counts.clear()
        self._began, self._began_cpu = time.monotonic(), time.thread_time()
        signal.setitimer(signal.ITIMER_PROF, INTERVAL_SECONDS, INTERVAL_SECONDS)

    def _sample(self, number: int, frame: FrameType | None) -> None:
        self._counts[part_of(frame)] += 1

    def _write(self, number: int, frame: FrameType | None) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        busy = time.thread_time() - self._began_cpu
        found = {"busy": busy / (time.monotonic() - self._began), "samples": dict(self._counts)}
        temporary = self._output.with_suffix(".new")
        temporary.write_text(json.dumps(found))
        temporary.rename(self._output)


def part_of(frame: FrameType | None) -> str:
    """The part whose code is innermost."""
    while frame is not None:
        name = frame.f_code.co_filename
        place = name.rpartition(_PACKAGE)[2] if _PACKAGE in name else name
        if _PACKAGE in name or name.startswith("<generated"):
            return next((part for prefix, part in PARTS if place.startswith(prefix)), "other")
        frame = frame.f_back
    return "event loop"


if __name__ == "__main__":
    config = Path(sys.argv[sys.argv.index("--config") + 1])
    Samples(config.with_name("samples.json")).install()
    sys.exit(main())
