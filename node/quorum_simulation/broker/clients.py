"""Idempotent producers that retry until they get a response, and a consumer.

Owns what clients expect. Must not know replicas.
"""

from typing import TYPE_CHECKING

from quorum_node.broker.batch import Batch
from quorum_node.broker.errors import BrokerError
from quorum_node.broker.events import ConsumerFetched, Produced
from quorum_node.broker.outputs import ProduceAnswered, ServeFetch

if TYPE_CHECKING:
    from quorum_simulation.broker.world import World

ANSWER_TIMEOUT_MS = 150.0


class Producer:
    """Sends one batch at a time with acks=all. The batch is repeated until it is acknowledged, to any broker that may lead."""

    def __init__(self, world: "World", producer_id: int, number: int, goal: int) -> None:
        self.world, self.producer_id, self.number, self.goal = world, producer_id, number, goal
        self.acknowledged = 0
        self._sequence = 0
        self._count = 1
        self._attempt = 0
        self._target = 0

    @property
    def is_done(self) -> bool:
        """Whether all batches are acknowledged."""
        return self.acknowledged >= self.goal

    def begin(self) -> None:
        """Send the first batch."""
        self._target = self.world.random.choice(sorted(self.world.brokers))
        self._count = self.world.random.randint(1, 3)
        self._send()

    def _batch(self) -> Batch:
        return Batch(
            base_offset=0,
            end_offset=self._count,
            leader_epoch=-1,
            size_bytes=100 * self._count,
            data=(self.producer_id, self._sequence, self._count),
            producer_id=self.producer_id,
            producer_epoch=0,
            base_sequence=self._sequence,
        )

    def _send(self) -> None:
        if self.is_done:
            return
        self._attempt += 1
        attempt, world = self._attempt, self.world
        broker = world.brokers[self._target]

        def deliver() -> None:
            event = Produced(broker.next_request_id(), self._batch(), -1, 80.0)
            broker.produce(
                self.number, event, lambda answer: world.deliver(self._answered, attempt, answer)
            )

        world.to_broker(broker, deliver)
        world.scheduler.after(ANSWER_TIMEOUT_MS, self._time_out, attempt)

    def _time_out(self, attempt: int) -> None:
        if attempt == self._attempt:
            self._again()

    def _answered(self, attempt: int, answer: ProduceAnswered) -> None:
        if answer.error is BrokerError.NONE and attempt == self._attempt:
            self.world.watch.acknowledged(self.number, answer.base_offset, self._batch())
            self.acknowledged += 1
            self._sequence += self._count
            self._count = self.world.random.randint(1, 3)
            self._attempt += 1
            self.world.scheduler.after(self.world.random.random() * 20, self._send)
            return
        self.world.watch.refused(answer.error)
        if attempt == self._attempt:
            if answer.error is BrokerError.OUT_OF_ORDER_SEQUENCE_NUMBER:
                self.world.watch.out_of_order(self.number, self._target)
            self._attempt += 1
            self.world.scheduler.after(5, self._again)

    def _again(self) -> None:
        self._target = self.world.random.choice(sorted(self.world.brokers))
        self._send()


class Consumer:
    """Reads from any broker that serves it; must never see an uncommitted record."""

    def __init__(self, world: "World", number: int) -> None:
        self.world, self.number, self.offset = world, number, 0

    def begin(self) -> None:
        """Run without end."""
        world = self.world
        broker = world.brokers[world.random.choice(sorted(world.brokers))]

        def deliver() -> None:
            event = ConsumerFetched(broker.next_request_id(), self.offset)
            begins_at = broker.replicas[self.number].start_offset
            broker.fetch(self.number, event, lambda answer: self._answered(answer))
            # As with auto.offset.reset=earliest: the records before have been deleted.
            self.offset = max(self.offset, begins_at)

        world.to_broker(broker, deliver)
        world.scheduler.after(10 + world.random.random() * 30, self.begin)

    def _answered(self, answer: object) -> None:
        if not isinstance(answer, tuple):
            return
        serve: ServeFetch = answer[0]
        for batch in answer[1]:
            self.world.watch.consumed(self.number, batch)
            if batch.base_offset <= self.offset < batch.end_offset:
                self.offset = batch.end_offset
        assert serve.end_offset <= max(serve.high_watermark, serve.fetch_offset)
