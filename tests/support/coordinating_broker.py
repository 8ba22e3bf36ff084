"""Broker ME with its request handlers in this process, of which it coordinates all groups. Others may work between all steps of a request.

Runs in a loop with virtual time. Owns the wiring. The tests check the results.
"""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self, cast
from uuid import UUID

from quorum_node.protocol.api import Api
from quorum_node.protocol.broker_apis import BROKER_APIS
from quorum_node.protocol.frames import (
    SIZE_BYTES,
    decode_request,
    decode_response,
    encode_request,
)
from quorum_node.records.metadata import PartitionChangeRecord
from quorum_node.schema.schema import Message
from quorum_node.security.caller import ANONYMOUS
from quorum_node.server.broker.broker_api import BrokerApi
from quorum_node.server.broker.coordinator_lookup import CoordinatorLookup
from quorum_node.server.broker.events import BrokerEvents
from quorum_node.server.broker.group_api import GroupApi
from quorum_node.server.broker.group_coordinators import GroupCoordinators, LedGroups
from quorum_node.server.broker.internal_topics import OFFSETS_TOPIC
from quorum_node.server.broker.metadata_api import MetadataApi
from quorum_node.server.broker.transaction_coordinators import TransactionCoordinators
from quorum_node.server.listener.port import InboundRequest
from support.hosted_node import OneConnection
from support.hosted_replicas import ME, HostedReplicas, broker_config

MANY = 600
"""Partitions of topic `many`."""


class _Connection(OneConnection):
    """Lets others work between all steps."""

    meanwhile: Callable[[], None]

    def in_pieces(self, work: Iterator[object]) -> None:
        self.pieces = 0
        for _ in work:
            self.pieces += 1
            self.meanwhile()


class CoordinatingBroker:
    """It leads topic `t` of one partition, and coordinates all groups; topic `many` is on another broker."""

    def __init__(self, root: Path) -> None:
        self._hosted = hosted = HostedReplicas(root)
        hosted.create("t")
        hosted.create(OFFSETS_TOPIC)
        hosted.create_elsewhere("many", MANY)
        image, none = lambda: hosted.cluster.image, cast(Any, None)
        metadata = MetadataApi(ME, image, lambda: "c", lambda: 1)
        settings = broker_config().groups.settings
        self.groups = GroupCoordinators(hosted.replicas, settings, 1000, BrokerEvents())
        transactions = TransactionCoordinators(ME, image, lambda broker_id: None, hosted.peers)
        lookup = CoordinatorLookup(image, metadata.endpoint_to, none, transactions)
        self._api = BrokerApi(
            ME,
            hosted.replicas,
            metadata,
            none,
            none,
            {},
            hosted.directories,
            lookup,
            GroupApi(hosted.replicas, self.groups),
            none,
        )
        self.connection = _Connection(ANONYMOUS)

    async def __aenter__(self) -> Self:
        """Until the coordinator has read its log."""
        self.groups.image_changed()
        await asyncio.sleep(1)
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.groups.close()
        self._hosted.close()

    @property
    def led(self) -> LedGroups:
        (found,) = self.groups.led()
        return found

    def topic_id(self, name: str) -> UUID:
        return self._hosted.cluster.topic_id(name)

    def stored_batches(self) -> list[int]:
        """Numbers of records of all batches that the coordinator appends from now on."""
        found: list[int] = []
        append = self.led.log.append

        def counted(records: Any, stored: Any) -> None:
            found.append(len(records))
            append(records, stored)

        self.led.log.append = counted  # type: ignore[method-assign]
        return found

    def has(self, topic: str) -> bool:
        return self._hosted.cluster.image.topics.named(topic) is not None

    def delete(self, topic: str) -> None:
        self._hosted.delete(topic)
        self.groups.image_changed()

    def lose_and_regain_leadership(self) -> None:
        """The groups' partition has no leader for one leader epoch. Then this broker leads it again."""
        for leader in (-1, ME):
            change = PartitionChangeRecord(
                topic_id=self.topic_id(OFFSETS_TOPIC), partition_id=0, leader=leader, isr=(ME,)
            )
            self._hosted.cluster.replay([change])
            self._hosted.replicas.apply(self._hosted.cluster.image)
            self.groups.image_changed()

    def ask(self, api: Api, body: Message, meanwhile: Callable[[], None] = lambda: None) -> Any:
        """The answer, which is given at once. `meanwhile`: is called between all steps."""
        return self._answer_to(self._asked(api, body, meanwhile), api)

    async def ask_and_wait(
        self, api: Api, body: Message, meanwhile: Callable[[], None] = lambda: None
    ) -> Any:
        """The answer, which needs a thread."""
        inbound = self._asked(api, body, meanwhile)
        async with asyncio.timeout(60):
            while inbound.encoded is None:  # noqa: ASYNC110 - time is virtual
                await asyncio.sleep(0)
        return self._answer_to(inbound, api)

    def _asked(self, api: Api, body: Message, meanwhile: Callable[[], None]) -> InboundRequest:
        version = api.max_version
        frame = encode_request(api, version, 1, "a client", body)[SIZE_BYTES:]
        self.connection.meanwhile = meanwhile
        inbound = InboundRequest(self.connection, decode_request(frame, BROKER_APIS), 0.0)
        self._api.handle(inbound)
        return inbound

    def _answer_to(self, inbound: InboundRequest, api: Api) -> Any:
        assert inbound.encoded is not None
        return decode_response(api, api.max_version, b"".join(inbound.encoded)[SIZE_BYTES:])
