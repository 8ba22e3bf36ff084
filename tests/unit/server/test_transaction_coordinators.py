"""FindCoordinator for transactional ids: brokers of this software coordinate no transactions, and send clients to those that do."""

from dataclasses import replace

from quorum_node.controller.feature_levels import BROKER_OF_THIS_SOFTWARE
from quorum_node.controller.topics import create_topics
from quorum_node.protocol.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from quorum_node.protocol.broker_apis import ADD_PARTITIONS_TO_TXN, FIND_COORDINATOR
from quorum_node.protocol.create_topics import CreateTopicsRequest, CreateTopicsResponse
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from quorum_node.records.identity import Endpoint
from quorum_node.records.metadata.broker_records import SupportedFeature
from quorum_node.server.broker.coordinator_lookup import CoordinatorLookup
from quorum_node.server.broker.transaction_coordinators import TransactionCoordinators
from support.controlled_cluster import ControlledCluster, assigned
from support.hosted_replicas import SilentPeers, answered

ME, OTHER, STOCK = 201, 202, 101
TRANSACTION = 1


class Found:
    """FindCoordinator of broker ME, whose peers answer what the test says."""

    def __init__(self) -> None:
        self.cluster = ControlledCluster((ME, OTHER, STOCK))
        self.peers = SilentPeers()
        coordinators = TransactionCoordinators(
            ME,
            lambda: self.cluster.image,
            lambda broker_id: Endpoint("P", f"b{broker_id}", 9092),
            self.peers,
        )
        self._lookup = CoordinatorLookup(
            lambda: self.cluster.image,
            lambda broker_id, listener: ("b", broker_id, None) if broker_id >= 0 else None,
            None,  # type: ignore[arg-type]
            coordinators,
        )

    def find(self, transactional_id: str = "x") -> tuple[ErrorCode, int]:
        """(error code, broker id)."""
        body = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=(transactional_id,))
        found = answered(self._lookup.find, FIND_COORDINATOR, body).coordinators[0]
        return ErrorCode(found.error_code), found.node_id

    def tell_versions(self, *coordinates: bool) -> None:
        """The requested brokers tell in this order whether they coordinate."""
        asked, self.peers.asked = self.peers.asked, []
        assert all(isinstance(body, ApiVersionsRequest) for body, _ in asked)
        for (_, done), can in zip(asked, coordinates, strict=True):
            key = ADD_PARTITIONS_TO_TXN.key
            keys = (ApiVersion(api_key=key, min_version=0, max_version=5),) if can else ()
            done(ApiVersionsResponse(error_code=0, api_keys=keys))

    def ask_about_all(self) -> None:
        """Brokers STOCK and OTHER tell what they can."""
        assert self.find() == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
        assert len(self.peers.asked) == 2
        requested = sorted(
            each.broker_id
            for each in self.cluster.image.brokers.by_id.values()
            if each.broker_id != ME
        )
        self.tell_versions(*(each == STOCK for each in requested))


def test_coordinator_is_asked_to_create_the_topic_that_only_it_knows_how_to_create() -> None:
    """A client may ask this broker only. Each coordinator locates ids by the number of partitions in its own configuration."""
    found = Found()
    found.ask_about_all()
    for _ in range(3):
        assert found.find() == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
    ((request, done),) = found.peers.asked
    assert request == FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=("x",))
    done(FindCoordinatorResponse(coordinators=()))
    found.find()
    assert len(found.peers.asked) == 2, "asked again, as there is no topic yet"
    topic = assigned("__transaction_state", (STOCK,))
    found.cluster.ask(create_topics, CreateTopicsRequest(topics=(topic,)), CreateTopicsResponse)
    assert found.find() == (ErrorCode.NONE, STOCK)
    assert len(found.peers.asked) == 2


def test_without_any_coordinator_nobody_is_asked() -> None:
    found = Found()
    found.find()
    found.tell_versions(False, False)
    assert found.find() == (ErrorCode.UNSUPPORTED_VERSION, -1)
    assert not found.peers.asked


def test_fenced_coordinator_is_not_asked_and_not_missing() -> None:
    """It is restarting. A final error would end the producers of the whole cluster if it is the only broker of Apache Kafka."""
    found = Found()
    found.ask_about_all()
    found.cluster.fence(STOCK)
    assert found.find() == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
    assert not found.peers.asked


def test_fenced_broker_that_coordinates_nothing_is_not_awaited() -> None:
    found = Found()
    found.find()
    found.tell_versions(False, False)
    registered = found.cluster.image.brokers.get(OTHER)
    assert registered is not None
    mark = SupportedFeature(
        name=BROKER_OF_THIS_SOFTWARE, min_supported_version=0, max_supported_version=1
    )
    found.cluster.replay([replace(registered, features=(mark,), fenced=True)])
    assert found.find() == (ErrorCode.UNSUPPORTED_VERSION, -1)
