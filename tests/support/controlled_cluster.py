"""A cluster from the view of its active controller: real commands on a real image, without a log.

Owns replaying decisions, and the inputs of views: UUIDs, random numbers, a clock. A decision counts as committed at once. Every record is
encoded and decoded, so that records that can't be written are detected.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from random import Random
from typing import Any, TypeVar
from uuid import UUID

from quorum_node.controller.decision import Decision
from quorum_node.controller.leases import BrokerLeases
from quorum_node.controller.view import ANONYMOUS, UNRESTRICTED, Caller, Rights, Settings, View
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.image.partition import Partition
from quorum_node.protocol.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
)
from quorum_node.records.identity import ReplicaKey
from quorum_node.records.metadata import (
    LATEST_LEVEL,
    METADATA_VERSION,
    BrokerRegistrationChangeRecord,
    FeatureLevelRecord,
    MetadataMessage,
    RegisterBrokerRecord,
    decode_metadata,
    encode_metadata,
    record_version,
)
from quorum_node.records.metadata.metadata_version import DIRECTORIES_LEVEL
from quorum_node.schema.schema import Message
from quorum_node.security.authorizer import AuthorizerSettings
from quorum_node.security.rights.request_authorizer import AccessSettings, Asked, RequestAuthorizer

NODE_ID = 100

_M = TypeVar("_M", bound=Message)


def directory_of(broker_id: int) -> UUID:
    """The only directory of a broker."""
    return UUID(int=(1 << 100) + broker_id)


class ControlledCluster:
    """Brokers, topics and their changes."""

    def __init__(
        self,
        brokers: Iterable[int] = (),
        *,
        racks: dict[int, str] | None = None,
        level: int = LATEST_LEVEL,
        seed: int = 1,
        settings: Settings | None = None,
    ) -> None:
        self.image = ClusterImage()
        self.settings = settings or Settings()
        self.caller: Caller = ANONYMOUS
        self.authorizer: AuthorizerSettings | None = None
        """The settings that requests are checked with, if any."""
        self.voters: tuple[ReplicaKey, ...] = (ReplicaKey(NODE_ID),)
        self.decided: list[MetadataMessage] = []
        self.offset = 0
        self._random = Random(seed)
        self.replay([FeatureLevelRecord(name=METADATA_VERSION, feature_level=level)])
        for broker_id in brokers:
            self.register(broker_id, rack=(racks or {}).get(broker_id))

    # # -- what brokers do, without the commands for it

    def register(self, broker_id: int, *, rack: str | None = None, fenced: bool = False) -> int:
        """A new process of a broker; its epoch."""
        epoch, level = self.offset, self.image.features.metadata_version
        record = RegisterBrokerRecord(
            broker_id=broker_id,
            incarnation_id=UUID(int=self._random.getrandbits(128)),
            broker_epoch=epoch,
            end_points=(),
            features=(),
            rack=rack,
            fenced=fenced,
            log_dirs=(directory_of(broker_id),) if level >= DIRECTORIES_LEVEL else (),
        )
        self.replay([record])
        return epoch

    def epoch(self, broker_id: int) -> int:
        """The broker epoch."""
        broker = self.image.brokers.get(broker_id)
        assert broker is not None
        return broker.broker_epoch

    def change(self, broker_id: int, **fields: Any) -> None:
        """Fence it, begin its shutdown, change its directories."""
        epoch = self.epoch(broker_id)
        record = BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=epoch, **fields)
        self.replay([record])

    def fence(self, broker_id: int, *, fenced: bool = True) -> None:
        """Changes only the registration; its partitions are changed by another command."""
        self.change(broker_id, fenced=1 if fenced else -1)

    # -- the controller

    def view(self, rights: Rights = UNRESTRICTED) -> View:
        """The view that a command gets now."""
        return View(
            image=self.image,
            leases=BrokerLeases(9_000.0),
            now_ms=0.0,
            fresh_uuid=lambda: UUID(int=self._random.getrandbits(128)),
            random=self._random.randrange,
            leader_epoch=1,
            next_offset=self.offset,
            node_id=NODE_ID,
            voters=self.voters,
            settings=self.settings,
            caller=self.caller,
            rights=rights,
        )

    def ask(
        self, command: Callable[[View, Any], Decision], request: Message, answer: type[_M]
    ) -> _M:
        """Decide, replay, and return the answer."""
        rights: Rights = UNRESTRICTED
        if self.authorizer is not None:
            judged = RequestAuthorizer(AccessSettings(self.authorizer), self.image.acls)
            requested = judged.request(self.caller, request)
            assert isinstance(requested, Asked), requested
            rights = requested
        decision = command(self.view(rights), request)
        self.take(decision)
        assert isinstance(decision.answer, answer)
        return decision.answer

    def take(self, decision: Decision) -> tuple[MetadataMessage, ...]:
        """Replay a decision."""
        self.decided.extend(decision.records)
        self.replay(decision.records)
        return decision.records

    def replay(self, records: Iterable[MetadataMessage]) -> None:
        """Records of the log, at the versions of the finalized level."""
        for record in records:
            level = self.image.features.metadata_version
            assert isinstance(record, MetadataMessage)
            value = encode_metadata(record, record_version(type(record), level))
            self.image = self.image.replay(decode_metadata(value))
            self.offset += 1

    # -- looking at it

    def topic_id(self, name: str) -> UUID:
        """The id of a topic that there is."""
        topic = self.image.topics.named(name)
        assert topic is not None
        return topic.topic_id

    def partition(self, name: str, partition_id: int = 0) -> Partition:
        """A partition that there is."""
        topic = self.image.topics.named(name)
        assert topic is not None
        return topic.partitions[partition_id]

    def with_settings(self, **changes: Any) -> None:
        """From now on."""
        self.settings = replace(self.settings, **changes)


def assigned(name: str, *replicas: tuple[int, ...], **configs: str) -> CreatableTopic:
    """A topic whose partitions have these replicas; a config's dots are written as underscores."""
    return CreatableTopic(
        name=name,
        assignments=tuple(
            CreatableReplicaAssignment(partition_index=index, broker_ids=each)
            for index, each in enumerate(replicas)
        ),
        configs=tuple(
            CreatableTopicConfig(name=key.replace("_", "."), value=value)
            for key, value in configs.items()
        ),
    )
