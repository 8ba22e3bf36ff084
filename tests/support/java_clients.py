"""Stock clients in one Java process that reads one command per line (tests/interop/kafka/ClientShell.java).

The creator of `Clients` chooses the command line, local or elsewhere. Must not know what a test checks, except the check that tests with
numbered messages share: that no message was lost.
"""

import contextlib
import subprocess
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from support import stock_kafka
from support.local_quorum import wait_until

CLIENT_SHELL = "ClientShell"
START_SECONDS = 120.0


class ClientFailed(Exception):
    """A client answered `failed`; the message is its error and its output."""


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition as a client sees it; -1 without a leader."""

    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LoadResult:
    """The result of a load. `errors`: errors that a client did not recover from by itself."""

    acknowledged: int
    sent: int
    longest_gap_ms: int
    errors: str


class Clients:
    """One command at a time."""

    def __init__(self, command: Sequence[str], root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self._errors = (root / "clients").open("ab")
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._answers: deque[str] = deque()
        self._arrived = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._answer(START_SECONDS)

    @classmethod
    def here(cls, bootstrap: str, root: Path, *properties: Path) -> "Clients":
        """On this machine; `bootstrap` are the brokers. `properties`: a file for every client, such as who it is."""
        arguments = (bootstrap, *map(str, properties))
        return cls(stock_kafka.java(CLIENT_SHELL, *arguments, classes=compiled_shell()), root)

    def __call__(self, command: str, timeout_seconds: float = 90.0) -> str:
        """The answer to one command. Raises ClientFailed."""
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        return self._answer(timeout_seconds)

    def partitions(self, topic: str) -> dict[int, PartitionState]:
        """Every partition of a topic."""
        found = {}
        for text in self(f"describe {topic}").split():
            partition_id, _, state = text.partition(":")
            leader, replicas, isr = state.split("/")
            found[int(partition_id)] = PartitionState(int(leader), _ids(replicas), _ids(isr))
        return found

    def in_sync(self, topic: str) -> bool:
        """Whether every replica of every partition is in its ISR."""
        return all(set(p.isr) == set(p.replicas) for p in self.partitions(topic).values())

    def start_load(self, topic: str, per_second: int) -> None:
        """Numbered messages with acks=all and idempotence, until `stop_load`."""
        self(f"load {topic} {per_second}")
        self.wait_for_load(topic, 1)

    def wait_for_load(self, topic: str, more: int, timeout_seconds: float = 60.0) -> None:
        """Until so many more messages of the load on a topic are acknowledged than now."""
        wanted = self._acknowledged(topic) + more
        wait_until(
            lambda: self._acknowledged(topic) >= wanted,
            f"{more} more messages in {topic}",
            timeout_seconds,
        )

    def _acknowledged(self, topic: str) -> int:
        return int(self(f"progress {topic}").split()[0])

    def stop_load(self, topic: str) -> LoadResult:
        """Everything that was sent is acknowledged or given up."""
        acknowledged, sent, gap_ms, errors = self(f"stop {topic}", 150).split(" ", 3)
        return LoadResult(int(acknowledged), int(sent), int(gap_ms), errors.strip("{}"))

    def prove_nothing_lost(
        self, topic: str, group: str, timeout_seconds: float = 120.0
    ) -> LoadResult:
        """End the load; a consumer group reads every acknowledged message, exactly once and in the order of its partition."""
        result = self.stop_load(topic)
        assert not result.errors, "a client reported an error that it did not recover from"
        assert result.acknowledged == result.sent
        check = f"check {topic} {group} {int(timeout_seconds * 1000)}"
        missing, doubled, disordered, seen = self(check, timeout_seconds + 30).split()
        assert (missing, doubled, disordered) == ("0", "0", "0"), result
        assert int(seen) >= result.acknowledged > 0
        return result

    def close(self) -> None:
        """End the virtual machine."""
        self._process.kill()
        self._process.wait(10)
        self._reader.join(10)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        self._errors.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.append(line.strip())

    def _answer(self, timeout_seconds: float) -> str:
        def arrived() -> str | None:
            if not self._answers and self._process.poll() is not None:
                raise ClientFailed("the client process ended")
            return self._answers.popleft() if self._answers else None

        line = wait_until(arrived, "a client answers", timeout_seconds)
        word, _, rest = line.partition(" ")
        if word != "ok":
            raise ClientFailed(rest)
        return rest


def compiled_shell() -> Path:
    """The folder of the compiled client, made once per version of its source."""
    return stock_kafka.compiled(stock_kafka.SOURCES / f"{CLIENT_SHELL}.java")


def _ids(text: str) -> tuple[int, ...]:
    return tuple(int(each) for each in text.split(",") if each)
