"""One process of stock Kafka in a folder of its own: started, killed, terminated."""

import signal
import subprocess
from pathlib import Path
from typing import ClassVar

from support import stock_kafka


class JavaProcess:
    """`properties`: its configuration, a file in the folder."""

    root: Path
    process: subprocess.Popen[bytes] | None
    properties: ClassVar[str]
    prefix: tuple[str, ...] = ()
    """Of its command line."""

    @property
    def output(self) -> str:
        """Everything it has printed, over all its starts."""
        return (self.root / "output").read_text()

    @property
    def is_running(self) -> bool:
        """Whether the process lives."""
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """Start the process; returns at once."""
        assert not self.is_running, "already running"
        config = str(self.root / self.properties)
        with (self.root / "output").open("ab") as output:
            command = stock_kafka.java(stock_kafka.SERVER, config, heap_mb=256)
            self.process = subprocess.Popen([*self.prefix, *command], stdout=output, stderr=output)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the running process."""
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        """kill -9, and wait for the end."""
        self.signal(signal.SIGKILL)
        assert self.process is not None
        self.process.wait(30)

    def terminate(self, timeout_seconds: float = 60) -> int:
        """SIGTERM: a controller hands leadership over, a broker shuts down in order; waits for it, returns the exit code."""
        self.signal(signal.SIGTERM)
        assert self.process is not None
        return self.process.wait(timeout_seconds)
