"""A client that writes to a quorum of real processes continuously, and the check that no acknowledged record is lost."""

import threading
import time
from functools import partial

from support.local_quorum import LocalQuorum, wait_until


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
            self._quorum.put(f"n{number}", str(number))
            now = time.monotonic()
            self.longest_gap_seconds = max(self.longest_gap_seconds, now - last)
            last = now
            self.acknowledged.append(number)
            number += 1


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
