"""Readers of a round while it is played: a stock consumer, and an observer of the ends of partitions.

Both record what they saw. The offsets that a leader answers with never become lower, not even if another broker leads: an answer
counts for the newest leader epoch that the observer knows, which is in the request.
"""

import threading
import time
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaError, TopicPartition

from quorum_node.protocol.list_offsets import LATEST_TIMESTAMP
from support.random_faults.cluster import NO_ANSWER, Cluster, partition_of
from support.random_faults.histories import Entry, PartitionName
from support.random_faults.partition_requests import list_offsets

_LOOK_S = 0.25
_KINDS = {0: "high watermark", 1: "last stable offset"}
"""What ListOffsets answers with, by isolation level."""


class StockReader(threading.Thread):
    """A stock consumer of all partitions, from their beginning."""

    def __init__(self, cluster: Cluster, partitions: Mapping[str, int]) -> None:
        super().__init__(name="consumer", daemon=True)
        self._servers, self._isolation = cluster.bootstrap, cluster.plan.isolation
        self._partitions = [
            (name, each) for name, count in partitions.items() for each in range(count)
        ]
        self.received: dict[PartitionName, list[Entry]] = {each: [] for each in self._partitions}
        self.problems: list[str] = []
        self._wanted: Mapping[PartitionName, int] | None = None
        self._ends: dict[PartitionName, int] = {}
        self._given_up = threading.Event()

    def run(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": "not used",
                "isolation.level": self._isolation,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "enable.partition.eof": True,
                # After DeleteRecords. A reset without it gives records a second time, which is a problem.
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 200,
                "fetch.error.backoff.ms": 50,
                "socket.timeout.ms": 6_000,
                "reconnect.backoff.max.ms": 500,
                "topic.metadata.refresh.interval.ms": 2_000,
                "log_level": 0,
            }
        )
        try:
            consumer.assign([TopicPartition(name, each, 0) for name, each in self._partitions])
            while not (self._given_up.is_set() or self._is_done()):
                for message in consumer.consume(500, 0.2):
                    error = message.error()
                    name, partition, offset = message.topic(), message.partition(), message.offset()
                    if name is None or partition is None or offset is None:
                        continue
                    if error is None:
                        self.received[name, partition].append((offset, message.value() or b""))
                    elif error.code() == KafkaError._PARTITION_EOF:
                        self._ends[name, partition] = offset
        except Exception as failure:
            self.problems.append(f"consumer: {failure!r}")
        finally:
            consumer.close()

    def _is_done(self) -> bool:
        wanted = self._wanted
        return wanted is not None and all(
            self._ends.get(each, -1) >= end for each, end in wanted.items()
        )

    def finish(self, wanted: Mapping[PartitionName, int], timeout_s: float) -> list[str]:
        """Let it read up to these offsets, and return its problems."""
        self._wanted = wanted
        self.join(timeout_s)
        if self.is_alive():
            self.problems.append(f"consumer: reached {self._ends} of {dict(wanted)}")
            self._given_up.set()
            self.join(10)
        return self.problems


class OffsetObserver(threading.Thread):
    """Asks for the ends of all partitions, again and again."""

    def __init__(self, cluster: Cluster, topics: Mapping[str, int]) -> None:
        super().__init__(name="observer", daemon=True)
        self._cluster, self._topics = cluster, topics
        self._leaders: dict[PartitionName, tuple[int, int]] = {}
        """(Leader epoch, leader), the newest that was seen."""
        self._highest: dict[tuple[PartitionName, int], tuple[int, int]] = {}
        """(Offset, leader epoch) by partition and isolation level."""
        self.problems: list[str] = []
        self.answers = 0
        self._ending = threading.Event()

    def run(self) -> None:
        try:
            while not self._ending.wait(_LOOK_S):
                self._look()
        except Exception as failure:
            self.problems.append(f"observer: {failure!r}")

    def finish(self) -> list[str]:
        """End it, and return its problems."""
        self._ending.set()
        self.join(30)
        return self.problems

    def _look(self) -> None:
        for name, topic in self._cluster.topics().items():
            for each in topic.partitions if name in self._topics else ():
                key = name, each.partition_index
                found = each.leader_epoch, each.leader_id
                if each.leader_id >= 0:
                    self._leaders[key] = max(found, self._leaders.get(key, found))
        for leader in {leader for _, leader in self._leaders.values()}:
            asked = {key: epoch for key, (epoch, each) in self._leaders.items() if each == leader}
            for isolation in _KINDS:
                if not self._ending.is_set():
                    self._compare(leader, asked, isolation)

    def _compare(self, leader: int, asked: dict[PartitionName, int], isolation: int) -> None:
        try:
            found = list_offsets(self._cluster, leader, asked, LATEST_TIMESTAMP, isolation)
        except NO_ANSWER:
            return
        for name, answer in found.items():
            if answer.error_code:
                continue
            self.answers += 1
            before, epoch = self._highest.get((name, isolation), (0, -1))
            if answer.offset < before:
                self.problems.append(
                    f"{name[0]}-{name[1]}: the {_KINDS[isolation]} went back from {before} (leader epoch {epoch})"
                    f" to {answer.offset} (leader {leader}, epoch {asked[name]})"
                )
            self._highest[name, isolation] = max((answer.offset, asked[name]), (before, epoch))


def await_stable_ends(
    cluster: Cluster, partitions: Mapping[str, int], timeout_s: float
) -> list[str]:
    """Wait until no partition has an open transaction. Returns the partitions where that takes too long."""
    deadline = time.monotonic() + timeout_s
    names = [(name, each) for name, count in partitions.items() for each in range(count)]
    while (missing := _unstable(cluster, names)) and time.monotonic() < deadline:
        time.sleep(_LOOK_S)
    return [f"the last stable offset is not at the high watermark: {each}" for each in missing]


def _unstable(cluster: Cluster, names: list[PartitionName]) -> list[str]:
    topics = cluster.topics()
    found = []
    for name in names:
        try:
            leader = partition_of(topics[name[0]], name[1]).leader_id
            high, stable = (
                list_offsets(cluster, leader, {name: -1}, LATEST_TIMESTAMP, each)[name]
                for each in _KINDS
            )
        except (KeyError, *NO_ANSWER) as error:
            found.append(f"{name}: {error!r}")
            continue
        if high.error_code or stable.error_code or high.offset != stable.offset:
            found.append(f"{name}: {high}, {stable}")
    return found
