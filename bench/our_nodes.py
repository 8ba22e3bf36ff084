"""MetadataQuorum's nodes: three `quorum-node` processes, formed through the admin API, in clear text or with mutual TLS.

Default settings with two exceptions, because all load goes to one address: the leader stays the leader when snapshots are due, and one
address may have more connections.
"""

import ssl
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from contender import MEMBERS, Cluster, kafka_probe, python
from kafka_client import Address, await_leader

from support.local_quorum import LocalQuorum, wait_until
from support.tls_quorum import TlsQuorum, client_context

STEADY_LEADER = {"quorum.snapshot.handover": "false"}
MANY_CONNECTIONS = {
    # Here all clients and members share one address: more connections than the defaults allow.
    "max.connections": "8192",
    "max.connections.per.ip": "8192",
}


DEFAULT_POLL_MS = 5000


class OurCluster(Cluster):
    """Members 0 to 2 are nodes 1 to 3."""

    name = "metadataquorum"
    fault_window_seconds = 3.5
    properties: ClassVar[Mapping[str, str]] = {**STEADY_LEADER, **MANY_CONNECTIONS}

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.quorum = self.make_quorum()

    def make_quorum(self) -> LocalQuorum:
        """Create the files of the nodes."""
        return LocalQuorum(self.directory, properties=dict(self.properties))

    def tls_folder(self) -> Path | None:
        """Folder with a client's certificate; None in clear text."""
        return None

    def tls(self) -> ssl.SSLContext | None:
        """Of a client; None in clear text."""
        folder = self.tls_folder()
        return None if folder is None else client_context(folder, folder / "ca.crt")

    @property
    def cluster_id(self) -> str:
        """Cluster id of all three."""
        return self.quorum.cluster_id

    def addresses(self) -> list[Address]:
        """Kafka-protocol listeners."""
        return [("127.0.0.1", node.port) for node in self.quorum.nodes.values()]

    def create(self) -> None:
        for member in MEMBERS:
            self.launch(member)
        self.quorum.form()
        self.await_whole()

    def launch(self, member: int) -> None:
        node = self.quorum.nodes[member + 1]
        node.start()
        assert isinstance(node.process, subprocess.Popen)
        self.processes[member] = node.process

    def command(self, member: int) -> list[str]:
        raise NotImplementedError("nodes are started by LocalQuorum")

    def stop(self) -> None:
        super().stop()
        self.quorum.close()

    def leader(self) -> int:
        return await_leader(self.addresses(), tls=self.tls())[0]

    def await_whole(self) -> None:
        def whole() -> bool:
            voters = self.quorum.describe()["voters"]
            return len(voters) == len(MEMBERS) and all(voter["caughtUp"] for voter in voters)

        wait_until(whole, "all voters have caught up")

    def load_command(self, clients: int, seconds: float, warmup: float) -> list[str]:
        host, port = self.addresses()[self.leader()]
        options = ["--seconds", str(seconds), "--warmup", str(warmup)]
        if (folder := self.tls_folder()) is not None:
            options += ["--tls", str(folder)]
        return python(
            "kafka_load.py", "--address", f"{host}:{port}", "--clients", str(clients), *options
        )

    def probe_command(self, seconds: float, output: Path) -> list[str]:
        return kafka_probe(self.addresses(), seconds, output, self.tls_folder())


class OurTlsCluster(OurCluster):
    """The same with mutual TLS on both ports of every node; clients present an administrator's certificate."""

    properties: ClassVar[Mapping[str, str]] = {
        **OurCluster.properties,
        # The tests of rotations read the files much more often.
        "quorum.files.poll.ms": str(DEFAULT_POLL_MS),
    }

    def make_quorum(self) -> LocalQuorum:
        return TlsQuorum(self.directory, properties=dict(self.properties))

    def tls_folder(self) -> Path | None:
        assert isinstance(self.quorum, TlsQuorum)
        return self.quorum.folder("admin")
