"""One run of a quorum: clients run continuously, faults are injected one after another, and histories are recorded.

Every fault has new groups of registers, used from before the fault until after the recovery: each group is a history with a fault in it.
Owns that order; knows neither outcomes nor the checker.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from support.linearizability.clients import IMPATIENT, PATIENT, Client, ClientTimeouts, SharedState
from support.linearizability.faults import FaultKind
from support.linearizability.history import Fault, Group
from support.linearizability.network import FilteredNetwork
from support.linearizability.quorum import PATIENCE_SECONDS, FilteredQuorum
from support.local_quorum import TOKEN, wait_until

VOTERS = 3
GROUPS_PER_FAULT = 3
BEFORE, DURING, AFTER = 8, 4, 8
"""Operations that every history has at least before, during (or during the recovery) and after."""
_LONGEST_FAULT_SECONDS = 0.5
"""How long a fault stays after it has shown its effect, at most."""
_DRAIN_SECONDS = 60.0


class FaultRun:
    """A running quorum with clients. A context manager: it ends all processes."""

    def __init__(
        self,
        root: Path,
        name: str,
        seed: int,
        *,
        nodes: int = VOTERS + 1,
        module: str = "quorum_node.server",
        timeouts: Sequence[ClientTimeouts] = (IMPATIENT,) * 4 + (PATIENT,) * 2,
    ) -> None:
        self.name = name
        self.groups: list[Group] = []
        self._rng = random.Random(seed)
        self._shared = SharedState()
        self._network = FilteredNetwork(range(1, nodes + 1))
        self._network.__enter__()
        try:
            self.quorum = FilteredQuorum(
                root, self._network, nodes, initial_voters=VOTERS, module=module
            )
        except BaseException:
            self._network.__exit__()
            raise
        urls = {node.id: node.admin_url for node in self.quorum.nodes.values()}
        self._clients = [
            Client(self._shared, urls, TOKEN, each, self._rng.randrange(1 << 30))
            for each in timeouts
        ]

    def __enter__(self) -> "FaultRun":
        try:
            self.quorum.form()
            for client in self._clients:
                client.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        self._shared.groups = ()
        for client in self._clients:
            client.stop()
        deadline = time.monotonic() + _DRAIN_SECONDS
        for client in self._clients:
            if client.is_alive():
                client.join(max(0.0, deadline - time.monotonic()))
        self.quorum.close()
        self._network.__exit__()

    def drain(self) -> None:
        """Start no more operations and wait for those in flight, so that every history is complete."""
        self._shared.groups = ()
        for client in self._clients:
            client.stop()
        for client in self._clients:
            client.join(_DRAIN_SECONDS)
            assert not client.is_alive(), "a client did not end"
            assert client.failure is None, f"a client failed: {client.failure!r}"

    def strike(self, kind: FaultKind) -> list[Group]:
        """Let clients use new groups, inject a fault, remove it, and wait until they continue."""
        number = len(self.groups) // GROUPS_PER_FAULT
        groups = [
            Group(f"{self.name}-{number}-{kind.__name__}-{index}")
            for index in range(GROUPS_PER_FAULT)
        ]
        self.groups += groups
        self._shared.groups = groups
        self.quorum.await_ready()
        self._await_operations(groups, BEFORE, 0)
        began = time.monotonic_ns()
        undo = kind(self.quorum, self._rng)
        self._wait_after_fault(groups, began)
        undo()
        ended = time.monotonic_ns()
        for group in groups:
            group.faults.append(Fault(kind.__name__, began, ended))
        self._await_operations(groups, AFTER, ended)
        return groups

    def reads_by_node(self) -> Counter[int]:
        """Completed reads."""
        return Counter(each.node for group in self.groups for each in group.operations if each.read)

    def _wait_after_fault(self, groups: list[Group], began: int) -> None:
        """Keep the fault for some time; no operation has to succeed."""
        deadline = time.monotonic() + _LONGEST_FAULT_SECONDS
        least = time.monotonic() + _LONGEST_FAULT_SECONDS / 2
        while time.monotonic() < deadline:
            enough = all(group.completed(after=began) >= DURING for group in groups)
            if enough and time.monotonic() > least:
                return
            threading.Event().wait(0.02)

    def _await_operations(self, groups: list[Group], count: int, after: int) -> None:
        wait_until(
            lambda: all(group.completed(after=after) >= count for group in groups),
            f"{count} operations on {', '.join(group.name for group in groups)}",
            PATIENCE_SECONDS,
        )
