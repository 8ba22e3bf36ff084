"""The workload on a quorum: starts writer and checker as processes, stops them, and checks their records."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from support.kind_env.quorum import Quorum
from support.kind_env.waiting import wait_for
from support.workload import history
from support.workload.evaluation import Verdict, judge, longest_gap_ms
from support.workload.replica_log import read_replica_log

_TESTS = Path(__file__).resolve().parents[2]
_END_TIMEOUT_S = 10.0


class Load:
    """One writer and one checker outside the cluster, and their two files in `directory`."""

    def __init__(
        self, quorum: Quorum, url: str, directory: Path, *, max_seconds: float = 3600
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.acknowledgements = directory / "acknowledgements.jsonl"
        self.reads = directory / "reads.jsonl"
        self._token_file = directory / "token"
        self.authorities = directory / "authorities.pem" if url.startswith("https:") else None
        self._quorum = quorum
        self.url = url
        self._directory = directory
        self._max_seconds = max_seconds
        self._processes: list[subprocess.Popen[bytes]] = []
        self._events: list[history.Event] = []
        self._tail = history.Tail(self.acknowledgements)

    def start(self) -> None:
        """Start both; returns when the first record was acknowledged."""
        self.renew_token()
        self.renew_trust()
        self._launch("writer", "--interval-ms", "20")
        self._launch("checker", "--interval-ms", "50", "--reads", str(self.reads))
        wait_for("the first acknowledged record", self.acknowledged, timeout_s=30, seen=self.last)

    def renew_token(self) -> None:
        """Add the current token of the quorum's Secret for both."""
        before = self._token_file.read_text().split() if self._token_file.exists() else []
        tokens = dict.fromkeys([*before, self._quorum.token()])
        fresh = self._token_file.with_suffix(".new")
        fresh.write_text("\n".join(tokens))
        fresh.replace(self._token_file)

    def renew_trust(self) -> None:
        """Make both trust the current authorities of the quorum. Without any, the earlier ones are kept."""
        authorities_text = self._quorum.authorities() if self.authorities is not None else ""
        if self.authorities is not None and "BEGIN CERTIFICATE" in authorities_text:
            fresh = self.authorities.with_suffix(".new")
            fresh.write_text(authorities_text)
            fresh.replace(self.authorities)

    def _launch(self, program: str, *options: str) -> None:
        command = [sys.executable, "-m", f"support.workload.{program}", "--url", self.url]
        command += ["--acknowledgements", str(self.acknowledgements), *options]
        command += ["--max-seconds", str(self._max_seconds)]
        command += ["--token-file", str(self._token_file)]
        if self.authorities is not None:
            command += ["--authorities", str(self.authorities)]
        environment = {**os.environ, "PYTHONPATH": str(_TESTS)}
        with open(self._directory / f"{program}.log", "wb") as log:
            process = subprocess.Popen(
                command, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        self._processes.append(process)

    def events(self) -> list[history.Event]:
        """The writer's records so far."""
        self._events += self._tail.new_events()
        return self._events

    def acknowledged(self) -> int:
        return sum(isinstance(event, history.Acknowledged) for event in self.events())

    def failed(self) -> list[history.Event]:
        """Attempts that a node has answered with an error, and those without an answer. Not: without a connection, so nothing was sent."""
        return [
            event
            for event in self.events()
            if isinstance(event, history.Unknown)
            or (isinstance(event, history.Refused) and event.error[:1].isdigit())
        ]

    def last(self) -> history.Event | None:
        events = self.events()
        return events[-1] if events else None

    def wait_for_acknowledgement(self, *, timeout_s: float) -> float:
        """Seconds until a write that began after this call was acknowledged."""
        begun_ms = time.monotonic() * 1000

        def probe() -> float | None:
            for event in reversed(self.events()):
                if event.end_ms < begun_ms:
                    return None
                if isinstance(event, history.Acknowledged) and event.start_ms > begun_ms:
                    return (event.end_ms - begun_ms) / 1000
            return None

        return wait_for("an acknowledged record", probe, timeout_s=timeout_s, seen=self.last)

    def wait_for_amount(self, at_least: int, *, timeout_s: float) -> None:
        """Wait until that many records were acknowledged and that many reads answered."""

        def enough() -> bool:
            if not self.reads.exists():
                return False  # the reader has not started yet
            answered = sum(isinstance(event, history.Read) for event in history.load(self.reads))
            return answered >= at_least and self.acknowledged() >= at_least

        wait_for(
            f"{at_least} records and reads", enough, timeout_s=timeout_s, seen=self.last, poll_s=1.0
        )

    def longest_gap_s(self, start_ms: float, end_ms: float) -> float:
        """Longest time without an acknowledgement within the window."""
        return longest_gap_ms(self.events(), start_ms=start_ms, end_ms=end_ms) / 1000

    def stop(self) -> None:
        """Stop both; their files are kept. Can be repeated."""
        for process in self._processes:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self._processes:
            try:
                process.wait(_END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()

    def verdict(
        self, pods: dict[str, str] | None = None, *, recoveries: int = 0, alters: bool = False
    ) -> Verdict:
        """Check the records against the log of every voter, read from its pod.

        `pods`: name → pod, where it must not be the voters of a confirmed description. `recoveries`: of a lost quorum,
        that a person has confirmed.
        """
        self.stop()
        chosen = voter_pods(self._quorum) if pods is None else pods
        logs = [
            read_replica_log(name, lambda path, pod=pod: self._quorum.fetch_from(pod, path))  # type: ignore[misc]
            for name, pod in chosen.items()
        ]
        return judge(
            history.load(self.acknowledgements),
            history.load(self.reads) if self.reads.exists() else [],
            logs,
            recoveries=recoveries,
            alters=alters,
        )


def voter_pods(quorum: Quorum) -> dict[str, str]:
    """The pod of every voter. Fails if a voter has none, because its log can't be checked."""
    described = wait_for("a confirmed description", quorum.describe, timeout_s=30)
    return {
        f"voter {voter.id} ({voter.uuid})": quorum.pod_of(voter.id, voter.uuid)
        for voter in described.voters
    }
