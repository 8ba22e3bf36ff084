"""Sends ISR changes to the active controller: AlterPartition, one request at a time, in the order of the proposals.

Owns the batching, one proposal for each partition, and the translation of the controller's error codes into outcomes for the core. The
core decides when an ISR has to change.
Source: KIP-497, KIP-841, KIP-903; the rules of a stock broker's AlterPartitionManager.
"""

import asyncio
from collections.abc import Callable
from uuid import UUID

from quorum_node.broker.errors import IsrError
from quorum_node.broker.events import IsrRefused, IsrTaken
from quorum_node.broker.outputs import ProposeIsr
from quorum_node.image.topics import PartitionKey
from quorum_node.protocol.alter_partition import (
    AlteredPartition,
    AlteredPartitionState,
    AlteredTopic,
    AlterPartitionRequest,
    AlterPartitionResponse,
    IsrMember,
)
from quorum_node.protocol.apis import ALTER_PARTITION
from quorum_node.protocol.errors import ErrorCode
from quorum_node.raft.events import FailureReason
from quorum_node.schema.schema import Message
from quorum_node.server.broker.controller_channel import ControllerChannel
from quorum_node.server.broker.hosted_replica import HostedReplica

_RETRY_SECONDS = 0.1
_ERRORS: dict[int, IsrError] = {
    ErrorCode.OPERATION_NOT_ATTEMPTED: IsrError.NOT_ATTEMPTED,
    ErrorCode.INELIGIBLE_REPLICA: IsrError.INELIGIBLE_REPLICA,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: IsrError.OVERTAKEN,
    ErrorCode.UNKNOWN_TOPIC_ID: IsrError.OVERTAKEN,
    ErrorCode.FENCED_LEADER_EPOCH: IsrError.OVERTAKEN,
    ErrorCode.INVALID_UPDATE_VERSION: IsrError.OVERTAKEN,
    ErrorCode.INVALID_REQUEST: IsrError.OVERTAKEN,
    ErrorCode.NEW_LEADER_ELECTED: IsrError.OVERTAKEN,
}
"""The outcomes of known errors. After any other error it is unknown whether the change was made (UNANSWERED)."""

_Proposals = dict[PartitionKey, tuple[HostedReplica, ProposeIsr]]


class IsrRequests:
    """The queue of proposals of one broker. `epochs`: (broker id, broker epoch) of this run."""

    def __init__(self, channel: ControllerChannel, epochs: Callable[[], tuple[int, int]]) -> None:
        self._channel = channel
        self._epochs = epochs
        self._loop = asyncio.get_running_loop()
        self._waiting: _Proposals = {}
        self._sent: _Proposals = {}
        self._timer: asyncio.Handle | None = None

    def propose(self, replica: HostedReplica, output: ProposeIsr) -> None:
        """Send the proposal once the previous request is answered. It replaces an earlier proposal of the same partition."""
        self._waiting[replica.key] = replica, output
        self._send_soon(0.0)

    def close(self) -> None:
        """Stop sending requests."""
        if self._timer is not None:
            self._timer.cancel()
        self._waiting.clear()

    def _send_soon(self, delay_seconds: float) -> None:
        if self._timer is None and not self._sent:
            self._timer = self._loop.call_later(delay_seconds, self._send)

    def _send(self) -> None:
        self._timer = None
        if not self._waiting:
            return
        self._sent, self._waiting = self._waiting, {}
        broker_id, broker_epoch = self._epochs()
        topics: dict[UUID, list[AlteredPartition]] = {}
        for key, (_, output) in self._sent.items():
            topics.setdefault(key.topic_id, []).append(_asked(key, output))
        request = AlterPartitionRequest(
            broker_id=broker_id,
            broker_epoch=broker_epoch,
            topics=tuple(
                AlteredTopic(topic_id=topic_id, partitions=tuple(partitions))
                for topic_id, partitions in topics.items()
            ),
        )
        self._channel.ask(ALTER_PARTITION, request, self._answered)

    def _answered(self, outcome: Message | FailureReason) -> None:
        sent, self._sent = self._sent, {}
        states: dict[PartitionKey, AlteredPartitionState] = {}
        if isinstance(outcome, AlterPartitionResponse) and not outcome.error_code:
            states = {
                PartitionKey(topic.topic_id, each.partition_index): each
                for topic in outcome.topics
                if topic.topic_id is not None
                for each in topic.partitions
            }
        # After a refusal the core may propose again at once. The pause prevents a busy loop.
        pause = _RETRY_SECONDS if len(states) < len(sent) else 0.0
        self._timer = self._loop.call_later(pause, self._send)
        for key, (replica, output) in sent.items():
            replica.take(_outcome(output, states.get(key)))


def _asked(key: PartitionKey, output: ProposeIsr) -> AlteredPartition:
    return AlteredPartition(
        partition_index=key.partition_id,
        leader_epoch=output.leader_epoch,
        new_isr_with_epochs=tuple(
            IsrMember(broker_id=broker_id, broker_epoch=epoch)
            for broker_id, epoch in output.members
        ),
        partition_epoch=output.partition_epoch,
    )


def _outcome(output: ProposeIsr, state: AlteredPartitionState | None) -> IsrTaken | IsrRefused:
    if state is None:
        return IsrRefused(output.proposal_id, IsrError.UNANSWERED)
    if state.error_code:
        error = _ERRORS.get(state.error_code, IsrError.UNANSWERED)
        return IsrRefused(output.proposal_id, error)
    return IsrTaken(output.proposal_id, state.leader_epoch, state.partition_epoch, state.isr)
