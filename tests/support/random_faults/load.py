"""Producers of a round: stock ones (librdkafka), idempotent, transactional and with acks=1, and one that repeats batches on purpose.

Each runs in a thread until it is stopped, and records what was acknowledged. An error that a stock producer does not recover from is
a problem of the round.
"""

import contextlib
import random
import threading
import time
from collections.abc import Callable, Sequence
from uuid import UUID

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from quorum_node.protocol.broker_apis import INIT_PRODUCER_ID
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from quorum_node.records.batches import Record
from support.data_batches import data_batch
from support.random_faults.cluster import NO_ANSWER, Cluster, partition_of
from support.random_faults.histories import Sent, Transaction
from support.random_faults.partition_requests import TEMPORARY, produce

_PAUSE_S = 0.05
_RETRY_S = 0.1
_FLUSH_S = 30.0
_MOST_WAITING = 200
_PATIENT = {
    "acks": "all",
    # Longer than any round: a record is acknowledged in the end, or the round has failed.
    "message.timeout.ms": 600_000,
    "request.timeout.ms": 4_000,
    "socket.timeout.ms": 6_000,
    "retry.backoff.ms": 50,
    "retry.backoff.max.ms": 500,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 500,
    "topic.metadata.refresh.interval.ms": 2_000,
    "log_level": 0,
}
_EXPECTED = (
    KafkaError._FENCED,
    KafkaError.INVALID_PRODUCER_EPOCH,
    KafkaError.INVALID_PRODUCER_ID_MAPPING,
    KafkaError.INVALID_TXN_STATE,
)
"""Fatal errors after a transaction has timed out, or if the coordinator never learned of it because a request was lost."""


class Loading(threading.Thread):
    """A producer. `problems`: what a correct cluster never makes it report."""

    def __init__(self, cluster: Cluster, name: str, topic: str, partitions: int) -> None:
        super().__init__(name=name, daemon=True)
        self.cluster, self.topic = cluster, topic
        self.problems: list[str] = []
        self.rng = random.Random(f"{name} {cluster.plan.seed}")
        self.sent = [Sent(name, (topic, number)) for number in range(partitions)]
        self.ending = threading.Event()

    def run(self) -> None:
        try:
            self.play()
        except Exception as error:
            self.problems.append(f"{self.name}: {error!r}")

    def play(self) -> None:
        """Until `ending` is set, and then until everything is acknowledged."""
        raise NotImplementedError

    def finish(self, timeout_s: float) -> list[str]:
        """End it, and return its problems."""
        self.ending.set()
        self.join(timeout_s)
        if self.is_alive():
            self.problems.append(f"{self.name}: not done {timeout_s} s after everything healed")
        return self.problems

    def value(self, sent: Sent) -> bytes:
        """The next one for a partition, of any size up to two kilobytes."""
        size = int(2 ** self.rng.uniform(3, 11))
        value = f"{self.name}|{len(sent.sent)}|".encode().ljust(size, b".")
        sent.sent.append(value)
        return value

    def acknowledged(self, error: KafkaError | None, message: Message) -> None:
        """A delivery report."""
        partition, offset, value = message.partition(), message.offset(), message.value()
        assert partition is not None
        if error is not None:
            self.failed(error)
            return
        assert value is not None
        if offset is None:
            # The answer was that it has been there for long: only the last batches have offsets.
            self.sent[partition].unplaced.append(value)
            return
        before = self.sent[partition].acknowledged.setdefault(offset, value)
        if before != value:
            self.problems.append(f"{self.name}: offset {offset} was acknowledged twice")

    def failed(self, error: KafkaError) -> None:
        """A record that was given up."""
        self.problems.append(f"{self.name}: a record was refused: {error}")


class IdempotentLoad(Loading):
    """A stock idempotent producer."""

    def play(self) -> None:
        """See `Loading`."""
        producer = Producer(
            {
                **_PATIENT,
                "bootstrap.servers": self.cluster.bootstrap,
                "enable.idempotence": True,
                # With more, librdkafka takes a new epoch, and writes records twice, when a leader refuses a batch for lack of
                # replicas and accepts the next one that is under way. A stock leader has the same race.
                "max.in.flight.requests.per.connection": 1,
                "compression.type": self.cluster.plan.compression,
                "linger.ms": self.rng.choice((0, 5, 20)),
                "batch.num.messages": self.rng.choice((2, 5, 100)),
            }
        )
        while not self.ending.wait(_PAUSE_S):
            for _ in range(self.rng.randrange(6) if len(producer) < _MOST_WAITING else 0):
                sent = self.rng.choice(self.sent)
                number = sent.partition[1]
                producer.produce(
                    self.topic, self.value(sent), partition=number, on_delivery=self.acknowledged
                )
            producer.poll(0)
        left = len(producer)
        # On a busy machine it takes its time, but it goes on.
        while left and (now := producer.flush(_FLUSH_S)) < left:
            left = now
        if left:
            self.problems.append(f"{self.name}: {left} records are not acknowledged")


class HastyLoad(Loading):
    """A stock producer with acks=1. It may lose records, so leaders that are deposed have some that their successors lack."""

    def acknowledged(self, error: KafkaError | None, message: Message) -> None:
        """Promises nothing."""

    def play(self) -> None:
        """See `Loading`."""
        producer = Producer(
            {
                **_PATIENT,
                "bootstrap.servers": self.cluster.bootstrap,
                "acks": 1,
                "message.timeout.ms": 3_000,
                "linger.ms": 5,
                "compression.type": self.cluster.plan.compression,
            }
        )
        (sent,) = self.sent
        sent.in_order = False
        while not self.ending.wait(_PAUSE_S):
            for _ in range(self.rng.randrange(4) if len(producer) < _MOST_WAITING else 0):
                producer.produce(self.topic, self.value(sent), partition=0)
            producer.poll(0)
        producer.flush(_FLUSH_S)


class TransactionalLoad(Loading):
    """A stock transactional producer. It aborts some transactions, and recovers as its documentation says.

    With one addition. After an abort librdkafka gives the sequence numbers of records whose fate it does not know to later
    records, in the same epoch. If the earlier ones were written, each leader, also a stock one, rightly takes the later ones for
    duplicates: it acknowledges them, and does not write them. A new producer has another epoch.
    """

    def __init__(self, cluster: Cluster, name: str, topic: str, partitions: int) -> None:
        super().__init__(cluster, name, topic, partitions)
        self.transactions: list[Transaction] = []
        self._has_unknown_records = False

    def failed(self, error: KafkaError) -> None:
        """Records of an aborted transaction are purged; others fail the transaction, which says so itself."""
        self._has_unknown_records = True

    def play(self) -> None:
        """See `Loading`."""
        producer: Producer | None = None
        while not self.ending.is_set():
            if self._has_unknown_records:
                producer, self._has_unknown_records = None, False
            if producer is None:
                producer = self._new_producer()
                continue
            transaction = Transaction()
            self.transactions.append(transaction)
            try:
                self._one(producer, transaction)
            except KafkaException as failure:
                producer = self._recovered(producer, transaction, failure.args[0])

    def _recovered(
        self, producer: Producer, transaction: Transaction, error: KafkaError
    ) -> Producer | None:
        """The producer, with its transaction aborted; None if only another one can go on."""
        self._judge(error)
        if not error.fatal():
            try:
                self._repeated(producer.abort_transaction)
            except KafkaException as failure:
                self._judge(failure.args[0])
            else:
                # A commit whose answer was lost may have been carried out.
                transaction.committed = None if transaction.is_ending else False
                return producer
        return None

    def _judge(self, error: KafkaError) -> None:
        if error.fatal() and error.code() not in _EXPECTED:
            self.problems.append(f"{self.name}: {error.name()}: {error.str()}")

    def _new_producer(self) -> Producer | None:
        producer = Producer(
            {
                **{key: value for key, value in _PATIENT.items() if key != "message.timeout.ms"},
                "bootstrap.servers": self.cluster.bootstrap,
                "transactional.id": self.name,
                "transaction.timeout.ms": 30_000,
                "compression.type": self.cluster.plan.compression,
                "linger.ms": 5,
            }
        )
        try:
            producer.init_transactions(10)
        except KafkaException as failure:
            if not failure.args[0].retriable() and not failure.args[0].fatal():
                raise
            return None
        return producer

    def _one(self, producer: Producer, transaction: Transaction) -> None:
        producer.begin_transaction()
        for _ in range(self.rng.randint(1, 8)):
            sent = self.rng.choice(self.sent)
            value = self.value(sent)
            transaction.sent.append((sent.partition, value))
            producer.produce(
                self.topic, value, partition=sent.partition[1], on_delivery=self.acknowledged
            )
            producer.poll(self.rng.choice((0, 0, 0.05)))
        if self.rng.random() < 0.35:
            self._repeated(producer.abort_transaction)
            transaction.committed = False
            return
        transaction.is_ending = True
        self._repeated(producer.commit_transaction)
        transaction.committed = True

    def _repeated(self, end: Callable[[float], object]) -> None:
        """Commit or abort, again while librdkafka says that this is safe."""
        while True:
            try:
                end(10)
            except KafkaException as failure:
                if not failure.args[0].retriable():
                    raise
                continue
            return


class RepeatingLoad(Loading):
    """An idempotent producer that sends its last batch again now and then: a leader has to give it the offset that it had."""

    def play(self) -> None:
        """See `Loading`."""
        producer_id = self._producer_id()
        (sent,) = self.sent
        last: tuple[bytes, int] | None = None
        while not self.ending.wait(_PAUSE_S):
            if last is not None and self.rng.random() < 0.4:
                offset = self._placed(last[0])
                if offset != last[1]:
                    self.problems.append(
                        f"{self.name}: a repeated batch is at {offset}, and was at {last[1]}"
                    )
                continue
            sequence = len(sent.sent)
            data = self._batch(producer_id, sequence, self.value(sent))
            offset = self._placed(data)
            if offset is None:
                return
            sent.acknowledged[offset] = sent.sent[-1]
            last = data, offset

    def _producer_id(self) -> int:
        body = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1)
        while True:
            with contextlib.suppress(*NO_ANSWER):
                answer = self.cluster.request_any(INIT_PRODUCER_ID, body)
                assert isinstance(answer, InitProducerIdResponse)
                if not answer.error_code:
                    return answer.producer_id
            time.sleep(_RETRY_S)

    def _batch(self, producer_id: int, sequence: int, value: bytes) -> bytes:
        batch = data_batch(
            0,
            producer_id=producer_id,
            sequence=sequence,
            timestamp_ms=time.time_ns() // 1_000_000,
            records=[Record(None, value)],
        )
        assert isinstance(batch.data, bytes)
        return batch.data

    def _placed(self, data: bytes) -> int | None:
        """The offset that a leader acknowledged it with, at last; None with a final error, which is a problem."""
        given_up = None
        while True:
            if self.ending.is_set():
                given_up = given_up or time.monotonic() + 2 * _FLUSH_S
                if time.monotonic() > given_up:
                    self.problems.append(f"{self.name}: a batch is not acknowledged")
                    return None
            leader, topic_id = self._leader()
            if leader is not None and topic_id is not None:
                try:
                    answer = produce(self.cluster, leader, topic_id, 0, data)
                except NO_ANSWER:
                    continue
                if not answer.error_code:
                    return answer.base_offset
                if answer.error_code not in TEMPORARY:
                    code = ErrorCode(answer.error_code).name
                    self.problems.append(f"{self.name}: {leader} refuses a batch with {code}")
                    return None
            time.sleep(_RETRY_S)

    def _leader(self) -> tuple[int | None, UUID | None]:
        found = self.cluster.topics().get(self.topic)
        if found is None:
            return None, None
        leader = partition_of(found, 0).leader_id
        return (leader if leader >= 0 else None), found.topic_id


def loads(cluster: Cluster) -> Sequence[Loading]:
    """The producers of a round, each with a topic of its own. Transactions need a coordinator, which is a stock broker."""
    found: list[Loading] = [
        IdempotentLoad(cluster, "plain", "plain", 2),
        RepeatingLoad(cluster, "repeating", "repeating", 1),
        HastyLoad(cluster, "hasty", "hasty", 1),
    ]
    if cluster.plan.is_mixed:
        found.append(TransactionalLoad(cluster, "transactional", "transactional", 2))
    return found
