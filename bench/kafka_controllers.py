"""Apache Kafka's KRaft controllers for comparison: three controllers without brokers, driven by Kafka's AdminClient, in
clear text or with mutual TLS.

A write is one incrementalAlterConfigs call; with linger 25 ms (Kafka's default) and with 0.
"""

import hashlib
import re
import signal
import subprocess
import time
from pathlib import Path

from certificates import Certificates
from contender import BENCH, CLOSED_LOOP, MEMBERS, Cluster, kafka_probe
from kafka_client import Address, await_leader

from support import stock_kafka
from support.client_properties import by_certificate

FIRST_PORT = 24390
FIRST_TLS_PORT = 24470
"""Clusters with and without TLS run at the same time."""
HEAP_MB = 512


class KafkaCluster(Cluster):
    """Kafka with its defaults, except for the append linger when one is given. `tls`: mutual, on the only listener."""

    fault_window_seconds = 9.0

    def __init__(
        self,
        directory: Path,
        linger_ms: int | None = None,
        properties: dict[str, str] | None = None,
        *,
        tls: bool = False,
    ) -> None:
        super().__init__(directory)
        self.certificates = Certificates(directory / "tls") if tls else None
        self.tls = self.certificates.context() if self.certificates is not None else None
        self._first_port = FIRST_TLS_PORT if tls else FIRST_PORT
        self.properties = {
            key.replace("_", "."): value for key, value in (properties or {}).items()
        }
        self.linger_ms = linger_ms
        self.name = "kafka" if linger_ms is None else f"kafka-linger-{linger_ms}"
        self.cluster_id = ""
        self.heap_mb = HEAP_MB

    def addresses(self) -> list[Address]:
        """Controller listeners."""
        return [("127.0.0.1", self._first_port + member) for member in MEMBERS]

    def create(self) -> None:
        self.cluster_id, *directory_ids = (self.random_uuid() for _ in range(4))
        initial = ",".join(
            f"{member + 1}@127.0.0.1:{self._first_port + member}:{directory_ids[member]}"
            for member in MEMBERS
        )
        for member in MEMBERS:
            config = self.write_config(member)
            arguments = ["format", "-c", str(config), "-t", self.cluster_id]
            done = stock_kafka.run_tool(
                stock_kafka.STORAGE, *arguments, "--initial-controllers", initial
            )
            if done.returncode != 0:
                raise RuntimeError(done.stdout + done.stderr)
        for member in MEMBERS:
            self.launch(member)
        self.await_whole()

    def random_uuid(self) -> str:
        """A random UUID in Kafka's format."""
        return stock_kafka.run_tool(stock_kafka.STORAGE, "random-uuid").stdout.strip()

    def write_config(self, member: int) -> Path:
        """Write the properties file of a controller."""
        folder = self.directory / f"member-{member}"
        folder.mkdir(parents=True, exist_ok=True)
        listener = f"CONTROLLER://127.0.0.1:{self._first_port + member}"
        properties = {
            "node.id": str(member + 1),
            "process.roles": "controller",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": self.bootstrap(),
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
            "listeners": listener,
            "advertised.listeners": listener,
            "log.dirs": str(folder / "data"),
            **self.tls_properties(member),
            **self.properties,
        }
        if self.linger_ms is not None:
            properties["controller.quorum.append.linger.ms"] = str(self.linger_ms)
        path = folder / "controller.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        return path

    def tls_properties(self, member: int) -> dict[str, str]:
        """Properties that require a certificate of every client and controller; none in clear text."""
        if self.certificates is None:
            return {}
        folder, prefix = self.certificates.member(member), "listener.name.controller.ssl"
        return {
            "listener.security.protocol.map": "CONTROLLER:SSL",
            f"{prefix}.keystore.type": "PEM",
            f"{prefix}.keystore.location": str(folder / "keystore.pem"),
            f"{prefix}.truststore.type": "PEM",
            f"{prefix}.truststore.location": str(folder / "ca.crt"),
            f"{prefix}.client.auth": "required",
        }

    def bootstrap(self) -> str:
        """All controller listeners, separated by commas."""
        return ",".join(f"{host}:{port}" for host, port in self.addresses())

    def command(self, member: int) -> list[str]:
        config = self.directory / f"member-{member}" / "controller.properties"
        return stock_kafka.java(
            *("-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35"),
            *(stock_kafka.SERVER, str(config)),
            heap_mb=self.heap_mb,
            short_lived=False,
        )

    def leader(self) -> int:
        return await_leader(self.addresses(), tls=self.tls)[0]

    def await_whole(self) -> None:
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            _, found = await_leader(self.addresses(), 60, self.tls)
            ends = [voter.log_end_offset for voter in found.current_voters]
            if len(ends) == len(MEMBERS) and max(ends) - min(ends) <= 5:
                return
            time.sleep(0.1)
        raise TimeoutError("Kafka is not whole")

    def stop(self) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
        super().stop()

    def load_command(self, clients: int, seconds: float, warmup: float) -> list[str]:
        # A JVM client needs a longer warm-up than the others to be measured fairly.
        arguments = [self.bootstrap(), str(clients), str(seconds), str(max(warmup, 3.0)), "256"]
        if self.certificates is not None:
            config = self.certificates.client / "client.properties"
            config.write_text(by_certificate(self.certificates.client))
            arguments.append(str(config))
        return stock_kafka.java(
            "ConfigLoad", *arguments, heap_mb=1024, short_lived=False, classes=load_classes(),
        )  # fmt: skip

    def probe_command(self, seconds: float, output: Path) -> list[str]:
        folder = None if self.certificates is None else self.certificates.client
        return kafka_probe(self.addresses(), seconds, output, folder)


class LoneKafka(KafkaCluster):
    """A quorum of one controller."""

    def addresses(self) -> list[Address]:
        return super().addresses()[:1]

    def create(self) -> None:
        self.cluster_id = self.random_uuid()
        arguments = ["format", "-c", str(self.write_config(0)), "-t", self.cluster_id]
        done = stock_kafka.run_tool(stock_kafka.STORAGE, *arguments, "--standalone")
        if done.returncode != 0:
            raise RuntimeError(done.stdout + done.stderr)
        self.launch(0)
        self.leader()

    @property
    def log_folder(self) -> Path:
        """Folder of its log."""
        return self.directory / "member-0" / "data" / "__cluster_metadata-0"


def live_heap_mb(pid: int) -> float:
    """Used heap of a controller directly after a garbage collection."""
    subprocess.run(["jcmd", str(pid), "GC.run"], check=True, capture_output=True, timeout=60)
    told = subprocess.run(
        ["jcmd", str(pid), "GC.heap_info"], check=True, capture_output=True, text=True, timeout=60
    )
    used = re.search(r"heap\s.*?used (\d+)K", told.stdout)
    if used is None:
        raise RuntimeError(f"no heap in {told.stdout[:300]}")
    return int(used[1]) * 1024 / 1e6


def load_classes() -> Path:
    """Classes of the compiled generator. Compiled with javac, so that the warm-up contains no compilation of sources."""
    sources = [BENCH / "kafka" / "ConfigLoad.java", CLOSED_LOOP]
    digest = hashlib.sha256(b"".join(each.read_bytes() for each in sources)).hexdigest()[:16]
    folder = stock_kafka.cache_directory() / "kafka" / f"classes-{digest}"
    if not folder.exists():
        compiler = [
            "javac",
            "-cp",
            f"{stock_kafka.jars()}/*",
            "-d",
            str(folder),
            *map(str, sources),
        ]
        subprocess.run(compiler, check=True, timeout=120)
    return folder
