"""A quorum whose nodes run on separate hosts, with fast queries that work during a fault."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpx

from support.linearizability.network import FilteredNetwork
from support.local_quorum import LocalNode, LocalQuorum, wait_until

LOOK_SECONDS = 0.5
PATIENCE_SECONDS = 200.0
"""Far above what anything takes, also on a machine that is busy with something else."""
QUICK = {
    "controller_quorum_election_timeout_ms": "400",
    "controller_quorum_election_backoff_max_ms": "300",
    "controller_quorum_fetch_timeout_ms": "700",
    "controller_quorum_request_timeout_ms": "700",
}
"""Timeouts that let a short test see many leaders."""


class FilteredQuorum(LocalQuorum):
    """Nodes 1..n, one on each host of the network; `module`: what they run."""

    def __init__(
        self,
        root: Path,
        network: FilteredNetwork,
        nodes: int,
        *,
        initial_voters: int,
        module: str = "quorum_node.server",
    ) -> None:
        self.network = network
        super().__init__(root, nodes, initial_voters=initial_voters, properties=QUICK)
        for node in self.nodes.values():
            node.module = module
        self.frozen: set[int] = set()

    def place_of(self, node_id: int) -> tuple[str, tuple[str, ...]]:
        return self.network.address(node_id), self.network.command(node_id)

    def form(self, timeout_seconds: float = PATIENCE_SECONDS) -> None:
        super().form(timeout_seconds)

    def look(self, node: LocalNode, path: str) -> dict[str, Any] | None:
        """A query with a short timeout; None without an answer."""
        if node.id in self.frozen or not node.is_running:
            return None
        try:
            answer = self.client.get(node.admin_url + path, timeout=LOOK_SECONDS)
        except httpx.TransportError:
            return None
        if not answer.is_success:
            return None
        found: dict[str, Any] = answer.json()
        return found

    def newest_leader(self, among: Iterable[LocalNode] | None = None) -> tuple[int, LocalNode]:
        """(epoch, leader) from the nodes' own descriptions; waits for one."""

        def find() -> tuple[int, LocalNode] | None:
            leaders = []
            for node in list(self.nodes.values()) if among is None else among:
                says = self.look(node, "/v1/node")
                if says is not None and says["role"] == "leader":
                    leaders.append((int(says["leaderEpoch"]), node))
            return max(leaders, key=lambda each: each[0], default=None)

        return wait_until(find, "some node leads", PATIENCE_SECONDS)

    def await_newer_leader(self, epoch: int, among: Iterable[LocalNode] | None = None) -> LocalNode:
        """A leader of a later epoch that has committed a record of it."""
        among = list(self.nodes.values()) if among is None else list(among)

        def find() -> LocalNode | None:
            newest, node = self.newest_leader(among)
            if newest <= epoch:
                return None
            quorum = self.look(node, "/v1/quorum")
            return node if quorum is not None and quorum["ownEpochCommitted"] else None

        return wait_until(find, f"a leader after epoch {epoch}", PATIENCE_SECONDS)

    def voters(self) -> list[LocalNode]:
        """Nodes of the newest leader's voter set."""
        _, leader = self.newest_leader()
        described = wait_until(lambda: self.look(leader, "/v1/quorum"), "the leader describes")
        return [self.nodes[voter["id"]] for voter in described["voters"]]

    def await_ready(self) -> None:
        """Wait until every node runs and is caught up."""
        for node in self.nodes.values():
            wait_until(
                lambda node=node: self.look(node, "/readyz") is not None,  # type: ignore[misc]
                f"node {node.id} is ready",
                PATIENCE_SECONDS,
            )
