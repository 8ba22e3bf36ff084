"""Finds the transaction coordinators: brokers of Apache Kafka are coordinators, brokers of this software are not yet.

Owns which live brokers support coordination, the look-up of a transactional id's coordinator, and the request to create the topic of
transactions. Does not coordinate transactions itself.
"""

from collections.abc import Callable

from quorum_node.controller.feature_levels import BROKER_OF_THIS_SOFTWARE
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.protocol.api_versions import ApiVersionsRequest, ApiVersionsResponse
from quorum_node.protocol.apis import API_VERSIONS
from quorum_node.protocol.broker_apis import ADD_PARTITIONS_TO_TXN, FIND_COORDINATOR
from quorum_node.protocol.find_coordinator import FindCoordinatorRequest
from quorum_node.raft.events import FailureReason
from quorum_node.records.identity import Endpoint
from quorum_node.records.metadata import RegisterBrokerRecord
from quorum_node.schema.schema import Message
from quorum_node.server.broker.group_coordinators import partition_of
from quorum_node.server.broker.internal_topics import TRANSACTIONS_TOPIC
from quorum_node.server.peers.port import Peers

_TIMEOUT_MS = 5_000
_TRANSACTION = 1


class TransactionCoordinators:
    """Finds coordinators. `endpoint_of`: the endpoint of a broker for this broker."""

    def __init__(
        self,
        broker_id: int,
        image: Callable[[], ClusterImage],
        endpoint_of: Callable[[int], Endpoint | None],
        peers: Peers,
    ) -> None:
        self._broker_id = broker_id
        self._image = image
        self._endpoint_of = endpoint_of
        self._peers = peers
        self._known: dict[tuple[int, int], bool] = {}
        """(broker id, broker epoch) → whether it coordinates transactions."""
        self._asked: set[tuple[int, int]] = set()
        self._is_creating = False

    def endpoint(self, transactional_id: str) -> Endpoint | None:
        """The endpoint of the id's coordinator, or None if it is unknown."""
        topic = self._image().topics.named(TRANSACTIONS_TOPIC)
        if topic is None:
            return None
        partition = topic.partitions.get(partition_of(transactional_id, len(topic.partitions)))
        if partition is None or partition.leader < 0:
            return None
        return self._endpoint_of(partition.leader)

    def are_missing(self) -> bool:
        """Whether all other live brokers have answered that they do not coordinate transactions. Sends the missing requests.

        Nor is any registered broker of Apache Kafka fenced: it is back soon, and producers would regard the error as final.
        """
        others = [
            each
            for each in self._image().brokers.by_id.values()
            if each.broker_id != self._broker_id
        ]
        live = {(each.broker_id, each.broker_epoch) for each in others if not each.fenced}
        self._known = {each: can for each, can in self._known.items() if each in live}
        for each in live - self._known.keys() - self._asked:
            self._ask(each)
        may_be_back = any(each.fenced and not _is_of_this_software(each) for each in others)
        return not may_be_back and all(self._known.get(each) is False for each in live)

    def create_topic(self, transactional_id: str) -> None:
        """Have a coordinator create the topic of transactions, unless such a request is in flight.

        It does so when it is asked for the coordinator of a transactional id. It has to be created with the number of partitions
        in the configuration of the coordinators, which is not known here.
        """
        if self._is_creating:
            return
        known = (broker_id for (broker_id, _), can in self._known.items() if can)
        endpoint = next(filter(None, map(self._endpoint_of, known)), None)
        if endpoint is None:
            return
        self._is_creating = True

        def answered(outcome: Message | FailureReason) -> None:
            self._is_creating = False

        request = FindCoordinatorRequest(
            key_type=_TRANSACTION, coordinator_keys=(transactional_id,)
        )
        self._peers.ask(endpoint, FIND_COORDINATOR, request, answered, timeout_ms=_TIMEOUT_MS)

    def _ask(self, broker: tuple[int, int]) -> None:
        endpoint = self._endpoint_of(broker[0])
        if endpoint is None:
            return
        self._asked.add(broker)

        def answered(outcome: Message | FailureReason) -> None:
            self._asked.discard(broker)
            if isinstance(outcome, ApiVersionsResponse) and not outcome.error_code:
                keys = {each.api_key for each in outcome.api_keys}
                self._known[broker] = ADD_PARTITIONS_TO_TXN.key in keys

        request = ApiVersionsRequest(
            client_software_name="metadataquorum", client_software_version="broker"
        )
        self._peers.ask(endpoint, API_VERSIONS, request, answered, timeout_ms=_TIMEOUT_MS)


def _is_of_this_software(broker: RegisterBrokerRecord) -> bool:
    return any(each.name == BROKER_OF_THIS_SOFTWARE for each in broker.features)
