"""What tests use of the process of a node, however it was started."""

import signal
from typing import Protocol


class NodeProcess(Protocol):
    """What is used of `subprocess.Popen`."""

    pid: int

    def poll(self) -> int | None:
        """The exit code, None while it runs."""

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once it has ended."""

    def send_signal(self, number: signal.Signals) -> None:
        """Send it, if it still runs."""

    def kill(self) -> None:
        """SIGKILL."""
