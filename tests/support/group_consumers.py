"""Consumers of librdkafka in a group, each on a thread: the messages that they processed, and the number of rebalances.

A message is processed before its offset is committed, so every message below a committed offset was processed.
"""

import threading
from collections import defaultdict
from collections.abc import Iterable

from confluent_kafka import Consumer, KafkaException, Message, Producer

from support.local_quorum import wait_until


class GroupConsumer:
    """One consumer. Call `stop` at the end: it raises errors of the thread."""

    def __init__(self, bootstrap: str, group: str, topic: str, **settings: str | int) -> None:
        self.read: dict[int, list[bytes]] = defaultdict(list)
        self.assignments: list[frozenset[int]] = []
        self._failure: BaseException | None = None
        self._is_over = threading.Event()
        given = {key.replace("_", "."): value for key, value in settings.items()}
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 45_000,
                "topic.metadata.refresh.interval.ms": 2000,
                **given,
            }
        )
        self._consumer.subscribe([topic], on_assign=self._assigned)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    @property
    def owned(self) -> frozenset[int]:
        """Partitions of its newest assignment."""
        return self.assignments[-1] if self.assignments else frozenset()

    @property
    def count(self) -> int:
        """Number of messages that it processed."""
        return sum(len(each) for each in self.read.values())

    def stop(self) -> None:
        """Leave the group."""
        self._is_over.set()
        self._thread.join(60)
        assert not self._thread.is_alive()
        if self._failure is not None:
            raise self._failure

    def _assigned(self, _: Consumer, partitions: Iterable[object]) -> None:
        self.assignments.append(frozenset(each.partition for each in partitions))  # type: ignore[attr-defined]

    def _run(self) -> None:
        try:
            while not self._is_over.is_set():
                found = self._consumer.consume(50, 0.2)
                for message in found:
                    self._process(message)
                if found:
                    self._commit()
            self._consumer.close()
        except BaseException as failure:
            self._failure = failure

    def _process(self, message: Message) -> None:
        if message.error() is None:
            self.read[message.partition() or 0].append(message.value() or b"")

    def _commit(self) -> None:
        """Commits that are refused, as during a rebalance or a failover, are repeated with the next messages, or the messages are read
        again.
        """
        try:
            self._consumer.commit(asynchronous=False)
        except KafkaException as refused:
            if not (refused.args[0].retriable() or refused.args[0].name() in _MOVED):
                raise


_MOVED = frozenset(
    {
        "ILLEGAL_GENERATION",
        "UNKNOWN_MEMBER_ID",
        "REBALANCE_IN_PROGRESS",
        "_NO_OFFSET",
        "_TIMED_OUT",
        "_TRANSPORT",
        "_WAIT_COORD",
        "_ASSIGNMENT_LOST",
    }
)


def produce_numbers(bootstrap: str, topic: str, numbers: Iterable[int], partitions: int) -> None:
    """Each to the partition that it names, acknowledged by the ISR."""
    refused: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 5})
    for number in numbers:
        producer.produce(
            topic,
            b"%d" % number,
            partition=number % partitions,
            on_delivery=lambda error, _: refused.append(error) if error is not None else None,
        )
    assert producer.flush(90) == 0
    assert not refused, refused[:3]


def wait_until_read(consumers: Iterable[GroupConsumer], numbers: Iterable[int]) -> None:
    """By any of them."""
    wanted = {b"%d" % number for number in numbers}
    everyone = list(consumers)

    def missing() -> bool:
        read = {value for each in everyone for values in each.read.values() for value in values}
        return wanted <= read

    wait_until(missing, f"{len(wanted)} messages are read", 90)
