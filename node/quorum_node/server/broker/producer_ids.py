"""Assigns ids to idempotent producers, from blocks that the active controller allocates.

Owns the time when the next block is requested: before the current one is used up.
Source: KIP-730; the rules of a stock broker's RPCProducerIdManager.
"""

import asyncio
from collections.abc import Callable

from quorum_node.protocol.apis import ALLOCATE_PRODUCER_IDS
from quorum_node.protocol.producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from quorum_node.raft.events import FailureReason
from quorum_node.schema.schema import Message
from quorum_node.server.broker.controller_channel import ControllerChannel

_REFILL_AT = 100
"""The next block is requested when this number of ids is left. The controller allocates blocks of 1000."""
_PAUSE_SECONDS = 0.05


class ProducerIds:
    """The allocated ids of one broker. `own`: (broker id, broker epoch) of this run."""

    def __init__(self, channel: ControllerChannel, own: Callable[[], tuple[int, int]]) -> None:
        self._channel = channel
        self._own = own
        self._loop = asyncio.get_running_loop()
        self._block = range(0)
        self._next_block = range(0)
        self._asked = False

    def take(self) -> int | None:
        """Take a new id. None until the next block arrives, if no id is left."""
        if not self._block:
            self._block, self._next_block = self._next_block, range(0)
        found = None
        if self._block:
            found, self._block = self._block[0], self._block[1:]
        if len(self._block) < _REFILL_AT and not self._next_block:
            self._ask()
        return found

    def _ask(self) -> None:
        if self._asked:
            return
        self._asked = True
        broker_id, broker_epoch = self._own()
        request = AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=broker_epoch)
        self._channel.ask(ALLOCATE_PRODUCER_IDS, request, self._answered)

    def _answered(self, outcome: Message | FailureReason) -> None:
        if isinstance(outcome, AllocateProducerIdsResponse) and not outcome.error_code:
            self._asked = False
            start = outcome.producer_id_start
            self._next_block = range(start, start + outcome.producer_id_len)
            return
        # The client retries. The pause limits the rate of requests to the controller.
        self._loop.call_later(_PAUSE_SECONDS, self._may_ask)

    def _may_ask(self) -> None:
        self._asked = False
