"""Two clusters with an authorizer: a stock broker and one of ours, each with the same topics, groups, principals and rights.

Owns the clients and the form in which answers are compared. The controllers of both are of this software.
"""

import socket
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any
from uuid import UUID

from quorum_node.protocol import broker_apis
from quorum_node.protocol.acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from quorum_node.protocol.api import Api
from quorum_node.protocol.apis import CREATE_ACLS, CREATE_TOPICS
from quorum_node.protocol.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from quorum_node.protocol.find_coordinator import FindCoordinatorRequest
from quorum_node.protocol.frames import decode_response, encode_request, read_frame
from quorum_node.protocol.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from quorum_node.protocol.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from quorum_node.protocol.offset_commit import OffsetCommitResponse
from quorum_node.schema.schema import Message
from quorum_node.security.acl_terms import AclOperation, AclResource
from support.generated_certificates import issue
from support.local_quorum import wait_until
from support.mixed_rights.group_requests import commit
from support.mixed_rights.items import EXISTING, PREFIX, UNKNOWN_ID, Case, Ids
from support.one_request import opened
from support.tls_quorum import HOURS, TlsQuorum, client_context, now, write_folder

Right = tuple[AclResource, AclOperation]
_CLUSTER, _LITERAL, _PREFIXED, _ALLOW = "kafka-cluster", 3, 4, 3
_TIMEOUT_SECONDS = 40.0
_MAX_ANSWER_BYTES = 1 << 20
_DIFFERING = frozenset(
    {
        "cluster_id",
        "error_message",
        "host",
        "log_dir",
        "port",
        "producer_id",
        "throttle_time_ms",
        "total_bytes",
        "usable_bytes",
    }
)
"""Fields that differ between any two brokers, and texts for people."""


@dataclass
class Side:
    """One cluster of one broker, and its clients by name. `admin` is a super user."""

    quorum: TlsQuorum
    broker_id: int
    port: int
    contexts: dict[str, ssl.SSLContext] = field(default_factory=dict)
    connections: dict[str, socket.socket] = field(default_factory=dict)
    """One for each client."""
    ids: Ids = field(default_factory=lambda: Ids({}))

    def __post_init__(self) -> None:
        self.contexts["admin"] = self._context("admin")

    def is_live(self) -> bool:
        """Whether the broker serves clients and is unfenced."""
        try:
            found = self.ask("admin", broker_apis.METADATA, 12, MetadataRequest(topics=()))
        except OSError:
            return False
        assert isinstance(found, MetadataResponse)
        return [each.node_id for each in found.brokers] == [self.broker_id]

    def sees(self, who: str, topic: str) -> bool:
        """Whether the client may describe the topic."""
        asked = (MetadataRequestTopic(name=topic),)
        found = self.ask(who, broker_apis.METADATA, 12, MetadataRequest(topics=asked))
        assert isinstance(found, MetadataResponse)
        return not found.topics[0].error_code

    def has_producer_ids(self) -> bool:
        """Whether InitProducerId succeeds."""
        body = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1_000)
        found = self.ask("admin", broker_apis.INIT_PRODUCER_ID, 5, body)
        assert isinstance(found, InitProducerIdResponse)
        return not found.error_code

    def add(self, name: str, rights: tuple[Right, ...]) -> None:
        """A client with these rights on the cluster and on all names with the prefix."""
        made = issue(
            name, issuer=self.quorum.ca, start=now() - HOURS, end=now() + HOURS, hosts=(), uris=()
        )
        write_folder(self.quorum.folder(name), made, *self.quorum.trusted)
        self.contexts[name] = self._context(name)
        entries = tuple(
            AclCreation(
                resource_type=int(resource),
                resource_name=_CLUSTER if resource is AclResource.CLUSTER else PREFIX,
                resource_pattern_type=_LITERAL if resource is AclResource.CLUSTER else _PREFIXED,
                principal=f"User:CN={name}",
                host="*",
                operation=int(operation),
                permission_type=_ALLOW,
            )
            for resource, operation in rights
        )
        answer = self.ask(
            "admin", CREATE_ACLS, CREATE_ACLS.max_version, CreateAclsRequest(creations=entries)
        )
        assert isinstance(answer, CreateAclsResponse)
        assert not any(each.error_code for each in answer.results), answer

    def fill(self) -> None:
        """Create the topics. Each group has committed offsets when this returns."""
        topics = tuple(
            CreatableTopic(
                name=name, num_partitions=1, replication_factor=1, assignments=(), configs=()
            )
            for name in EXISTING
        )
        body = CreateTopicsRequest(topics=topics, timeout_ms=10_000)
        answer = self.ask("admin", CREATE_TOPICS, CREATE_TOPICS.max_version, body)
        assert isinstance(answer, CreateTopicsResponse)
        assert not any(each.error_code for each in answer.topics), answer
        self.ids = Ids({str(each.name): _known(each.topic_id) for each in answer.topics})
        wait_until(self.commits, "the groups are coordinated and the topics known", 60)

    def commits(self) -> bool:
        """Commit offsets in each group, as the administrator. False if that failed."""
        # The first look-up creates the topic of offsets.
        body = FindCoordinatorRequest(key_type=0, coordinator_keys=EXISTING)
        self.ask("admin", broker_apis.FIND_COORDINATOR, 4, body)
        return all(self._committed(group) for group in EXISTING)

    def _committed(self, group: str) -> bool:
        answer = self.ask("admin", broker_apis.OFFSET_COMMIT, 9, commit(group, None))
        assert isinstance(answer, OffsetCommitResponse)
        codes = {
            (topic.name, each.partition_index): each.error_code
            for topic in answer.topics
            for each in topic.partitions
        }
        return not any(codes[name, 0] for name in EXISTING)

    def ask(self, who: str, api: Api, version: int, body: Message) -> Message:
        """One request. Raises OSError if the broker closes the connection."""
        if who not in self.connections:
            address = "127.0.0.1", self.port
            self.connections[who] = opened(address, _TIMEOUT_SECONDS, self.contexts[who])
        connection = self.connections[who]
        try:
            connection.sendall(encode_request(api, version, 1, "mixed-rights", body))
            return decode_response(api, version, read_frame(connection.recv, _MAX_ANSWER_BYTES))
        except OSError:
            self.connections.pop(who).close()
            raise

    def close(self) -> None:
        """Close all connections."""
        for each in self.connections.values():
            each.close()

    def answer(self, who: str, case: Case) -> Any:
        """The answer in the form that is compared."""
        api, version, make = case
        try:
            found = self.ask(who, api, version, make(self.ids))
        except ConnectionError:
            return "closed"
        return shape(found, self._renamed())

    def _renamed(self) -> Callable[[Any], Any]:
        names: Mapping[Any, str] = {id_: name for name, id_ in self.ids.by_name.items()}

        def renamed(value: Any) -> Any:
            if value == self.broker_id:
                return "the broker"
            if isinstance(value, UUID) and value != UNKNOWN_ID:
                return names.get(value, "an id")
            return value

        return renamed

    def _context(self, name: str) -> ssl.SSLContext:
        folder = self.quorum.folder(name)
        return client_context(folder, self.quorum.folder("admin") / "ca.crt")


def shape(part: Any, renamed: Callable[[Any], Any]) -> Any:
    """All fields that have to be equal. The order of a list's elements is up to the broker."""
    if isinstance(part, tuple):
        found = [shape(each, renamed) for each in part]
        return tuple(sorted(_joined(found), key=repr))
    if isinstance(part, Message):
        return {
            each.name: shape(getattr(part, each.name), renamed)
            for each in fields(part)
            if each.name not in _DIFFERING
        }
    if isinstance(part, memoryview):
        return bytes(part)
    return renamed(part)


def _joined(found: list[Any]) -> list[Any]:
    """A stock broker repeats a topic in an answer to Fetch where partitions of another one are between its partitions."""
    if not all(isinstance(each, dict) and {"topic", "partitions"} <= each.keys() for each in found):
        return found
    by_topic: dict[str, Any] = {}
    for each in found:
        rest = {key: value for key, value in each.items() if key != "partitions"}
        by_topic.setdefault(repr(rest), {**rest, "partitions": ()})["partitions"] += each[
            "partitions"
        ]
    return [
        {**each, "partitions": tuple(sorted(each["partitions"], key=repr))}
        for each in by_topic.values()
    ]


def _known(topic_id: UUID | None) -> UUID:
    assert topic_id is not None
    return topic_id
