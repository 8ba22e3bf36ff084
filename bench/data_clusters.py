"""Three brokers of either kind on one controller of ours, for the comparison of the data path.

Owns how they are started, killed and observed. `data_path.py` owns the measurements.
"""

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Protocol

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support import stock_kafka
from support.java_brokers import JavaBrokers
from support.local_quorum import LocalQuorum, wait_until
from support.python_brokers import PythonBrokers

BROKERS = 3
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_START_SECONDS = 120


class Brokers(Protocol):
    """Three brokers, by ascending id."""

    name: str

    def start(self) -> None:
        """Start all; returns when all are live."""

    def stop(self) -> None:
        """End every process."""

    @property
    def ports(self) -> dict[int, int]:
        """Ports for clients by broker id."""

    def pid(self, broker_id: int) -> int:
        """Process id of a running broker."""

    def kill(self, broker_id: int) -> None:
        """SIGKILL."""

    def start_again(self, broker_id: int) -> None:
        """Start the same broker on the same directory; returns at once."""


class Ours:
    """Brokers of this software."""

    name = "ours"

    def __init__(self, root: Path) -> None:
        self._quorum = LocalQuorum(root / "quorum", nodes=1)
        self._brokers = PythonBrokers(self._quorum, root / "brokers", BROKERS, broker_heartbeat_interval_ms="2000")  # fmt: skip

    def start(self) -> None:
        """See `Brokers`."""
        self._quorum.__enter__()
        self._quorum.form()
        self._brokers.start()

    def stop(self) -> None:
        """See `Brokers`."""
        self._brokers.__exit__(None, None, None)
        self._quorum.__exit__(None, None, None)

    @property
    def ports(self) -> dict[int, int]:
        """See `Brokers`."""
        return {each.id: each.port for each in self._brokers.nodes.values()}

    def pid(self, broker_id: int) -> int:
        """See `Brokers`."""
        process = self._brokers.nodes[broker_id].process
        assert process is not None
        return process.pid

    def kill(self, broker_id: int) -> None:
        """See `Brokers`."""
        self._brokers.nodes[broker_id].kill()

    def start_again(self, broker_id: int) -> None:
        """See `Brokers`."""
        self._brokers.nodes[broker_id].start()


class Stock:
    """Apache Kafka's brokers with their default heap."""

    name = "kafka"

    def __init__(self, root: Path) -> None:
        self._root = root
        self._quorum = LocalQuorum(root / "quorum", nodes=1)
        self._brokers: JavaBrokers | None = None

    @property
    def _made(self) -> JavaBrokers:
        assert self._brokers is not None
        return self._brokers

    def start(self) -> None:
        """See `Brokers`."""
        self._quorum.__enter__()
        self._quorum.form()
        self._brokers = JavaBrokers.on(
            self._quorum,
            self._root / "brokers",
            BROKERS,
            num_network_threads="3",
            num_io_threads="8",
            broker_heartbeat_interval_ms="2000",
            log_cleaner_enable="true",
        )
        for broker_id in self.ports:
            self.start_again(broker_id)
        for port in self.ports.values():
            wait_until(lambda port=port: _answers(port), "a broker answers", _START_SECONDS)  # type: ignore[misc]

    def stop(self) -> None:
        """See `Brokers`."""
        if self._brokers is not None:
            self._brokers.__exit__(None, None, None)
        self._quorum.__exit__(None, None, None)

    @property
    def ports(self) -> dict[int, int]:
        """See `Brokers`."""
        return {each.id: each.port for each in self._made.brokers.values()}

    def pid(self, broker_id: int) -> int:
        """See `Brokers`."""
        process = self._made.brokers[broker_id].process
        assert process is not None
        return process.pid

    def kill(self, broker_id: int) -> None:
        """See `Brokers`."""
        self._made.brokers[broker_id].kill()

    def start_again(self, broker_id: int) -> None:
        """See `Brokers`. Uses the heap and the compiler settings of a stock server."""
        broker = self._made.brokers[broker_id]
        config = str(broker.root / "broker.properties")
        command = stock_kafka.java(stock_kafka.SERVER, config, heap_mb=1024, short_lived=False)
        with (broker.root / "output").open("ab") as output:
            broker.process = subprocess.Popen(command, stdout=output, stderr=output)


def _answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 1):
            return True
    except OSError:
        return False


def cpu_seconds(brokers: Brokers) -> float:
    """CPU time of all brokers since their start."""
    total = 0
    for broker_id in brokers.ports:
        fields = Path(f"/proc/{brokers.pid(broker_id)}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / _TICKS


def resident_mb(brokers: Brokers) -> float:
    """Mean resident memory of a broker."""
    sizes = [
        int(Path(f"/proc/{brokers.pid(each)}/statm").read_text().split()[1]) * _PAGE_BYTES
        for each in brokers.ports
    ]
    return sum(sizes) / len(sizes) / 1e6
