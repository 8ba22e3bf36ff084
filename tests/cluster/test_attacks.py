"""Commits while somebody without a token does what costs the leader most: their p99 stays near its quiet value.

The quiet value is measured in the same run, before and after, so that a busy machine counts on both sides.
"""

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from support.attacks import ATTACKS
from support.local_quorum import TOKEN, LocalNode, LocalQuorum, wait_until

SHORT = ("posts", "log-reads", "unfinished", "many-voters")
"""The others are in the long set."""
MAX_RATIO = 5.0
QUIET_FLOOR_MS = 12.0
"""A quiet p99 below it is an ordinary one: five times as much is nothing that a client would notice."""
RECORDS = 10_000
MAX_MEMORY_MIB = 200


@dataclass
class Writer:
    """Commits one value after another, and notes how long each took."""

    url: str
    client: httpx.Client
    failed: list[str] = field(default_factory=list)

    def measure(self, seconds: float) -> list[float]:
        """Milliseconds of every commit."""
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


def p99(taken: list[float]) -> float:
    return statistics.quantiles(taken, n=100)[-1]


@pytest.fixture(scope="module")
def quorum(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalQuorum]:
    with LocalQuorum(tmp_path_factory.mktemp("attacked"), 3) as made:
        made.form()
        for part in range(RECORDS // 1000):
            entries = [
                {
                    "resourceType": "topic",
                    "resourceName": "t",
                    "name": f"n{part}-{n}",
                    "value": "v" * 20,
                }
                for n in range(1000)
            ]
            answer = made.request(
                "POST", "/v1/append", json={"entries": entries, "timeoutMs": 5000}
            )
            assert answer is not None
            assert answer.is_success, answer.text
        yield made


@contextmanager
def attacked(name: str, node: LocalNode) -> Iterator[None]:
    command = [sys.executable, "-m", "support.attacks", name, node.host, str(node.port)]
    process = subprocess.Popen(
        [*command, str(node.admin_port)],
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


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [each if each in SHORT else pytest.param(each, marks=pytest.mark.long) for each in ATTACKS],
)
def test_commits_go_on_under(name: str, quorum: LocalQuorum) -> None:
    leader = quorum.leader
    epoch, memory_mib = quorum.describe()["leaderEpoch"], resident_mib(leader)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with httpx.Client(timeout=10, trust_env=False, verify=False, headers=headers) as client:
        writer = Writer(f"{leader.admin_url}/v1/configs/topic/t/z", client)
        writer.measure(0.5)
        before = writer.measure(1.5)
        with attacked(name, leader):
            during = writer.measure(3.0)
            grown_mib = resident_mib(leader) - memory_mib
        after = writer.measure(1.5)
    quiet_ms = max(p99(before + after), QUIET_FLOOR_MS)
    print(
        f"{name}: p99 {p99(before):.1f} ms, {p99(during):.1f} ms under it, {p99(after):.1f} ms after;"
        f" medians {statistics.median(before):.1f}, {statistics.median(during):.1f} ms; {grown_mib} MiB more"
    )
    assert writer.failed == []
    assert quorum.describe()["leaderEpoch"] == epoch, "no election"
    assert grown_mib < MAX_MEMORY_MIB
    assert p99(during) <= MAX_RATIO * quiet_ms


@pytest.mark.slow
def test_a_voter_that_restarts_during_a_flood_is_let_in(quorum: LocalQuorum) -> None:
    """Every place on the leader's port is taken, from the very address of the voter."""
    leader, follower = quorum.leader, quorum.followers[0]
    with attacked("idle", leader):
        wait_until(lambda: closed_for_a_limit(leader) > 0, "the leader closes connections")
        follower.kill()
        follower.start()
        quorum.wait_caught_up(follower.id)
        position = quorum.put("while", "it is flooded")["endOffset"]
        wait_until(
            lambda: quorum.local(follower.id)["highWatermark"] >= position, "the voter follows"
        )
        assert quorum.leader.id == leader.id


def closed_for_a_limit(node: LocalNode) -> float:
    text = httpx.get(f"{node.admin_url}/metrics", trust_env=False, verify=False, timeout=30).text
    lines = [line for line in text.splitlines() if "connections_closed_total{" in line]
    return sum(float(line.split()[-1]) for line in lines)
