"""Controllers of stock Kafka on loopback: formatted, started, killed, queried; and nodes of ours that join them.

Every controller has its own directory and output file below one root. Queries use the Kafka protocol, voter changes the stock tools. Used
by tests/interop, which check the results.
"""

import contextlib
import ssl
import subprocess
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from quorum_node.fresh_uuid import fresh_uuid
from quorum_node.image.resource_types import BROKER
from quorum_node.protocol.apis import INCREMENTAL_ALTER_CONFIGS
from quorum_node.protocol.configs import (
    AlterableConfig,
    AlterConfigsResource,
    ConfigOperation,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from quorum_node.protocol.describe import (
    DescribeQuorumResponsePartition,
)
from quorum_node.records.identity import uuid_text
from quorum_node.schema.schema import MalformedMessage
from support import stock_kafka
from support.java_process import JavaProcess
from support.local_quorum import LocalNode, wait_until
from support.one_request import ask
from support.ports import free_ports
from support.quorum_description import describe_quorum

LOG_DIRECTORY = "__cluster_metadata-0"
START_SECONDS = 120.0
Description = DescribeQuorumResponsePartition


@dataclass
class JavaController(JavaProcess):
    """One stock controller: its files, its port, and the process while there is one."""

    id: int
    root: Path
    port: int
    directory_id: str
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    properties = "controller.properties"

    @property
    def log_directory(self) -> Path:
        """Where its metadata log is."""
        return self.root / "data" / LOG_DIRECTORY


class JavaQuorum:
    """Stock controllers 1..n. Use as a context manager: it ends every process, ours included."""

    tls: ssl.SSLContext | None = None
    """The TLS context of requests to them; None: in clear text."""

    def security_of(self, node_id: int) -> dict[str, str]:
        """Security properties of a controller, stock or ours."""
        return {"listener.security.protocol.map": "CONTROLLER:PLAINTEXT"}

    def __init__(self, root: Path, controllers: int = 1, **properties: str) -> None:
        self.root = root
        self.cluster_id = uuid_text(fresh_uuid())
        self.properties = {key.replace("_", "."): value for key, value in properties.items()}
        self.nodes: dict[int, LocalNode] = {}
        self.client = httpx.Client(timeout=5.0, trust_env=False, verify=False)
        ports = free_ports(controllers)
        self.controllers = {
            index + 1: JavaController(
                index + 1, root / f"java-{index + 1}", port, uuid_text(fresh_uuid())
            )
            for index, port in enumerate(ports)
        }

    def __enter__(self) -> "JavaQuorum":
        return self

    def __exit__(self, *exc: object) -> None:
        everyone: Iterable[JavaController | LocalNode] = [
            *self.controllers.values(),
            *self.nodes.values(),
        ]
        for each in everyone:
            if each.process is not None and each.process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    each.process.kill()
                    each.process.wait(60)
        self.client.close()

    # -- stock controllers

    def start(self) -> None:
        """Format every directory, start every controller, wait for a leader that commits."""
        with ThreadPoolExecutor(2) as pool:
            for done in pool.map(self._format, self.controllers.values()):
                assert done.returncode == 0, done.stdout + done.stderr
        for controller in self.controllers.values():
            controller.start()
        self.describe(START_SECONDS)

    def _format(self, controller: JavaController) -> subprocess.CompletedProcess[str]:
        controller.root.mkdir(parents=True)
        listener = f"CONTROLLER://127.0.0.1:{controller.port}"
        properties = {
            "node.id": str(controller.id),
            "process.roles": "controller",
            "controller.listener.names": "CONTROLLER",
            "listeners": listener,
            "advertised.listeners": listener,
            **self.security_of(controller.id),
            "controller.quorum.bootstrap.servers": self.bootstrap,
            "log.dirs": str(controller.root / "data"),
            **self.properties,
        }
        path = controller.root / "controller.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        initial = ",".join(
            f"{each.id}@127.0.0.1:{each.port}:{each.directory_id}"
            for each in self.controllers.values()
        )
        arguments = ["format", "-c", str(path), "-t", self.cluster_id]
        return stock_kafka.run_tool(
            stock_kafka.STORAGE, *arguments, "--initial-controllers", initial
        )

    @property
    def bootstrap(self) -> str:
        """Addresses of the stock controllers, whether they run or not."""
        return ",".join(f"127.0.0.1:{each.port}" for each in self.controllers.values())

    def metadata_quorum(
        self, *arguments: str, config: Path | None = None, through: LocalNode | None = None
    ) -> str:
        """What kafka-metadata-quorum prints, asking stock controllers or a node; it must succeed."""
        running = [each.port for each in self.controllers.values() if each.is_running]
        ports = running if through is None else [through.port]
        options = ["--bootstrap-controller", ",".join(f"127.0.0.1:{port}" for port in ports)]
        if config is not None:
            options += ["--command-config", str(config)]
        done = stock_kafka.run_tool(stock_kafka.METADATA_QUORUM, *options, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def add_controller(self, node: LocalNode) -> None:
        """The stock tool makes a running node of ours a voter."""
        out = self.metadata_quorum("add-controller", config=node.root / "node.properties")
        assert f"Added controller {node.id}" in out

    def remove_controller(self, replica_id: int, directory_id: str) -> None:
        """The stock tool removes a voter."""
        key = ["--controller-id", str(replica_id), "--controller-directory-id", directory_id]
        self.metadata_quorum("remove-controller", *key)

    # # -- queries and writes, through the current leader

    def describe(self, timeout_seconds: float = 60.0) -> Description:
        """The quorum as its leader describes it; waits for a leader that has committed in its epoch."""

        def found() -> Description | None:
            for port in self._ports():
                answer = describe_quorum(("127.0.0.1", port), tls=self.tls)
                if answer is not None and answer.high_watermark > 0:
                    return answer
            return None

        return wait_until(found, "a leader that commits", timeout_seconds)

    def _ports(self) -> list[int]:
        everyone: list[JavaController | LocalNode] = [
            *self.controllers.values(),
            *self.nodes.values(),
        ]
        return [each.port for each in everyone if each.is_running]

    @property
    def leader_id(self) -> int:
        """Id of the leader."""
        return self.describe().leader_id

    @property
    def leader(self) -> JavaController:
        """The leader, which has to be a stock controller."""
        return self.controllers[self.leader_id]

    def voters(self) -> dict[int, str]:
        """Directory id by id."""
        voters = self.describe().current_voters
        return {each.replica_id: uuid_text(each.replica_directory_id) for each in voters}

    def put(self, name: str, value: str, timeout_seconds: float = 60.0) -> None:
        """Commit one config of all brokers; retried until it is acknowledged."""
        change = AlterableConfig(name=name, config_operation=ConfigOperation.SET, value=value)
        resource = AlterConfigsResource(resource_type=BROKER, resource_name="", configs=(change,))
        body = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)

        def acknowledged() -> bool:
            for port in self._ports():
                try:
                    answer = ask(
                        ("127.0.0.1", port), INCREMENTAL_ALTER_CONFIGS, 1, body, 3.0, self.tls
                    )
                except (OSError, MalformedMessage):
                    continue
                assert isinstance(answer, IncrementalAlterConfigsResponse)
                if [each.error_code for each in answer.responses] == [0]:
                    return True
            return False

        wait_until(acknowledged, f"{name} is committed", timeout_seconds)

    # -- nodes of ours

    def add_node(self, node_id: int, **overrides: str) -> LocalNode:
        """A node of ours with an empty directory, not started, that knows the stock controllers."""
        port, admin_port = free_ports(2)
        node = LocalNode(node_id, self.root / f"node-{node_id}-{port}", port, admin_port)
        node.root.mkdir(parents=True)
        properties = {
            "node.id": str(node_id),
            "process.roles": "controller",
            "controller.listener.names": "CONTROLLER",
            "cluster.id": self.cluster_id,
            "listeners": f"CONTROLLER://127.0.0.1:{port}",
            "advertised.listeners": f"CONTROLLER://127.0.0.1:{port}",
            "metadata.log.dir": str(node.data_dir),
            "controller.quorum.bootstrap.servers": self.bootstrap,
            "admin.listener": f"http://127.0.0.1:{admin_port}",
            "admin.advertised.listener": f"http://127.0.0.1:{admin_port}",
            "metadata.log.reserve.bytes": "1048576",
            **self.security_of(node_id),
            **{key.replace("_", "."): value for key, value in overrides.items()},
        }
        text = "".join(f"{key}={value}\n" for key, value in properties.items())
        (node.root / "node.properties").write_text(text)
        self.nodes[node_id] = node
        return node

    def get(self, node: LocalNode, path: str) -> httpx.Response | None:
        """One answer of a node's admin API; None when it does not answer."""
        try:
            return self.client.get(node.admin_url + path)
        except httpx.TransportError:
            return None

    def local(self, node: LocalNode) -> dict[str, Any]:
        """The description of a node of ours; waits until it answers."""

        def found() -> dict[str, Any] | None:
            answer = self.get(node, "/v1/node")
            return answer.json() if answer is not None and answer.is_success else None

        return wait_until(found, f"node {node.id} answers")

    def snapshot(self, node: LocalNode) -> int:
        """Make a node of ours write a snapshot; returns its end offset."""
        answer = self.client.post(node.admin_url + "/v1/snapshot", timeout=60)
        assert answer.is_success, answer.text
        end_offset = answer.json()["snapshot"]["endOffset"]
        assert isinstance(end_offset, int)
        return end_offset

    def wait_ready(self, node: LocalNode) -> None:
        """Until a node of ours says that it is caught up."""

        def ready() -> bool:
            answer = self.get(node, "/readyz")
            return answer is not None and answer.status_code == 200

        wait_until(ready, f"node {node.id} is ready")

    def wait_value(self, node: LocalNode, name: str, value: str) -> None:
        """Until a node of ours has replayed a value."""

        def has_it() -> bool:
            path = f"/v1/configs/broker/-/{name}?consistency=local"
            answer = self.get(node, path)
            return answer is not None and answer.is_success and answer.json()["value"] == value

        wait_until(has_it, f"node {node.id} has {name}={value}")


def log_bytes(log_directory: Path) -> bytes:
    """The whole log of a replica, its segments one after the other."""
    return b"".join(path.read_bytes() for path in sorted(log_directory.glob("*.log")))


def assert_same_log(one: Path, other: Path) -> int:
    """Checks that both logs are the same up to the shorter one's length, which is returned."""
    first, second = log_bytes(one), log_bytes(other)
    shared = min(len(first), len(second))
    assert first[:shared] == second[:shared], f"{one} and {other} differ"
    return shared
