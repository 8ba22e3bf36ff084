"""The internal topics of brokers: their names, and the creation of `__consumer_offsets`.

Owns the creation request: at most one is in flight. Source: the rules of a stock broker's AutoTopicCreationManager.
"""

from quorum_node.configuration.group_config import GroupConfig
from quorum_node.protocol.apis import CREATE_TOPICS
from quorum_node.protocol.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.raft.events import FailureReason
from quorum_node.schema.schema import Message
from quorum_node.server.broker.controller_channel import ControllerChannel
from quorum_node.server.broker.events import BrokerEvents

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, "__share_group_state"})


class OffsetsTopicCreation:
    """Creates `__consumer_offsets` on behalf of one broker."""

    def __init__(
        self, channel: ControllerChannel, config: GroupConfig, events: BrokerEvents
    ) -> None:
        self._channel = channel
        self._config = config
        self._events = events
        self._is_asked = False
        self._reported: str | None = None

    def create(self) -> None:
        """Send a creation request to the active controller, unless one is in flight."""
        if self._is_asked:
            return
        self._is_asked = True
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(self._config.segment_bytes),
        }
        topic = CreatableTopic(
            name=OFFSETS_TOPIC,
            num_partitions=self._config.partitions,
            replication_factor=self._config.replication_factor,
            configs=tuple(
                CreatableTopicConfig(name=name, value=value) for name, value in configs.items()
            ),
        )
        self._channel.ask(CREATE_TOPICS, CreateTopicsRequest(topics=(topic,)), self._answered)

    def _answered(self, outcome: Message | FailureReason) -> None:
        self._is_asked = False
        if not isinstance(outcome, CreateTopicsResponse) or not outcome.topics:
            return  # retried when the client retries
        created = outcome.topics[0]
        if created.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            return
        why = created.error_message or f"error {created.error_code}"
        if why != self._reported:
            self._reported = why
            self._events.no_offsets_topic(why)
