"""Three local processes of one system, and the interface that the benchmark needs from every system.

Owns processes: starts, signals, CPU time. Must not know any system (`our_nodes.py`, `etcd_members.py`,
`kafka_controllers.py`).
"""

import json
import os
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

BENCH = Path(__file__).resolve().parent
CLOSED_LOOP = BENCH / "java" / "ClosedLoop.java"
"""Common source of the load generators in Java."""
MEMBERS = (0, 1, 2)
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far; 0 if it does not exist any more."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND


def resident_mb(pid: int) -> float:
    """Resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def run_json(command: Sequence[str], timeout_seconds: float) -> dict[str, Any]:
    """Runs a generator or prober to its end; its stdout is one JSON object."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_seconds)
    if done.returncode != 0:
        raise RuntimeError(f"{command[:3]}: {done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


class Cluster(ABC):
    """Three members of one system on loopback, data under `directory`."""

    name: str
    fault_window_seconds: float
    """Seconds of measurement after a signal: well above what this system needs."""
    freeze_window_seconds: float = 0.0
    """The same after a freeze, if that needs longer."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.processes: dict[int, subprocess.Popen[bytes]] = {}

    @abstractmethod
    def create(self) -> None:
        """Form a cluster from empty directories; returns when it commits."""

    @abstractmethod
    def command(self, member: int) -> list[str]:
        """The command line of a member."""

    @abstractmethod
    def leader(self) -> int:
        """The current leader; waits for one."""

    @abstractmethod
    def await_whole(self) -> None:
        """Wait until all members run and have caught up with the leader."""

    @abstractmethod
    def load_command(self, clients: int, seconds: float, warmup: float) -> list[str]:
        """Command of the load generator: a closed loop with one write in flight per client."""

    @abstractmethod
    def probe_command(self, seconds: float, output: Path) -> list[str]:
        """Command of the prober: writes to every member, prints "ready" after the first commit, and writes the times to a file."""

    def launch(self, member: int) -> None:
        """Start a member's process; its output goes to a file."""
        folder = self.directory / f"member-{member}"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "output").open("ab") as output:
            self.processes[member] = subprocess.Popen(
                self.command(member),
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    def window_seconds(self, fault: str) -> float:
        """How long commits are observed after this signal."""
        frozen = fault == "SIGSTOP" and self.freeze_window_seconds
        return self.freeze_window_seconds if frozen else self.fault_window_seconds

    def signal(self, member: int, number: signal.Signals) -> float:
        """Send a signal; returns the wall-clock time directly before."""
        now = time.time()
        self.processes[member].send_signal(number)
        return now

    def restart(self, member: int) -> None:
        """Wait for the end of a process that was killed or terminated, and start it again."""
        self.processes[member].wait(60)
        self.launch(member)

    def stop(self) -> None:
        """End the processes that this object started."""
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
        for process in self.processes.values():
            process.wait(30)

    def cpu_seconds(self) -> float:
        """CPU time of all members so far."""
        return sum(cpu_seconds(process.pid) for process in self.processes.values())

    def load(self, clients: int, seconds: float, warmup: float) -> dict[str, Any]:
        """Run the generator; adds the members' CPU time, warm-up included."""
        before, start = self.cpu_seconds(), time.monotonic()
        result = run_json(self.load_command(clients, seconds, warmup), seconds + warmup + 120)
        result["servers_cpu_share"] = (self.cpu_seconds() - before) / (time.monotonic() - start)
        result["clients"] = clients
        return result

    def start_probe(self, seconds: float) -> "Probe":
        """Start the prober and wait for its first commit."""
        output = self.directory / "commits.json"
        return Probe(self.probe_command(seconds, output), output)


class Probe:
    """A running prober. Its result is in a file, because a large result was lost in a pipe."""

    def __init__(self, command: Sequence[str], output: Path) -> None:
        output.unlink(missing_ok=True)
        self._output = output
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline().strip() != "ready":
            raise RuntimeError(f"prober: {self._process.communicate(timeout=10)}")

    def commits(self) -> list[float]:
        """Wait for its end; returns the times of commits, ascending, in seconds since 1970."""
        _, errors = self._process.communicate(timeout=120)
        if self._process.returncode != 0:
            raise RuntimeError(f"prober: {errors[-2000:]}")
        commits: list[float] = json.loads(self._output.read_text())["commits"]
        return commits


def python(script: str, *arguments: str) -> list[str]:
    """The command of one of the benchmark's scripts."""
    return [sys.executable, str(BENCH / script), *arguments]


def kafka_probe(
    addresses: Sequence[tuple[str, int]], seconds: float, output: Path, tls: Path | None = None
) -> list[str]:
    """The prober for systems with Kafka's protocol. `tls`: folder with its certificate."""
    listed = ",".join(f"{host}:{port}" for host, port in addresses)
    options = ["--seconds", str(seconds), "--output", str(output)]
    if tls is not None:
        options += ["--tls", str(tls)]
    return python("kafka_probe.py", "--addresses", listed, *options)
