"""FindCoordinator: finds the leader of the partition that stores a group or a transactional id.

Source: the rules of a stock broker for FindCoordinator 0 to 6; KIP-699.
"""

from collections.abc import Callable, Iterable, Iterator

from quorum_node.controller.authorization import UNRESTRICTED, AclOperation, AclResource, Rights
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from quorum_node.server.broker.group_coordinators import partition_of
from quorum_node.server.broker.internal_topics import (
    OFFSETS_TOPIC,
    TRANSACTIONS_TOPIC,
    OffsetsTopicCreation,
)
from quorum_node.server.broker.produce_api import EndpointTo
from quorum_node.server.broker.transaction_coordinators import TransactionCoordinators
from quorum_node.server.listener.port import InboundRequest

_MANY_SINCE = 4
_SHARE_SINCE = 6
_GROUP, _TRANSACTION, _SHARE = 0, 1, 2
_SHARE_KEY_PARTS = 3
_NO_TRANSACTIONS = "no broker of this cluster coordinates transactions: brokers of this software do not, and there is no Apache Kafka broker"
_UNKNOWN_TYPE = "there is no coordinator of this type of key"
_TOO_OLD = "keys of share groups are supported from version 6 on"
_NO_SHARE_KEY = "the key has not the form group:topicId:partition"
_NOT_YET = "the coordinator is not available yet"


class CoordinatorLookup:
    """The handler of FindCoordinator. `transactions`: finds the coordinators of transactions."""

    def __init__(
        self,
        image: Callable[[], ClusterImage],
        endpoint_to: EndpointTo,
        creation: OffsetsTopicCreation,
        transactions: TransactionCoordinators,
    ) -> None:
        self._image = image
        self._endpoint_to = endpoint_to
        self._creation = creation
        self._transactions = transactions

    def find(
        self, inbound: InboundRequest, body: FindCoordinatorRequest, rights: Rights = UNRESTRICTED
    ) -> None:
        """Answer at once, or in pieces if there are many keys. Each key is authorized."""
        version, listener = inbound.request.version, inbound.caller.listener

        def answer(key: str) -> Coordinator:
            refused = _unauthorized(key, body.key_type, version, rights)
            return refused or self._find(key, body.key_type, listener)

        if version >= _MANY_SINCE:
            inbound.in_pieces(_answer_all(inbound, body.coordinator_keys, answer))
            return
        one = answer(body.key)
        inbound.reply(
            FindCoordinatorResponse(
                error_code=one.error_code,
                error_message=one.error_message,
                node_id=one.node_id,
                host=one.host,
                port=one.port,
            )
        )

    def _find(self, key: str, key_type: int, listener: str) -> Coordinator:
        if key_type == _GROUP:
            name = OFFSETS_TOPIC
        elif key_type == _TRANSACTION:
            if self._transactions.are_missing():
                # A fatal error for Java producers; with a retriable one they would retry forever.
                return _refused(key, ErrorCode.UNSUPPORTED_VERSION, _NO_TRANSACTIONS)
            name = TRANSACTIONS_TOPIC
        elif key_type != _SHARE:
            return _refused(key, ErrorCode.INVALID_REQUEST, _UNKNOWN_TYPE)
        elif len(key.split(":")) != _SHARE_KEY_PARTS:
            return _refused(key, ErrorCode.INVALID_REQUEST, _NO_SHARE_KEY)
        else:
            return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, _NOT_YET)
        topic = self._image().topics.named(name)
        if topic is None:
            if name == OFFSETS_TOPIC:
                self._creation.create()
            else:
                self._transactions.create_topic(key)
        partition = (
            None
            if topic is None
            else topic.partitions.get(partition_of(key, len(topic.partitions)))
        )
        endpoint = None if partition is None else self._endpoint_to(partition.leader, listener)
        if partition is None or endpoint is None:
            return _refused(key, ErrorCode.COORDINATOR_NOT_AVAILABLE, _NOT_YET)
        host, port, _ = endpoint
        return Coordinator(key=key, node_id=partition.leader, host=host, port=port)


def _answer_all(
    inbound: InboundRequest, keys: Iterable[str], answer: Callable[[str], Coordinator]
) -> Iterator[None]:
    found = []
    for key in keys:
        found.append(answer(key))
        yield
    inbound.reply(FindCoordinatorResponse(coordinators=tuple(found)))


def _refused(key: str, code: ErrorCode, why: str) -> Coordinator:
    return Coordinator(key=key, error_code=code, error_message=why)


_NEEDS = {
    _GROUP: (
        AclOperation.DESCRIBE,
        AclResource.GROUP,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ),
    _TRANSACTION: (
        AclOperation.DESCRIBE,
        AclResource.TRANSACTIONAL_ID,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
}


def _unauthorized(key: str, key_type: int, version: int, rights: Rights) -> Coordinator | None:
    """The refusal of a key that the caller may not look up; None if it may. The checks are in the order of a stock broker."""
    if key_type == _SHARE:
        if version < _SHARE_SINCE:
            return _refused(key, ErrorCode.INVALID_REQUEST, _TOO_OLD)
        if rights.allows(AclOperation.CLUSTER_ACTION, AclResource.CLUSTER):
            return None
        code, lacks = ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "CLUSTER_ACTION on CLUSTER"
    elif key_type in _NEEDS:
        operation, resource, code = _NEEDS[key_type]
        if rights.allows(operation, resource, key):
            return None
        lacks = f"{operation.name} on {resource.name}"
    else:
        return None
    return _refused(key, code, f"{lacks} is missing")
