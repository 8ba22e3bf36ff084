"""Concurrent clients: each writes and reads registers of the current groups on randomly chosen nodes.

A read is linearizable, and is sent to any node, leader or not. Owns how an outcome enters the history: done, certainly not done, or open.
Knows no faults.
"""

import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from support.linearizability.history import REGISTERS, Group, Operation
from support.workload.target import (
    MISDIRECTED,
    Answer,
    Lost,
    NotSent,
    Outcome,
    Target,
    surely_refused,
)

_NOTHING_DONE = {"NO_LEADER", "NOT_LEADER", "NOT_FORMED"}
"""Codes of a 503 that say that the write was not appended anywhere."""
_AVOID_SECONDS = 0.3


@dataclass(frozen=True, slots=True)
class ClientTimeouts:
    """How long a client waits for an answer; an impatient one leaves a node that failed it."""

    timeout_ms: int
    avoids: bool


IMPATIENT = ClientTimeouts(500, avoids=True)
PATIENT = ClientTimeouts(3000, avoids=False)
"""Waits for a frozen node until it continues, because its answer then is what is checked."""

RETURNING = ClientTimeouts(500, avoids=False)
"""Returns to a frozen node: its last request there is from after the writes of the next leader, unlike that of a patient client."""


@dataclass(slots=True)
class SharedState:
    """State that all clients share: the current groups, and the next client number."""

    groups: Sequence[Group] = ()
    _number: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def new_number(self) -> int:
        """The number of a new client."""
        with self._lock:
            self._number += 1
            return self._number


class Client(threading.Thread):
    """Performs one operation at a time, until it is stopped. `failure`: a bug of the test, not an outcome."""

    def __init__(
        self,
        shared: SharedState,
        nodes: dict[int, str],
        token: str,
        timeouts: ClientTimeouts,
        seed: int,
    ) -> None:
        super().__init__(daemon=True)
        self._shared = shared
        self._random = random.Random(seed)
        self._patience = timeouts
        self._targets = {
            node: Target([url], token=token, timeout_ms=timeouts.timeout_ms + 100, turns=1)
            for node, url in nodes.items()
        }
        self._nodes = {url: node for node, url in nodes.items()}
        self._avoided: dict[int, float] = dict.fromkeys(nodes, 0.0)
        self._number = shared.new_number()
        self._stopping = threading.Event()
        self.failure: BaseException | None = None

    def stop(self) -> None:
        """Begin no more operations."""
        self._stopping.set()

    def run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._act()
        except BaseException as error:
            self.failure = error
            raise
        finally:
            for target in self._targets.values():
                target.turn()

    def _act(self) -> None:
        groups = self._shared.groups
        if not groups:
            self._stopping.wait(0.005)
            return
        group, node = self._random.choice(groups), self._choose()
        luck = self._random.random()
        if luck < 0.4:
            done = self._write(group, node, both=luck < 0.1)
        else:
            done = self._read(group, node, both=luck < 0.55)
        if not done:
            self._avoided[node] = time.monotonic() + _AVOID_SECONDS
            self._stopping.wait(0.02)
        self._stopping.wait(self._random.random() * 0.006)

    def _choose(self) -> int:
        nodes = list(self._targets)
        if self._patience.avoids:
            now = time.monotonic()
            nodes = [node for node in nodes if self._avoided[node] < now] or nodes
        return self._random.choice(nodes)

    def _write(self, group: Group, node: int, *, both: bool) -> bool:
        registers = range(REGISTERS) if both else [self._random.randrange(REGISTERS)]
        values = {register: group.fresh_value() for register in registers}
        entries = [
            {
                "resourceType": "topic",
                "resourceName": group.name,
                "name": f"r{register}",
                "value": value,
            }
            for register, value in values.items()
        ]
        timeout_ms = self._patience.timeout_ms
        if both:
            body: dict[str, Any] = {"entries": entries, "timeoutMs": timeout_ms}
            call = lambda target: target.call("POST", "/v1/append", body)  # noqa: E731
        else:
            path = f"/v1/configs/topic/{group.name}/{entries[0]['name']}"
            body = {"value": entries[0]["value"], "timeoutMs": timeout_ms}
            call = lambda target: target.call("PUT", path, body)  # noqa: E731
        began, outcome, ended = self._call(node, call)
        if isinstance(outcome, Answer) and outcome.ok:
            group.add(Operation(self._number, node, values, {}, began, ended))
            return True
        if not certainly_failed(outcome):
            group.add(Operation(self._number, node, values, {}, began, ended, open=True))
            # The pending operation continues to the end: later operations are those of a new
            # client.
            self._number = self._shared.new_number()
        return False

    def _read(self, group: Group, node: int, *, both: bool) -> bool:
        how = f"consistency=linearizable&timeoutMs={self._patience.timeout_ms}"
        register = self._random.randrange(REGISTERS)
        if both:
            path = f"/v1/configs?prefix=topic/{group.name}/&{how}"
        else:
            path = f"/v1/configs/topic/{group.name}/r{register}?{how}"
        began, outcome, ended = self._call(node, lambda target: target.call("GET", path))
        found = values_read(outcome, None if both else register)
        if found is None:
            return False
        group.add(Operation(self._number, node, {}, found, began, ended))
        return True

    def _call(self, node: int, call: Callable[[Target], Outcome]) -> tuple[int, Outcome, int]:
        """The answer of the node, or of the leader that it names."""
        began = time.monotonic_ns()
        outcome = call(self._targets[node])
        if isinstance(outcome, Answer) and outcome.status == MISDIRECTED:
            leader = self._nodes.get(outcome.body["leaderUrl"], node)
            outcome = call(self._targets[leader])
        return began, outcome, time.monotonic_ns()


def certainly_failed(outcome: Outcome) -> bool:
    """True only if the write can never take effect; anything doubtful is an open operation."""
    refused = isinstance(outcome, Answer) and outcome.status == 503
    if refused and isinstance(outcome, Answer) and outcome.body.get("code") in _NOTHING_DONE:
        return True
    return surely_refused(outcome)


def values_read(outcome: Outcome, register: int | None) -> dict[int, str] | None:
    """The values of one register or of all; None for a failed read, which is ignored."""
    match outcome:
        case NotSent() | Lost():
            return None
        case Answer(status=404, body={"code": "NOT_FOUND"}) if register is not None:
            return {register: ""}
        case Answer(status=200, body=body) if register is not None:
            return {register: str(body["value"])}
        case Answer(status=200, body=body):
            entries = {entry["name"]: str(entry["value"]) for entry in body["entries"]}
            return {each: entries.get(f"r{each}", "") for each in range(REGISTERS)}
    return None
