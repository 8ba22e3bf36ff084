"""A client that writes to a quorum of real processes continuously, and the check that no acknowledged record is lost."""

import threading
import time
from collections import deque
from functools import partial

import httpx

from support.local_quorum import MISDIRECTED, LocalQuorum, wait_until

_MOST_ASKED = 10


class Writer:
    """Commits numbered records until it is stopped; records which were acknowledged."""

    def __init__(self, quorum: LocalQuorum) -> None:
        self._quorum = quorum
        self._stop = threading.Event()
        self.acknowledged: list[int] = []
        self.longest_gap_seconds = 0.0
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Writer":
        self._thread.start()
        wait_until(lambda: len(self.acknowledged) > 5, "the writer writes")
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join()

    def more(self, count: int = 10) -> None:
        """Wait for some more acknowledged records."""
        goal = len(self.acknowledged) + count
        wait_until(
            lambda: len(self.acknowledged) >= goal or not self._thread.is_alive(),
            f"{count} more records",
        )
        assert self._thread.is_alive(), "the writer has failed"

    def _run(self) -> None:
        number, last = 0, time.monotonic()
        while not self._stop.is_set():
            if not self._write(number):
                number += 1
                continue
            now = time.monotonic()
            self.longest_gap_seconds = max(self.longest_gap_seconds, now - last)
            last = now
            self.acknowledged.append(number)
            number += 1

    def _write(self, number: int) -> bool:
        """Whether it is acknowledged; here after any number of attempts."""
        self._quorum.put(f"n{number}", str(number))
        return True


class OneAttemptWriter(Writer):
    """Tries each write once. `failed`: every attempt that reached a node and was not carried out.

    It follows a node that names the leader, and tries the next node where there is no connection, as every client does: nothing was sent to
    be carried out then.
    """

    def __init__(self, quorum: LocalQuorum) -> None:
        super().__init__(quorum)
        self.failed: list[str] = []
        self.redirected = 0
        self.unconnected = 0
        self._leader_id = quorum.wait_leader()

    def _write(self, number: int) -> bool:
        nodes = self._quorum.nodes
        others = [each for each in nodes if each != self._leader_id]
        pending, asked = deque([self._leader_id, *others]), 0
        while pending and asked < _MOST_ASKED:
            node, asked = nodes[pending.popleft()], asked + 1
            body = {"value": str(number), "timeoutMs": 5000}
            try:
                answer = self._quorum.client.put(
                    f"{node.admin_url}/v1/configs/topic/t/n{number}", json=body
                )
            except httpx.ConnectError:
                self.unconnected += 1
                continue
            except httpx.HTTPError as error:
                self.failed.append(f"{number} to node {node.id}: {error!r}")
                return False
            if answer.status_code == MISDIRECTED:
                self.redirected += 1
                pending.appendleft(answer.json()["leaderId"])
                continue
            if answer.is_success:
                self._leader_id = node.id
                return True
            self.failed.append(f"{number} to node {node.id}: {answer.status_code} {answer.text}")
            return False
        self.failed.append(f"{number}: no node takes it")
        return False


def assert_nothing_lost(quorum: LocalQuorum, acknowledged: list[int]) -> None:
    """Every acknowledged record is in every replica's own log, and all logs agree."""
    logs = []
    end_offset = quorum.put("end", "end")["endOffset"]

    def has_everything(node_id: int) -> bool:
        return bool(quorum.local(node_id)["highWatermark"] >= end_offset)

    for node_id in quorum.nodes:
        wait_until(partial(has_everything, node_id), f"node {node_id} has everything")
        logs.append(list(quorum.log_records(node_id)))
    shortest = min(len(log) for log in logs)
    assert all(log[:shortest] == logs[0][:shortest] for log in logs)
    for log in logs:
        found = {r["fields"]["name"] for r in log if r["type"] == "ConfigRecord"}
        missing = [n for n in acknowledged if f"n{n}" not in found]
        assert missing == []
