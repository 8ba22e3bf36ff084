"""FindCoordinator: each key is authorized by the rights on what it names."""

from typing import Any

import pytest

from quorum_node.controller.authorization import CLUSTER_NAME
from quorum_node.controller.topics import create_topics
from quorum_node.protocol.broker_apis import FIND_COORDINATOR
from quorum_node.protocol.create_topics import CreateTopicsRequest, CreateTopicsResponse
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.find_coordinator import FindCoordinatorRequest
from quorum_node.security.acl_terms import AclOperation, AclResource
from quorum_node.server.broker.coordinator_lookup import CoordinatorLookup
from quorum_node.server.broker.internal_topics import OFFSETS_TOPIC
from quorum_node.server.broker.transaction_coordinators import TransactionCoordinators
from support.controlled_cluster import ControlledCluster, assigned
from support.hosted_replicas import SilentPeers, answered

ME = 201
GROUP, TRANSACTION, SHARE = 0, 1, 2


class Limited:
    """May describe what is called `mine`, and nothing else unless it acts for the cluster."""

    def __init__(self, *, acts_for_cluster: bool = False) -> None:
        self._acts_for_cluster = acts_for_cluster

    def allows(
        self, operation: AclOperation, resource: AclResource, name: str = CLUSTER_NAME
    ) -> bool:
        if resource is AclResource.CLUSTER:
            return operation is AclOperation.CLUSTER_ACTION and self._acts_for_cluster
        return operation is AclOperation.DESCRIBE and name == "mine"


def find(
    key_type: int, keys: tuple[str, ...], version: int, *, acts_for_cluster: bool = False
) -> list[int]:
    """The error code of each key."""
    cluster = ControlledCluster((ME,))
    topic = assigned(OFFSETS_TOPIC, (ME,))
    cluster.ask(create_topics, CreateTopicsRequest(topics=(topic,)), CreateTopicsResponse)
    lookup = CoordinatorLookup(
        lambda: cluster.image,
        lambda broker_id, listener: ("b", broker_id, None),
        None,  # type: ignore[arg-type]
        TransactionCoordinators(ME, lambda: cluster.image, lambda broker_id: None, SilentPeers()),
    )
    rights = Limited(acts_for_cluster=acts_for_cluster)

    def ask(body: FindCoordinatorRequest) -> Any:
        return answered(
            lambda inbound, body: lookup.find(inbound, body, rights),
            FIND_COORDINATOR,
            body,
            version,
        )

    if version >= 4:
        found = ask(FindCoordinatorRequest(key_type=key_type, coordinator_keys=keys))
        assert [each.key for each in found.coordinators] == list(keys)
        return [each.error_code for each in found.coordinators]
    return [ask(FindCoordinatorRequest(key_type=key_type, key=each)).error_code for each in keys]


@pytest.mark.parametrize("version", [3, 4, 6])
def test_keys_are_refused_one_by_one(version: int) -> None:
    keys = ("other", "mine")
    assert find(GROUP, keys, version) == [ErrorCode.GROUP_AUTHORIZATION_FAILED, 0]
    assert find(TRANSACTION, keys, version) == [
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.UNSUPPORTED_VERSION,
    ]


def test_share_groups_are_for_those_who_act_for_the_cluster() -> None:
    keys = ("mine:AAAAAAAAAAAAAAAAAAAAAA:0", "mine")
    for acts_for_cluster in (True, False):
        old = find(SHARE, keys, 5, acts_for_cluster=acts_for_cluster)
        assert old == [ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST]
    assert find(SHARE, keys, 6) == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * 2
    allowed = find(SHARE, keys, 6, acts_for_cluster=True)
    assert allowed == [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.INVALID_REQUEST]
