"""Stock brokers on a quorum of ours, and stock clients that use them: started, killed, asked.

Every broker has its own directory and output file. Clients are one virtual machine that takes a command a line
(tests/interop/kafka/ClientShell.java). Used by tests/interop; what is right is the tests' affair.
"""

import contextlib
import hashlib
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from quorum_node.fresh_uuid import fresh_uuid
from quorum_node.records.identity import uuid_text
from support import stock_kafka
from support.local_quorum import free_ports, wait_until

CLIENT_SHELL = "ClientShell"
START_SECONDS = 120.0
FIRST_BROKER_ID = 101


@dataclass
class JavaBroker:
    """One stock broker: its files, its port, and the process while there is one."""

    id: int
    root: Path
    port: int
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def output(self) -> str:
        """Everything it has printed, over all its starts."""
        return (self.root / "output").read_text()

    @property
    def is_running(self) -> bool:
        """Whether the process lives."""
        return self.process is not None and self.process.poll() is None

    def format(self, cluster_id: str, controllers: str, properties: dict[str, str]) -> None:
        """Write its configuration and the identity of its directory."""
        data = self.root / "data"
        data.mkdir(parents=True)
        listener = f"PLAINTEXT://127.0.0.1:{self.port}"
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
        path = self.root / "broker.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in pairs.items()))
        directory_id = uuid_text(fresh_uuid())
        meta = (
            f"version=1\ncluster.id={cluster_id}\nnode.id={self.id}\ndirectory.id={directory_id}\n"
        )
        (data / "meta.properties").write_text(meta)

    def start(self) -> None:
        """Start the process; returns at once."""
        assert not self.is_running, "already running"
        config = str(self.root / "broker.properties")
        with (self.root / "output").open("ab") as output:
            command = stock_kafka.java(stock_kafka.SERVER, config, heap_mb=256)
            self.process = subprocess.Popen(command, stdout=output, stderr=output)

    def kill(self) -> None:
        """kill -9, and wait for the end."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(30)

    def terminate(self, timeout_seconds: float = 60) -> int:
        """SIGTERM: a controlled shutdown; waits for it, returns the exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout_seconds)


class ClientFailed(Exception):
    """A client said `failed`; the message is its error and what it said."""


class Clients:
    """Stock clients behind ClientShell; one command at a time."""

    def __init__(self, bootstrap: str, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self._errors = (root / "clients").open("ab")
        command = stock_kafka.java("-cp", f"{_compiled()}:{stock_kafka.jars()}/*", CLIENT_SHELL)
        self._process = subprocess.Popen(
            [*command, bootstrap],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        self._answers: deque[str] = deque()
        self._arrived = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._answer(START_SECONDS)

    def __call__(self, command: str, timeout_seconds: float = 90.0) -> str:
        """The answer to one command. Raises ClientFailed."""
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        return self._answer(timeout_seconds)

    def wait_for_load(self, topic: str, count: int, timeout_seconds: float = 60.0) -> None:
        """Until that many messages of the load on a topic are acknowledged."""
        wait_until(
            lambda: int(self(f"progress {topic}").split()[0]) >= count,
            f"{count} messages in {topic}",
            timeout_seconds,
        )

    def close(self) -> None:
        """End the virtual machine."""
        self._process.kill()
        self._process.wait(10)
        self._reader.join(10)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
        self._errors.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.append(line.strip())

    def _answer(self, timeout_seconds: float) -> str:
        def arrived() -> str | None:
            if not self._answers and self._process.poll() is not None:
                raise ClientFailed("the client process ended")
            return self._answers.popleft() if self._answers else None

        line = wait_until(arrived, "a client answers", timeout_seconds)
        word, _, rest = line.partition(" ")
        if word != "ok":
            raise ClientFailed(rest)
        return rest


class JavaBrokers:
    """Brokers 101.. on controllers that run somewhere. Use as a context manager: it ends every process."""

    def __init__(
        self,
        root: Path,
        cluster_id: str,
        controllers: Iterable[int],
        brokers: int,
        **properties: str,
    ) -> None:
        self.root = root
        servers = ",".join(f"127.0.0.1:{port}" for port in controllers)
        extra = {key.replace("_", "."): value for key, value in properties.items()}
        self.brokers = {
            FIRST_BROKER_ID + index: JavaBroker(
                FIRST_BROKER_ID + index, root / f"broker-{FIRST_BROKER_ID + index}", port
            )
            for index, port in enumerate(free_ports(brokers))
        }
        for broker in self.brokers.values():
            broker.format(cluster_id, servers, extra)
        self._clients: Clients | None = None

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
        return ",".join(f"127.0.0.1:{broker.port}" for broker in self.brokers.values())

    @property
    def clients(self) -> Clients:
        """Stock clients, started on first use."""
        if self._clients is None:
            self._clients = Clients(self.bootstrap, self.root)
        return self._clients

    def start(self) -> None:
        """Start all; returns at once."""
        for broker in self.brokers.values():
            broker.start()

    def wait_for(self, ids: Iterable[int], timeout_seconds: float = START_SECONDS) -> None:
        """Until exactly these brokers are unfenced, as clients see it."""
        wanted = str(sorted(ids))
        wait_until(lambda: self.clients("brokers") == wanted, f"brokers {wanted}", timeout_seconds)


def _compiled() -> Path:
    """The folder of the compiled client, made once per version of its source."""
    source = stock_kafka.SOURCES / f"{CLIENT_SHELL}.java"
    digest = hashlib.sha256(source.read_bytes() + str(stock_kafka.jars()).encode()).hexdigest()[:16]
    folder = stock_kafka.cache_directory() / "kafka" / f"clients-{digest}"
    if not folder.exists():
        scratch = folder.with_name(f"{folder.name}-{fresh_uuid().hex}")
        done = subprocess.run(
            ["javac", "-nowarn", "-cp", f"{stock_kafka.jars()}/*", "-d", str(scratch), str(source)],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        with contextlib.suppress(OSError):  # somebody else was faster
            scratch.rename(folder)
    return folder
