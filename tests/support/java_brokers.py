"""Stock brokers on controllers of either kind: formatted, started, killed, terminated.

Every broker has its own directory and output file. Used by tests/interop, which check the results.
"""

import contextlib
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from quorum_node.fresh_uuid import fresh_uuid
from quorum_node.records.identity import uuid_text
from support.java_clients import Clients
from support.java_process import JavaProcess
from support.local_quorum import LocalQuorum, wait_until
from support.ports import free_ports

START_SECONDS = 120.0
FIRST_BROKER_ID = 101
SIGTERM_EXIT = 143
"""Exit code of a Java process that ended cleanly after a SIGTERM."""


@dataclass
class JavaBroker(JavaProcess):
    """One stock broker: its files, its port, and the process while there is one."""

    id: int
    root: Path
    port: int
    host: str = "127.0.0.1"
    prefix: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    properties = "broker.properties"

    def format(self, cluster_id: str, controllers: str, properties: dict[str, str]) -> None:
        """Write its configuration and the identity of its directory."""
        data = self.root / "data"
        data.mkdir(parents=True)
        listener = f"PLAINTEXT://{self.host}:{self.port}"
        pairs = {
            "node.id": str(self.id),
            "process.roles": "broker",
            "listeners": listener,
            "advertised.listeners": listener,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "controller.quorum.bootstrap.servers": controllers,
            "log.dirs": str(data),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "broker.heartbeat.interval.ms": "500",
            "num.network.threads": "1",
            "num.io.threads": "2",
            "background.threads": "2",
            "log.cleaner.enable": "false",
            **properties,
        }
        path = self.root / self.properties
        path.write_text("".join(f"{key}={value}\n" for key, value in pairs.items()))
        directory_id = uuid_text(fresh_uuid())
        meta = (
            f"version=1\ncluster.id={cluster_id}\nnode.id={self.id}\ndirectory.id={directory_id}\n"
        )
        (data / "meta.properties").write_text(meta)


class JavaBrokers:
    """Brokers 101.. on controllers that run somewhere. Use as a context manager: it ends every process."""

    def __init__(
        self,
        root: Path,
        cluster_id: str,
        controllers: Iterable[int | str],
        brokers: int,
        **properties: str,
    ) -> None:
        self.root = root
        servers = ",".join(
            each if isinstance(each, str) else f"127.0.0.1:{each}" for each in controllers
        )
        extra = {key.replace("_", "."): value for key, value in properties.items()}
        self.brokers = {
            broker_id: JavaBroker(
                broker_id, root / f"broker-{broker_id}", port, *self.place_of(broker_id)
            )
            for broker_id, port in enumerate(free_ports(brokers), FIRST_BROKER_ID)
        }
        for broker in self.brokers.values():
            broker.format(cluster_id, servers, {**extra, **self.properties_of(broker)})
        self._clients: Clients | None = None

    @classmethod
    def on(cls, quorum: LocalQuorum, root: Path, brokers: int, **properties: str) -> "JavaBrokers":
        """Brokers that know all nodes of a quorum of ours."""
        controllers = [f"{node.host}:{node.port}" for node in quorum.nodes.values()]
        return cls(root, quorum.cluster_id, controllers, brokers, **properties)

    def properties_of(self, broker: JavaBroker) -> dict[str, str]:
        """Additional properties of one broker."""
        return {}

    def place_of(self, broker_id: int) -> tuple[str, tuple[str, ...]]:
        """Where a broker runs: its address, and the prefix of its command line."""
        return "127.0.0.1", ()

    def __enter__(self) -> "JavaBrokers":
        return self

    def __exit__(self, *exc: object) -> None:
        if self._clients is not None:
            self._clients.close()
        for broker in self.brokers.values():
            if broker.is_running:
                with contextlib.suppress(ProcessLookupError):
                    broker.kill()

    @property
    def bootstrap(self) -> str:
        """Addresses of the brokers, whether they run or not."""
        return ",".join(f"{broker.host}:{broker.port}" for broker in self.brokers.values())

    @property
    def clients(self) -> Clients:
        """Stock clients, started on first use."""
        if self._clients is None:
            self._clients = Clients.here(self.bootstrap, self.root)
        return self._clients

    def start(self) -> None:
        """Start all; returns at once."""
        for broker in self.brokers.values():
            broker.start()

    def wait_for(self, ids: Iterable[int], timeout_seconds: float = START_SECONDS) -> None:
        """Until exactly these brokers are unfenced, as clients see it."""
        wanted = str(sorted(ids))
        wait_until(lambda: self.clients("brokers") == wanted, f"brokers {wanted}", timeout_seconds)
