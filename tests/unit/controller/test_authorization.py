"""Authorization on the controller: Kafka's rule over the entries of the image, evaluated before any decision."""

from typing import Any
from uuid import UUID

import pytest

from quorum_node.controller.authorization import AclOperation, AclResource, Caller
from quorum_node.image.cluster_image import ClusterImage
from quorum_node.records.metadata import AccessControlEntryRecord
from quorum_node.security.authorizer import AuthorizerSettings, authorize

ALICE = Caller("User:alice", "10.0.0.1", "CONTROLLER")
ON = AuthorizerSettings(enabled=True, super_users=frozenset({"User:root"}))
DENY, ALLOW, LITERAL, PREFIXED = 2, 3, 3, 4


def entry(number: int, **fields: Any) -> AccessControlEntryRecord:
    """An entry that lets alice act on the cluster by default."""
    given: dict[str, Any] = {
        "resource_type": AclResource.CLUSTER,
        "resource_name": "kafka-cluster",
        "pattern_type": LITERAL,
        "principal": "User:alice",
        "host": "*",
        "operation": AclOperation.CLUSTER_ACTION,
        "permission_type": ALLOW,
        **fields,
    }
    return AccessControlEntryRecord(id=UUID(int=number + 1), **given)


@pytest.mark.requirement("K631-12")
@pytest.mark.parametrize(
    ("entries", "allowed"),
    [
        ([], False),
        ([{}], True),
        ([{"principal": "User:*"}], True),
        ([{"principal": "User:bob"}], False),
        ([{"host": "10.0.0.1"}], True),
        ([{"host": "10.0.0.2"}], False),
        ([{"operation": AclOperation.ALL}], True),
        ([{"operation": AclOperation.ALTER}], False),
        ([{}, {"permission_type": DENY}], False),
        ([{}, {"permission_type": DENY, "operation": AclOperation.ALTER}], True),
        ([{"resource_name": "kafka-", "pattern_type": PREFIXED}], True),
        ([{"resource_type": AclResource.TOPIC}], False),
    ],
)
def test_authorization_decisions_match_the_rules(
    entries: list[dict[str, Any]], allowed: bool
) -> None:
    image = ClusterImage().replay_all(entry(n, **each) for n, each in enumerate(entries))
    requested = (ALICE, AclOperation.CLUSTER_ACTION, AclResource.CLUSTER)
    assert authorize(ON, image.acls, *requested).allowed is allowed


def test_alter_implies_describe_and_a_denied_alter_does_not_deny_it() -> None:
    image = ClusterImage().replay_all([entry(0, operation=AclOperation.ALTER)])
    requested = (ALICE, AclOperation.DESCRIBE, AclResource.CLUSTER)
    assert authorize(ON, image.acls, *requested).allowed
    denied = image.replay(entry(1, operation=AclOperation.ALTER, permission_type=DENY))
    assert authorize(ON, denied.acls, *requested).allowed
