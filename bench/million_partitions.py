"""A million partitions in one controller: memory, duration of a snapshot, and duration of a start from it.

The same records for both systems, written directly into the log's directory (`big_log.py`). Their brokers are registered, but send no
heartbeats: the lease is an hour, so that none expires during the measurement.
"""

import threading
import time
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

import big_log
from contender import resident_mb
from image_speed import BROKERS, DIRECTORIES, LEVEL, encoded, topics
from kafka_client import Address
from kafka_controllers import LoneKafka, live_heap_mb
from kafka_writes import write_many
from large_log import (
    NO_SNAPSHOTS,
    SNAPSHOT_BYTES,
    WAIT_SECONDS,
    await_write,
    lone_node,
    pid_of,
    stop,
)
from large_log import log_folder as folder_of
from topic_creation import CREATE_VERSION, new_topics

from quorum_node.protocol.apis import CREATE_TOPICS
from quorum_node.protocol.create_topics import CreateTopicsResponse
from quorum_node.records.metadata import (
    METADATA_VERSION,
    MetadataMessage,
    NodeEndpoint,
    RegisterBrokerRecord,
    SupportedFeature,
)
from quorum_node.schema.schema import MalformedMessage
from support.local_quorum import LocalQuorum, wait_until
from support.one_request import ask

MILLION = 1_000_000
SETTINGS = NO_SNAPSHOTS | {"broker.session.timeout.ms": "3600000"}
KAFKA_HEAP_MB = 4096
_RECORDS_A_BATCH = 1000
_PROVOKED_AT_BYTES = 1 << 20
_names = (f"after-{number}" for number in count())


class Lone(Protocol):
    """A quorum of one controller, of either system."""

    address: Address
    log_folder: Path

    def start(self) -> None:
        """Start it; returns at once."""

    def stop(self) -> None:
        """Terminate it and wait for its end."""

    def memory_mb(self) -> float:
        """Resident memory, or the heap of a JVM after a collection."""

    def write_snapshot(self) -> float:
        """Write a snapshot; returns the duration in seconds."""

    def close(self) -> None:
        """End the running process."""


class OurLone:
    """A node of this software."""

    def __init__(self, root: Path) -> None:
        self._quorum = LocalQuorum(root, nodes=1, properties=SETTINGS)
        self._node = lone_node(self._quorum)
        self.address = ("127.0.0.1", self._node.port)
        self.log_folder = folder_of(self._node)

    def start(self) -> None:
        self._node.start()

    def stop(self) -> None:
        self._node.terminate()

    def memory_mb(self) -> float:
        return resident_mb(pid_of(self._node))

    def write_snapshot(self) -> float:
        began = time.monotonic()
        path = f"/v1/snapshot?timeoutMs={1000 * WAIT_SECONDS:.0f}"
        answer = self._quorum.request("POST", path, 1, timeout=WAIT_SECONDS)
        if answer is None or not answer.is_success:
            raise RuntimeError(f"no snapshot: {answer and answer.text}")
        return time.monotonic() - began

    def close(self) -> None:
        self._quorum.close()


class KafkaLone:
    """A stock controller with a large heap. It writes a snapshot after enough new records."""

    def __init__(self, root: Path) -> None:
        properties = SETTINGS | {SNAPSHOT_BYTES: str(_PROVOKED_AT_BYTES)}
        self._kafka = LoneKafka(root, properties=properties)
        self._kafka.heap_mb = KAFKA_HEAP_MB
        self._kafka.create()
        self.address = self._kafka.addresses()[0]
        self.log_folder = self._kafka.log_folder
        await_write(self.address)

    def start(self) -> None:
        self._kafka.launch(0)

    def stop(self) -> None:
        stop(self._kafka)

    def memory_mb(self) -> float:
        return live_heap_mb(self._kafka.processes[0].pid)

    def write_snapshot(self) -> float:
        """Time from the first byte of the file until its final rename."""
        known = set(self.log_folder.glob("*.checkpoint"))
        for number in range(5):
            await_write(self.address, write_many(f"fed-{number}", 1000))
        wait_until(
            lambda: any(self.log_folder.glob("*.checkpoint.part")), "a snapshot", WAIT_SECONDS
        )
        began = time.monotonic()
        wait_until(
            lambda: set(self.log_folder.glob("*.checkpoint")) > known, "a snapshot", WAIT_SECONDS
        )
        return time.monotonic() - began

    def close(self) -> None:
        self._kafka.stop()


class Writes:
    """Sequential config changes in a thread; the longest one shows how long the controller was blocked."""

    def __init__(self, address: Address) -> None:
        self.longest_ms = 0.0
        self._address = address
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> "Writes":
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ended.set()
        self._thread.join(WAIT_SECONDS)

    def _run(self) -> None:
        while not self._ended.is_set():
            began = time.monotonic()
            self.longest_ms = max(self.longest_ms, 1e3 * (await_write(self._address) - began))


def measure(root: Path, partitions: int) -> Iterable[tuple[str, dict[str, Any]]]:
    """Measure both systems one after the other."""
    values = encoded([*brokers(), *topics(partitions)])
    batches = [
        values[start : start + _RECORDS_A_BATCH]
        for start in range(0, len(values), _RECORDS_A_BATCH)
    ]
    for name, kind in (("ours", OurLone), ("kafka", KafkaLone)):
        controller: Lone = kind(root / name)
        try:
            yield name, figures(controller, batches)
        finally:
            controller.close()


def figures(controller: Lone, batches: list[list[bytes]]) -> dict[str, Any]:
    """Figures of one system. The first start after the log was extended checks the whole log and is not counted."""
    count_of_all = sum(map(len, batches))
    empty_mb = controller.memory_mb()
    controller.stop()
    big_log.append(controller.log_folder, batches)
    started(controller)
    controller.stop()
    from_log = started(controller)
    full_mb = controller.memory_mb()
    with Writes(controller.address) as writes:
        snapshot = controller.write_snapshot()
    size = max(file.stat().st_size for file in controller.log_folder.glob("*.checkpoint"))
    controller.stop()
    from_snapshot = started(controller)
    return {
        "records": count_of_all,
        "bytes_each": 1e6 * (full_mb - empty_mb) / count_of_all,
        "start_from_log_s": from_log,
        "snapshot_write_s": snapshot,
        "snapshot_mib": size / 2**20,
        "longest_write_meanwhile_ms": writes.longest_ms,
        "start_from_snapshot_s": from_snapshot,
    }


def started(controller: Lone) -> float:
    """Seconds from the start of the process until it has created a topic."""
    began = time.monotonic()
    controller.start()
    request = new_topics([next(_names)])

    def created() -> bool:
        try:
            answer = ask(controller.address, CREATE_TOPICS, CREATE_VERSION, request, 60.0)
        except (OSError, MalformedMessage):
            return False
        assert isinstance(answer, CreateTopicsResponse)
        return answer.topics[0].error_code == 0

    wait_until(created, f"{controller.address} creates a topic", WAIT_SECONDS)
    return time.monotonic() - began


def brokers() -> Iterator[MetadataMessage]:
    """Records of the brokers that have replicas in `image_speed.topics`."""
    for broker_id in range(BROKERS):
        yield RegisterBrokerRecord(
            broker_id=broker_id,
            incarnation_id=UUID(int=broker_id + 1),
            broker_epoch=broker_id,
            end_points=(
                NodeEndpoint(name="PLAINTEXT", host="127.0.0.1", port=9092, security_protocol=0),
            ),
            features=(
                SupportedFeature(
                    name=METADATA_VERSION, min_supported_version=1, max_supported_version=LEVEL
                ),
            ),
            rack=None,
            fenced=False,
            log_dirs=(DIRECTORIES[broker_id],),
        )
