"""A stock controller that observes a quorum of ours: it replays everything that is written, as a standby does.

Owns its files and its process, and the detection of its errors. Used by tests/interop.
"""

import subprocess
from pathlib import Path

from quorum_node.records.metadata import RegisterControllerRecord
from support import stock_kafka
from support.local_quorum import LocalQuorum, wait_until
from support.ports import free_ports

OBSERVER_ID = 9
PARTITION = "__cluster_metadata-0"
REGISTRATION = RegisterControllerRecord.__name__
_FAULTS = ("fault", " ERROR ", " FATAL ", "Exception")
"""Kafka's fault handlers and loggers; warnings (such as a port without a listener) do not count."""


class StockObserver:
    """One stock controller that is no voter. Use as a context manager: it ends the process."""

    def __init__(self, root: Path, quorum: LocalQuorum, **properties: str) -> None:
        self.root = root
        self._quorum = quorum
        self._config = self._write({k.replace("_", "."): v for k, v in properties.items()})
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "StockObserver":
        return self

    def __exit__(self, *exc: object) -> None:
        if self.is_running:
            self.kill()

    @property
    def log_directory(self) -> Path:
        """Where its copy of the log is."""
        return self.root / "data" / PARTITION

    @property
    def is_running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the process; returns at once."""
        assert not self.is_running, "already running"
        command = stock_kafka.java(stock_kafka.SERVER, str(self._config), heap_mb=192)
        with (self.root / "output").open("ab") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output)

    def kill(self) -> None:
        """kill -9, and wait for the end."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(30)

    def wait_fetched(self, end_offset: int, timeout_seconds: float = 90) -> str:
        """Until the leader knows that it has fetched everything; its directory id."""

        def fetched() -> str | None:
            for replica in self._quorum.describe()["observers"]:
                if replica["id"] == OBSERVER_ID and replica["logEndOffset"] >= end_offset:
                    uuid: str = replica["uuid"]
                    return uuid
            return None

        return wait_until(fetched, "the observer has what we have", timeout_seconds)

    def wait_replayed(self, timeout_seconds: float = 90) -> None:
        """After a start, wait until everything that is committed now is in its image.

        It registers itself once it has caught up, with another incarnation id in every run.
        """
        end_offset = self._quorum.describe()["highWatermark"]
        wait_until(
            lambda: self._registered_after(end_offset), "the observer registers", timeout_seconds
        )

    def _registered_after(self, offset: int) -> bool:
        answer = self._quorum.request("GET", f"/v1/log?fromOffset={offset}&maxRecords=5000")
        if answer is None or not answer.is_success:
            return False
        return any(
            each["type"] == REGISTRATION and each["fields"]["controllerId"] == OBSERVER_ID
            for each in answer.json()["records"]
        )

    def faults(self) -> list[str]:
        """Its output lines about errors."""
        lines = (self.root / "output").read_text().splitlines()
        return [line for line in lines if any(word in line for word in _FAULTS)]

    def assert_sound(self) -> None:
        """Check that it is running and has reported no error."""
        assert self.is_running, "the stock controller ended"
        assert not self.faults(), self.faults()[:10]

    def _write(self, more: dict[str, str]) -> Path:
        """Configuration and formatted directory of a stock controller that is no initial voter."""
        self.root.mkdir(parents=True, exist_ok=True)
        (port,) = free_ports(1)
        nodes = self._quorum.nodes.values()
        properties = {
            "node.id": str(OBSERVER_ID),
            "process.roles": "controller",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"CONTROLLER://127.0.0.1:{port}",
            "advertised.listeners": f"CONTROLLER://127.0.0.1:{port}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
            "controller.quorum.bootstrap.servers": ",".join(
                f"127.0.0.1:{node.port}" for node in nodes
            ),
            "log.dirs": str(self.root / "data"),
            **more,
        }
        path = self.root / "controller.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        cluster = ["-t", self._quorum.cluster_id, "--no-initial-controllers"]
        done = stock_kafka.run_tool(stock_kafka.STORAGE, "format", "-c", str(path), *cluster)
        assert done.returncode == 0, done.stdout + done.stderr
        return path


def assert_same_logs(observer: StockObserver, quorum: LocalQuorum) -> None:
    """The observer's log is the leader's, byte for byte, as far as both go; both began with the first record."""
    ours, theirs = (
        b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))
        for folder in (quorum.leader.data_dir / PARTITION, observer.log_directory)
    )
    shared = min(len(ours), len(theirs))
    assert shared > 0
    assert ours[:shared] == theirs[:shared]
