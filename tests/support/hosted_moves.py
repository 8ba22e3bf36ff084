"""A real node in the loop of a test, with brokers and a topic whose partitions can be reassigned: no data, no listeners.

Owns the requests of brokers to the controller. The tests start the reassignments.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx

from quorum_node.controller.view import ANONYMOUS, UNRESTRICTED
from quorum_node.protocol.alter_partition import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionRequest,
    IsrMember,
)
from quorum_node.protocol.create_topics import CreateTopicsRequest
from quorum_node.schema.schema import Message
from support.broker_requests import heartbeat, registration
from support.controlled_cluster import assigned
from support.hosted_node import Node, running_node

T = TypeVar("T")


class PendingRequest:
    """A request of a broker."""

    caller = ANONYMOUS
    takes_long = False

    def __init__(self, answer: asyncio.Future[Any]) -> None:
        self.answer = answer

    def reply(self, body: Message) -> None:
        """Called once."""
        self.answer.set_result(body)

    def prepare(self, work: Callable[[], T], then: Callable[[T], None]) -> None:
        """See `Asking`."""
        then(work())

    def use_thread(self) -> None:
        """See `Asking`: done at once nevertheless."""

    def reply_made(self, make: Callable[[], Message]) -> None:
        """See `Asking`."""
        self.reply(make())


class Moves:
    """Brokers 1 to 4, and a topic t with two partitions on brokers 1 and 2."""

    def __init__(self, node: Node, client: httpx.AsyncClient) -> None:
        self.client = client
        self.node = node
        self._epochs: dict[int, int] = {}

    async def prepare(self) -> None:
        """Register everyone, create the topic."""
        for _ in range(1000):  # it becomes active when its first record is applied
            if self.node.controller.controller.is_active:
                break
            await asyncio.sleep(0.01)
        for broker in (1, 2, 3, 4):
            epoch = (await self.ask(registration(broker, cluster_id="c"))).broker_epoch
            self._epochs[broker] = epoch
            assert not (await self.ask(heartbeat(broker, epoch, epoch))).is_fenced
        answer = await self.ask(CreateTopicsRequest(topics=(assigned("t", (1, 2), (1, 2)),)))
        assert answer.topics[0].error_code == 0
        self._topic_id = answer.topics[0].topic_id

    async def ask(self, body: Message) -> Any:
        """As a broker does, by Kafka's protocol."""
        requested = PendingRequest(asyncio.get_running_loop().create_future())
        self.node.controller.api.handle(requested, body, UNRESTRICTED)
        return await asyncio.wait_for(requested.answer, 10)

    async def catch_up(self, partition_id: int, *isr: int) -> None:
        """The leader, broker 1, reports the in-sync replicas."""
        topic = self.node.hosted.first.applier.image.topics.get(self._topic_id)
        assert topic is not None
        now = topic.partitions[partition_id]
        altered = AlteredPartition(
            partition_index=partition_id,
            leader_epoch=now.leader_epoch,
            new_isr_with_epochs=tuple(
                IsrMember(broker_id=each, broker_epoch=self._epochs[each]) for each in isr
            ),
            partition_epoch=now.partition_epoch,
        )
        request = AlterPartitionRequest(
            broker_id=1,
            broker_epoch=self._epochs[1],
            topics=(AlteredTopic(topic_id=self._topic_id, partitions=(altered,)),),
        )
        assert (await self.ask(request)).error_code == 0


@asynccontextmanager
async def moving_partitions(folder: Path, *, token: str | None = None) -> AsyncIterator[Moves]:
    """On a running node; the client has no token, unless it is given one."""
    async with running_node(folder) as node, node.client(token) as client:
        moves = Moves(node, client)
        await moves.prepare()
        yield moves
