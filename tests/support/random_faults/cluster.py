"""The cluster of a round: controllers and brokers on hosts of their own, with the same few calls for brokers of both kinds.

Owns processes, network and disks, and which of them an act may use at the moment. Needs root: network namespaces, loop devices.
"""

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

from quorum_node.protocol import broker_apis
from quorum_node.protocol.api import Api
from quorum_node.protocol.metadata import (
    MetadataPartition,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
)
from quorum_node.schema.schema import MalformedMessage, Message
from support.java_brokers import JavaBroker, JavaBrokers
from support.linearizability.network import FilteredNetwork
from support.local_quorum import LocalNode, LocalQuorum, wait_until
from support.log_directories import TwoDirectories
from support.loop_disk import LoopDisk
from support.one_request import ask
from support.python_brokers import FIRST_BROKER_ID
from support.random_faults.plan import STOCK_FROM_ID, Plan, is_stock

DISK = "b"
"""The log directory that can be a file system of its own."""
NO_ANSWER = (OSError, MalformedMessage, EOFError)
_DISK_MIB, _FREE_MIB = 320, 24
_QUICK = {
    "replica_lag_time_max_ms": "3000",
    "replica_fetch_wait_max_ms": "200",
}
_STOP_S, _HELD_S, _HOST_OF_BROKERS = 60.0, 8.0, 20


class BrokerBusy(Exception):
    """Another act has stopped or paused the broker."""


class _Controllers(LocalQuorum):
    def __init__(self, root: Path, network: FilteredNetwork, nodes: int) -> None:
        self._network = network
        super().__init__(root, nodes, properties={"broker.session.timeout.ms": "3000"})

    def place_of(self, node_id: int) -> tuple[str, tuple[str, ...]]:
        return self._network.address(node_id), self._network.command(node_id)


class _Brokers(TwoDirectories):
    def __init__(
        self, network: FilteredNetwork, quorum: LocalQuorum, root: Path, count: int
    ) -> None:
        self._network = network
        super().__init__(quorum, root, count, FIRST_BROKER_ID, **_QUICK)

    def place_of(self, broker_id: int) -> tuple[str, tuple[str, ...]]:
        host = host_of(broker_id)
        return self._network.address(host), self._network.command(host)


class _StockBrokers(JavaBrokers):
    network: FilteredNetwork

    def place_of(self, broker_id: int) -> tuple[str, tuple[str, ...]]:
        host = host_of(broker_id)
        return self.network.address(host), self.network.command(host)


def host_of(broker_id: int) -> int:
    """The number of the host of a broker or controller."""
    if broker_id < STOCK_FROM_ID:
        return broker_id
    return _HOST_OF_BROKERS + (broker_id - 100 if is_stock(broker_id) else broker_id - 200 + 10)


def partition_of(topic: MetadataTopic, number: int) -> MetadataPartition:
    """One partition of a topic. Raises KeyError if the answer lacks it."""
    for each in topic.partitions:
        if each.partition_index == number:
            return each
    raise KeyError(number)


class Cluster:
    """A context manager: it ends every process, and removes disks and network. `start` forms it."""

    def __init__(self, plan: Plan, root: Path) -> None:
        self.plan = plan
        self._root = root
        self._stack = ExitStack()
        self._locks = {each: threading.Lock() for each in plan.brokers}
        self.disks: dict[int, LoopDisk] = {}
        self.problems: list[str] = []
        """Ends of processes that no act asked for."""
        self.damaged: set[int] = set()
        """Brokers of which a log directory is full or lost at the moment."""
        self._cuts: list[tuple[int, tuple[int, ...]]] = []
        self._cutting = threading.Lock()

    def __enter__(self) -> Self:
        try:
            self._make()
        except BaseException:
            self._stack.close()
            raise
        return self

    def _make(self) -> None:
        plan = self.plan
        controllers = range(1, plan.controllers + 1)
        hosts = [*controllers, *(host_of(each) for each in plan.brokers)]
        self.network = self._stack.enter_context(FilteredNetwork(hosts))
        self._stack.callback(self._close_disks)
        self.quorum = self._stack.enter_context(
            _Controllers(self._root / "quorum", self.network, plan.controllers)
        )
        ours = [each for each in plan.brokers if not is_stock(each)]
        self.ours = self._stack.enter_context(
            _Brokers(self.network, self.quorum, self._root / "python", len(ours))
        )
        for broker_id in sorted(plan.disks):
            self.disks[broker_id] = self._disk(broker_id)
        self.stock: dict[int, JavaBroker] = {}
        if plan.is_mixed:
            _StockBrokers.network = self.network
            stock = _StockBrokers.on(
                self.quorum, self._root / "java", 1, broker_heartbeat_interval_ms="300", **_QUICK
            )
            self.stock = self._stack.enter_context(stock).brokers

    def _disk(self, broker_id: int) -> LoopDisk:
        disk = LoopDisk(self.ours.nodes[broker_id].root / f"disk-{DISK}", _DISK_MIB)
        # Only the rest has to be written to fill it.
        with (disk.mount_point / "ballast").open("wb") as ballast:
            os.posix_fallocate(ballast.fileno(), 0, disk.free_bytes - (_FREE_MIB << 20))
        return disk

    def _close_disks(self) -> None:
        for disk in self.disks.values():
            disk.close()

    def __exit__(self, *exc: object) -> None:
        for broker_id in self.plan.brokers:
            # A stopped process would be waited for in vain.
            broker = self._process(broker_id)
            if broker.is_running:
                with contextlib.suppress(ProcessLookupError):
                    broker.kill()
        self._stack.close()

    def start(self) -> None:
        """Start everything; returns when all brokers are live."""
        self.quorum.form()
        for stock in self.stock.values():
            stock.start()
        self.ours.start()
        wait_until(self.all_live, "all brokers are live", 120)

    @property
    def bootstrap(self) -> str:
        """Addresses of all brokers."""
        return ",".join(f"{host}:{port}" for host, port in map(self.address, self.plan.brokers))

    def address(self, broker_id: int) -> tuple[str, int]:
        """Of the listener for clients and brokers."""
        broker = self._process(broker_id)
        return broker.host, broker.port

    def _process(self, broker_id: int) -> LocalNode | JavaBroker:
        return self.stock[broker_id] if is_stock(broker_id) else self.ours.nodes[broker_id]

    # -- processes

    @contextmanager
    def held(self, broker_id: int, patience_s: float = _HELD_S) -> Iterator[None]:
        """No other act stops or pauses this broker meanwhile. Waits for the end of another one. Raises BrokerBusy."""
        if not self._locks[broker_id].acquire(timeout=patience_s):
            raise BrokerBusy(f"another act holds broker {broker_id}")
        try:
            yield
        finally:
            self._locks[broker_id].release()

    def kill(self, broker_id: int) -> None:
        """kill -9."""
        broker = self._process(broker_id)
        if self._runs(broker_id):
            broker.kill()

    def _runs(self, broker_id: int) -> bool:
        """Whether its process lives; it is a problem if not."""
        process = self._process(broker_id).process
        code = None if process is None else process.poll()
        if code is not None:
            self.problems.append(f"broker {broker_id} has ended by itself, with code {code}")
        return process is not None and code is None

    def stop(self, broker_id: int) -> int:
        """SIGTERM; kill -9 if it has not ended after a minute. The exit code."""
        broker = self._process(broker_id)
        process = broker.process
        assert process is not None
        if not self._runs(broker_id):
            return process.wait()
        process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + _STOP_S
        while process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        if process.poll() is None:
            self.problems.append(f"broker {broker_id} has not ended {_STOP_S} s after SIGTERM")
            broker.kill()
        return process.wait()

    def run(self, broker_id: int) -> None:
        """Start a broker that has ended; returns at once."""
        self._process(broker_id).start()

    def send(self, broker_id: int, number: int) -> None:
        """Send a signal."""
        process = self._process(broker_id).process
        assert process is not None
        if self._runs(broker_id):
            os.kill(process.pid, number)

    def ended(self) -> list[int]:
        """Brokers without a process."""
        return [each for each in self.plan.brokers if not self._process(each).is_running]

    # -- network

    def cut(self, broker_id: int, others: Sequence[int]) -> None:
        """No packet passes between a broker and other brokers, or controllers, by id."""
        with self._cutting:
            self._cuts.append((broker_id, tuple(others)))
            self._filter()

    def restore(self, broker_id: int, others: Sequence[int]) -> None:
        """Undo one such cut. Another one that has links in common with it lasts on."""
        with self._cutting:
            self._cuts.remove((broker_id, tuple(others)))
            self._filter()

    def _filter(self) -> None:
        self.network.heal()
        for broker_id, others in self._cuts:
            self.network.split([host_of(broker_id)], [host_of(each) for each in others])

    # -- requests

    def request(self, broker_id: int, api: Api, body: Message, timeout_s: float = 5.0) -> Message:
        """One request to one broker, on a connection of its own. Raises one of NO_ANSWER."""
        return ask(self.address(broker_id), api, api.max_version, body, timeout_s)

    def request_any(self, api: Api, body: Message, timeout_s: float = 12.0) -> Message:
        """The answer of some broker of this software. Raises one of NO_ANSWER if none of them answers."""
        failure: Exception | None = None
        for broker_id in random.sample(sorted(self.ours.nodes), len(self.ours.nodes)):
            try:
                return self.request(broker_id, api, body, timeout_s)
            except NO_ANSWER as error:
                failure = error
        raise ConnectionError(f"no broker answers: {failure!r}")

    def metadata(self, broker_id: int, timeout_s: float = 2.0) -> MetadataResponse | None:
        """All topics and live brokers, as a broker knows them; None without an answer."""
        body = MetadataRequest(topics=None, allow_auto_topic_creation=False)
        try:
            found = self.request(broker_id, broker_apis.METADATA, body, timeout_s)
        except NO_ANSWER:
            return None
        assert isinstance(found, MetadataResponse)
        return found

    def topics(self, told_by: Iterable[int] | None = None) -> dict[str, MetadataTopic]:
        """All topics by name, from the first broker that answers; empty if none does."""
        for broker_id in told_by or random.sample(self.plan.brokers, len(self.plan.brokers)):
            found = self.metadata(broker_id)
            if found is not None:
                return {str(each.name): each for each in found.topics if not each.error_code}
        return {}

    def all_live(self) -> bool:
        """Whether every broker knows that all brokers are live."""
        for broker_id in self.plan.brokers:
            found = self.metadata(broker_id)
            if found is None or {each.node_id for each in found.brokers} != set(self.plan.brokers):
                return False
        return True

    # -- files

    def log_folder(self, broker_id: int, topic: str, partition: int) -> Path:
        """The folder of a replica. Raises FileNotFoundError if the broker has none."""
        name = f"{topic}-{partition}"
        if is_stock(broker_id):
            return self.stock[broker_id].root / "data" / name
        for each in (self.ours.directory(broker_id, letter) / name for letter in "ab"):
            if each.is_dir():
                return each
        raise FileNotFoundError(name)

    def unexpected(self) -> list[str]:
        """Ends of processes, and errors in their logs."""
        return [*self.problems, *self._tracebacks()]

    def _tracebacks(self) -> Sequence[str]:
        nodes = [*self.ours.nodes.values(), *self.quorum.nodes.values()]
        return [
            f"node {node.id} logged: {_excerpt(node.log_text)}"
            for node in nodes
            if "Traceback" in node.log_text
        ]


def _excerpt(text: str) -> str:
    at = text.index("Traceback")
    return text[max(0, at - 300) : at + 3000]
