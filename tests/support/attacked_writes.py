"""Measures commit times while clients attack the leader, and compares them with a quiet period of the same run.

Owns the measuring. The tests choose the attack and the limits. The quiet value is measured before and after, so that other load on the
machine affects both.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from support.local_quorum import LocalNode

QUIET_FLOOR_MS = 4.0
"""In milliseconds: a lower quiet p99 counts as this one. The attacker runs on the same cores as the nodes, and for a time slice of the
scheduler (3 to 4 ms) it may delay a write that costs the nodes nothing."""


@dataclass
class Writer:
    """Commits one value after another, and records how long each took."""

    url: str
    client: httpx.Client
    failed: list[str] = field(default_factory=list)

    def measure(self, seconds: float) -> list[float]:
        """The duration of every commit, in milliseconds."""
        taken: list[float] = []
        end = time.monotonic() + seconds
        while time.monotonic() < end or len(taken) < 50:
            began = time.perf_counter()
            try:
                answer = self.client.put(self.url, json={"value": "v", "timeoutMs": 4000})
                if answer.is_error:
                    self.failed.append(answer.text)
            except httpx.HTTPError as error:
                self.failed.append(repr(error))
            taken.append((time.perf_counter() - began) * 1000)
            time.sleep(0.005)
        return taken


def p99(taken: Sequence[float]) -> float:
    return statistics.quantiles(taken, n=100)[-1]


@contextmanager
def attacked(name: str, node: LocalNode, certificate: Path | None = None) -> Iterator[None]:
    """Runs an attack until the end of the block. `certificate`: folder of the attacker's certificate, for TLS."""
    command = [sys.executable, "-m", "support.attacks", name, node.host, str(node.port)]
    shown = [] if certificate is None else [str(certificate)]
    process = subprocess.Popen(
        [*command, str(node.admin_port), *shown],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={"PYTHONPATH": ":".join(entry for entry in sys.path if entry)},
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"under way\n"
        yield
        assert process.poll() is None, "the attack has ended by itself"
    finally:
        process.stdin.close()
        process.stdout.close()
        process.kill()
        process.wait(20)


def resident_mib(node: LocalNode) -> int:
    assert node.process is not None
    status = Path(f"/proc/{node.process.pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if "VmRSS" in line) >> 10


@dataclass(frozen=True, slots=True)
class Measured:
    """Milliseconds of each commit without and with the attack, and the growth of the leader's memory."""

    quiet: list[float]
    attacked: list[float]
    grown_mib: int

    @property
    def ratio(self) -> float:
        """Quotient of the p99 under attack and the quiet p99."""
        return p99(self.attacked) / max(p99(self.quiet), QUIET_FLOOR_MS)

    def __str__(self) -> str:
        return (
            f"p99 {p99(self.quiet):.1f} ms, {p99(self.attacked):.1f} ms under it;"
            f" medians {statistics.median(self.quiet):.1f}, {statistics.median(self.attacked):.1f} ms;"
            f" {self.grown_mib} MiB more"
        )


def measure(
    name: str, leader: LocalNode, writer: Writer, certificate: Path | None = None
) -> Measured:
    """One round: quiet, attacked, quiet."""
    memory_mib = resident_mib(leader)
    writer.measure(0.5)
    before = writer.measure(1.5)
    with attacked(name, leader, certificate):
        during = writer.measure(3.0)
        grown_mib = resident_mib(leader) - memory_mib
    return Measured(before + writer.measure(1.5), during, grown_mib)
