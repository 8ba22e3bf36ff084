"""Real `quorum-node` processes on loopback: started, killed, frozen, waited for.

Every node has its own directory, ports and log file below one root. Waits are always for a condition, observed through the admin API,
with a deadline. Used by cluster and interop tests, the benchmark and demos; knows only the node's command line and API.
"""

import contextlib
import copy
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar

import httpx

from quorum_node.fresh_uuid import fresh_uuid
from quorum_node.records.identity import uuid_text
from support.certified_members import UNCERTIFIED, CertifiedMembers, needs_certificates
from support.node_process import NodeProcess
from support.ports import free_ports

T = TypeVar("T")
NODE_MODULE = "quorum_node.server"
DEFAULT_WAIT_SECONDS = 120.0
_POLL_SECONDS = 0.04
TOKEN = "test-token"
MISDIRECTED = 421
"""The node does not lead; `leaderId` names the leader."""


_RETRIED = {
    "NO_LEADER",
    "NOT_LEADER",
    "CHANGE_PENDING",
    "OWN_EPOCH_NOT_COMMITTED",
    "NOT_CAUGHT_UP",
    "LEADERSHIP_LOST",
    "SHUTTING_DOWN",
    "STORAGE_FAILED",
    "TIMED_OUT",
}
"""Errors that a user would retry; repeating a put or a voter change is harmless."""

_NOBODY_LEADS = {"NO_LEADER", "NOT_LEADER", "OWN_EPOCH_NOT_COMMITTED"}
_LEADERLESS = (409, MISDIRECTED, 503)
"""Statuses of these errors. Nothing was carried out."""


class WaitTimeout(AssertionError):
    """A condition did not come true in time."""


def wait_until(
    check: Callable[[], T | None], what: str, timeout_seconds: float = DEFAULT_WAIT_SECONDS
) -> T:
    """The first value of `check` that is neither None nor False."""
    deadline = time.monotonic() + timeout_seconds
    while True:
        value = check()
        if value is not None and value is not False:
            return value
        if time.monotonic() > deadline:
            raise WaitTimeout(f"not within {timeout_seconds} s: {what}")
        time.sleep(_POLL_SECONDS)


def _start_cold(prefix: list[str], module: str, arguments: list[str], log: Path) -> NodeProcess:
    command = [*prefix, sys.executable, "-m", module, *arguments]
    with log.open("ab") as output:
        return subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=_environment()
        )


NodeStart = Callable[[list[str], str, list[str], Path], NodeProcess]
start_process: NodeStart = _start_cold
"""How nodes are started: prefix of the command line, module, arguments, log file."""


@dataclass
class LocalNode:
    """One node: its files, ports, and the process while there is one."""

    id: int
    root: Path
    port: int
    admin_port: int
    overrides: dict[str, str] = field(default_factory=dict)
    module: str = NODE_MODULE
    host: str = "127.0.0.1"
    prefix: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    """Command-line arguments besides configuration and overrides."""
    scheme: str = "http"
    process: "NodeProcess | None" = None
    data_dir: Path = field(init=False)

    def __post_init__(self) -> None:
        self.data_dir = self.root / "data"

    @property
    def admin_url(self) -> str:
        """Base of the admin API."""
        return f"{self.scheme}://{self.host}:{self.admin_port}"

    @property
    def log_text(self) -> str:
        """Everything the node has logged, over all its starts."""
        path = self.root / "node.log"
        return path.read_text() if path.exists() else ""

    @property
    def termination_message(self) -> str:
        """The termination message file, empty when there is none."""
        path = self.root / "termination.json"
        return path.read_text() if path.exists() else ""

    def start(self) -> None:
        """Start the process; returns at once."""
        assert self.process is None or self.process.poll() is not None, "already running"
        arguments = ["--config", str(self.root / "node.properties"), *self.arguments]
        for key, value in self.overrides.items():
            arguments += ["--override", f"{key}={value}"]
        log = self.root / "node.log"
        self.process = start_process(list(self.prefix), self.module, arguments, log)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the running process."""
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        """kill -9, and wait for the end."""
        self.signal(signal.SIGKILL)
        self.wait_exit()

    def terminate(self) -> int:
        """SIGTERM, and wait; returns the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait_exit()

    def freeze(self) -> None:
        """SIGSTOP."""
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        self.signal(signal.SIGCONT)

    def wait_exit(self, timeout_seconds: float = DEFAULT_WAIT_SECONDS) -> int:
        """The exit code."""
        assert self.process is not None
        return self.process.wait(timeout_seconds)

    @property
    def is_running(self) -> bool:
        """Whether the process lives."""
        return self.process is not None and self.process.poll() is None


class LocalQuorum:
    """Nodes 1..n; node 1 is the founder. Use as a context manager: it ends every process."""

    def __init__(
        self,
        root: Path,
        nodes: int = 3,
        *,
        initial_voters: int | None = None,
        first_id: int = 1,
        properties: dict[str, str] | None = None,
        **common: str,
    ) -> None:
        self.root = root
        self.cluster_id = uuid_text(fresh_uuid())
        self.founder_uuid = uuid_text(fresh_uuid())
        self.founder_id = first_id
        self.initial_voters = nodes if initial_voters is None else initial_voters
        given = common | (properties or {})
        self.common = {key.replace("_", "."): value for key, value in given.items()}
        self.client = self.make_client()
        root.mkdir(parents=True, exist_ok=True)
        (root / "token").write_text(TOKEN + "\n")
        certified = self.makes_certificates and needs_certificates(self.common)
        self._members = CertifiedMembers(root / "members") if certified else UNCERTIFIED
        ports = free_ports(2 * nodes)
        self.nodes: dict[int, LocalNode] = {}
        self._bootstrap = ",".join(
            f"{self.place_of(first_id + index)[0]}:{self._members.port_of(port)}"
            for index, port in enumerate(ports[:nodes])
        )
        self.partition: int | None = None
        """The quorum partition of the nodes that all calls concern; None: the first."""
        for index in range(nodes):
            self._make(first_id + index, ports[index], ports[nodes + index])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def at(self, partition: int) -> "LocalQuorum":
        """The same nodes and processes, with calls that concern another of their quorum partitions."""
        view = copy.copy(self)
        view.partition = partition
        return view

    def close(self) -> None:
        """End every process this object started."""
        for node in self.nodes.values():
            if node.process is not None and node.process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    node.process.kill()
                    node.process.wait(60)
        self.client.close()

    scheme = "http"
    """Of the admin API."""

    def make_client(self) -> httpx.Client:
        """The client that sends the requests."""
        return httpx.Client(
            timeout=5.0,
            trust_env=False,
            verify=False,  # plain HTTP, and reading certificates takes a while
            headers={"Authorization": f"Bearer {TOKEN}"},
        )

    makes_certificates = True
    """Whether members of a quorum with an authorizer are given certificates here."""

    def properties_of(self, node: LocalNode) -> dict[str, str]:
        """Additional properties of this node."""
        return self._members.properties_of(node.id, node.host, node.port)

    def place_of(self, node_id: int) -> tuple[str, tuple[str, ...]]:
        """Where a node runs: its address, and the prefix of its command line."""
        return "127.0.0.1", ()

    def add_node(self, node_id: int, **overrides: str) -> LocalNode:
        """One more node, not started, with an empty directory and free ports."""
        port, admin_port = free_ports(2)
        return self._make(node_id, port, admin_port, overrides)

    def _make(
        self, node_id: int, port: int, admin_port: int, overrides: dict[str, str] | None = None
    ) -> LocalNode:
        number = sum(1 for node in self.nodes.values() if node.id == node_id)
        root = self.root / f"node-{node_id}-{number}-{port}"
        root.mkdir(parents=True)
        host, prefix = self.place_of(node_id)
        node = LocalNode(
            node_id, root, port, admin_port, host=host, prefix=prefix, scheme=self.scheme
        )
        node.overrides = {k.replace("_", "."): v for k, v in (overrides or {}).items()}
        properties = {
            "node.id": str(node_id),
            "cluster.id": self.cluster_id,
            "listeners": f"CONTROLLER://{host}:{port}",
            "advertised.listeners": f"CONTROLLER://{host}:{port}",
            "metadata.log.dir": str(node.data_dir),
            "controller.quorum.bootstrap.servers": self._bootstrap,
            "admin.listener": node.admin_url,
            "admin.advertised.listener": node.admin_url,
            "admin.token.file": str(self.root / "token"),
            "formation.founder.id": str(self.founder_id),
            "formation.founder.uuid": self.founder_uuid,
            "formation.initial.voters": str(self.initial_voters),
            "failure.latch.file": str(root / "failed"),
            "termination.message.file": str(root / "termination.json"),
            "metadata.log.reserve.bytes": "1048576",
            **self.properties_of(node),
            **self.common,
        }
        text = "".join(f"{key}={value}\n" for key, value in properties.items())
        (root / "node.properties").write_text(text)
        self.nodes[node_id] = node
        return node

    # -- forming

    def form(self, timeout_seconds: float = DEFAULT_WAIT_SECONDS) -> None:
        """Start everything, make all initial voters voters, wait until the quorum has formed."""
        for node in self.nodes.values():
            if not node.is_running:
                node.start()
        self.wait_leader(timeout_seconds)
        wanted = [n.id for n in self.nodes.values()][: self.initial_voters]
        for node_id in wanted:
            if node_id not in self.voter_ids():
                self.add_voter(node_id)
        wait_until(lambda: self.describe()["formed"], "the quorum has formed", timeout_seconds)

    def add_voter(self, node_id: int, timeout_ms: int = 10_000, **fields: Any) -> dict[str, Any]:
        """Make a running node a voter, through the admin API; retries while it makes sense."""
        node = self.nodes[node_id]
        uuid = self.local(node_id)["replicaUuid"]
        body = {
            "id": node_id,
            "uuid": uuid,
            "endpoints": [
                {"name": "CONTROLLER", "host": node.host, "port": self._members.port_of(node.port)},
                {"name": "ADMIN", "host": node.host, "port": node.admin_port},
            ],
            "timeoutMs": timeout_ms,
            **fields,
        }
        return self._retried("POST", "/v1/voters", done="DUPLICATE_VOTER", json=body)

    def remove_voter(self, node_id: int, uuid: str, timeout_ms: int = 10_000) -> dict[str, Any]:
        """Remove a replica key from the voters."""
        path = f"/v1/voters/{node_id}/{uuid}?timeoutMs={timeout_ms}"
        return self._retried("DELETE", path, done="VOTER_NOT_FOUND")

    def _retried(
        self, method: str, path: str, done: str | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        """The leader's answer; errors that a user would retry are retried.

        `done`: the error with which a call is refused if an earlier attempt succeeded, but its answer was late.
        """

        def attempt() -> dict[str, Any] | None:
            answer = self.request(method, path, **kwargs)
            code = answer.json().get("code") if answer is not None and answer.is_error else None
            if answer is None or code in _RETRIED:
                return None
            assert answer.is_success or code == done, (
                f"{method} {path}: {answer.status_code} {answer.text}"
            )
            found: dict[str, Any] = answer.json()
            return found

        return wait_until(attempt, f"{method} {path} succeeds")

    # # -- queries

    def answered(
        self, method: str, path: str, node_id: int | None = None, **kwargs: Any
    ) -> httpx.Response:
        """As `request`, of a quorum in which somebody answers. Without `node_id` it waits for a leader that answers: where there is
        none, as during an election, nothing was carried out."""

        def led() -> httpx.Response | None:
            answer = self.request(method, path, node_id, **kwargs)
            if answer is None and method == "GET":
                return None  # late on a busy machine; reading again changes nothing
            assert answer is not None
            refused = answer.json().get("code") if answer.status_code in _LEADERLESS else None
            return answer if node_id is not None or refused not in _NOBODY_LEADS else None

        return wait_until(led, f"a leader answers {method} {path}")

    def request(
        self, method: str, path: str, node_id: int | None = None, **kwargs: Any
    ) -> httpx.Response | None:
        """One call to one node (or to the first that answers, and the leader if that is another one);
        None when none does."""
        requested = [self.nodes[node_id]] if node_id else list(self.nodes.values())
        if self.partition is not None:
            path += f"{'&' if '?' in path else '?'}partition={self.partition}"
        for node in requested:
            answer = self._call(node, method, path, **kwargs)
            if answer is None:
                continue
            if answer.status_code == MISDIRECTED and node_id is None:
                leader = self.nodes[answer.json()["leaderId"]]
                return self._call(leader, method, path, **kwargs) or answer
            return answer
        return None

    def _call(
        self, node: LocalNode, method: str, path: str, **kwargs: Any
    ) -> httpx.Response | None:
        if not node.is_running:
            return None
        try:
            return self.client.request(method, node.admin_url + path, **kwargs)
        except httpx.TransportError:
            return None

    def local(self, node_id: int) -> dict[str, Any]:
        """A node's description of itself; waits until it answers."""

        def ask() -> dict[str, Any] | None:
            answer = self.request("GET", "/v1/node", node_id)
            return answer.json() if answer is not None and answer.is_success else None

        return wait_until(ask, f"node {node_id} answers")

    def describe(self) -> dict[str, Any]:
        """The quorum, confirmed by a majority; waits for it."""

        def ask() -> dict[str, Any] | None:
            for node in self.nodes.values():
                answer = self.request("GET", "/v1/quorum?confirmed=true", node.id)
                if answer is not None and answer.is_success:
                    found: dict[str, Any] = answer.json()
                    return found
            return None

        return wait_until(ask, "a majority confirms a leader")

    def wait_leader(self, timeout_seconds: float = DEFAULT_WAIT_SECONDS) -> int:
        """Id of a confirmed leader."""

        def ask() -> int | None:
            for node in self.nodes.values():
                answer = self.request("GET", "/v1/quorum?confirmed=true&timeoutMs=500", node.id)
                if answer is not None and answer.is_success:
                    return int(answer.json()["leaderId"])
            return None

        return wait_until(ask, "a leader", timeout_seconds)

    @property
    def leader(self) -> LocalNode:
        """The confirmed leader."""
        return self.nodes[self.wait_leader()]

    @property
    def followers(self) -> list[LocalNode]:
        """Every other running node."""
        leader_id = self.leader.id
        return [n for n in self.nodes.values() if n.id != leader_id and n.is_running]

    def voter_ids(self) -> list[int]:
        """Ids of the current voters."""
        return [voter["id"] for voter in self.describe()["voters"]]

    def put(
        self, name: str, value: str, topic: str = "t", timeout_ms: int = 5000
    ) -> dict[str, Any]:
        """Commit one value; retried until it is acknowledged."""
        body = {"value": value, "timeoutMs": timeout_ms}
        return self._retried("PUT", f"/v1/configs/topic/{topic}/{name}", json=body)

    def append(self, values: dict[str, str], topic: str = "t") -> None:
        """Commit values in one batch; retried until it is acknowledged."""
        at = {"resourceType": "topic", "resourceName": topic}
        entries = [{**at, "name": name, "value": value} for name, value in values.items()]
        self._retried("POST", "/v1/append", json={"entries": entries, "timeoutMs": 5000})

    def get(self, name: str, topic: str = "t") -> str | None:
        """A linearizable read."""

        def ask() -> tuple[str | None] | None:
            answer = self.request("GET", f"/v1/configs/topic/{topic}/{name}")
            if answer is None or answer.status_code >= 500:
                return None
            return (None,) if answer.status_code == 404 else (answer.json()["value"],)

        return wait_until(ask, f"a linearizable read of {name}")[0]

    def log_records(self, node_id: int) -> Iterator[dict[str, Any]]:
        """Every committed record of one node's own log."""
        offset = 0
        while True:
            path = f"/v1/log?fromOffset={offset}&maxRecords=5000"
            answer = wait_until(lambda path=path: self.request("GET", path, node_id), "its log")  # type: ignore[misc]
            assert answer.is_success, answer.text
            page = answer.json()
            yield from page["records"]
            if not page["records"]:
                return
            offset = page["nextOffset"]

    def registered(self) -> dict[int, int]:
        """Controllers by id, and their ports, from the last registrations in the log."""
        return {
            int(record["fields"]["controllerId"]): int(record["fields"]["endPoints"][0]["port"])
            for record in self.log_records(self.leader.id)
            if record["type"] == "RegisterControllerRecord"
        }

    def wait_caught_up(self, node_id: int) -> None:
        """Until a node is ready."""

        def ready() -> bool:
            answer = self.request("GET", "/readyz", node_id)
            return answer is not None and answer.status_code == 200

        wait_until(ready, f"node {node_id} is ready")


def _environment() -> dict[str, str]:
    """The environment of a node: ours, and the import path of this interpreter."""
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return {**os.environ, "PYTHONPATH": path}
