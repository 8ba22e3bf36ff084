"""What brokers report and check beyond single names: authorized operations (KIP-430), and a right on any resource (KIP-679)."""

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from quorum_node.image.access import AclsImage
from quorum_node.protocol import broker_apis
from quorum_node.protocol.apis import DESCRIBE_CLUSTER
from quorum_node.protocol.describe import NO_AUTHORIZED_OPERATIONS, DescribeClusterRequest
from quorum_node.protocol.describe_topic_partitions import (
    DescribedTopicName,
    DescribeTopicPartitionsRequest,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.metadata import MetadataRequest, MetadataRequestTopic
from quorum_node.records.metadata import AccessControlEntryRecord
from quorum_node.schema.schema import Message
from quorum_node.security.acl_terms import AclOperation, AclPattern, AclPermission, AclResource
from quorum_node.security.authorizer import AuthorizerSettings
from quorum_node.security.caller import Caller
from quorum_node.security.certificate_identity import CertificateIdentity, Role
from quorum_node.security.rights.broker_table import BROKER_TABLE
from quorum_node.security.rights.request_authorizer import AccessSettings, Asked, RequestAuthorizer
from quorum_node.server.broker.metadata_api import MetadataApi
from support.hosted_replicas import ME, HostedReplicas, answered

pytestmark = pytest.mark.virtual_time
ON = AccessSettings(
    AuthorizerSettings(enabled=True, super_users=frozenset({"User:root"})), table=BROKER_TABLE
)
ALICE = Caller("User:alice", "10.0.0.1", "L")
READ_AND_DESCRIBE = 1 << 3 | 1 << 8
ALL_OF_CLUSTER = sum(1 << each for each in (5, 7, 8, 9, 10, 11, 12))


def entries(
    *wanted: tuple[AclResource, str, AclPattern, AclOperation, AclPermission],
) -> AclsImage:
    """Entries of alice."""
    image = AclsImage()
    for number, (resource, name, pattern, operation, permission) in enumerate(wanted):
        record = AccessControlEntryRecord(
            id=UUID(int=number + 1),
            resource_type=resource,
            resource_name=name,
            pattern_type=pattern,
            principal="User:alice",
            host="*",
            operation=operation,
            permission_type=permission,
        )
        image = image.replay_add(record)
    return image


def rights_of(caller: Caller, acls: AclsImage, body: Message) -> Asked:
    found = RequestAuthorizer(ON, acls).request(caller, body)
    assert isinstance(found, Asked)
    return found


READS = (
    AclResource.TOPIC,
    "mine",
    AclPattern.PREFIXED,
    AclOperation.READ,
    AclPermission.ALLOW,
)


@pytest.mark.parametrize("version", [8, 13])
async def test_metadata_reports_operations_of_topics_that_the_caller_may_describe(
    tmp_path: Path, version: int
) -> None:
    hosted = HostedReplicas(tmp_path)
    for name in ("mine", "secret"):
        hosted.create(name)
    api = MetadataApi(ME, lambda: hosted.cluster.image, lambda: "c", lambda: 1)

    def reported(*, asked: bool) -> dict[str, int]:
        named = ("secret", "mine", "unknown", "mine-too")
        body = MetadataRequest(
            topics=tuple(MetadataRequestTopic(name=each) for each in named),
            include_topic_authorized_operations=asked,
        )
        rights = rights_of(ALICE, entries(READS), body)
        answer = answered(
            lambda inbound, body: api.metadata(inbound, body, rights),
            broker_apis.METADATA,
            body,
            version,
        )
        return {each.name: each.topic_authorized_operations for each in answer.topics}

    nothing = dict.fromkeys(("secret", "mine", "unknown", "mine-too"), NO_AUTHORIZED_OPERATIONS)
    assert reported(asked=False) == nothing
    assert reported(asked=True) == {
        **nothing,
        "mine": READ_AND_DESCRIBE,
        "mine-too": READ_AND_DESCRIBE,
    }
    hosted.close()


async def test_described_topic_partitions_have_operations(tmp_path: Path) -> None:
    hosted = HostedReplicas(tmp_path)
    for name in ("mine", "secret"):
        hosted.create(name)
    api = MetadataApi(ME, lambda: hosted.cluster.image, lambda: "c", lambda: 1)
    named = ("mine", "mine-too", "secret")
    body = DescribeTopicPartitionsRequest(
        topics=tuple(DescribedTopicName(name=each) for each in named)
    )
    rights = rights_of(ALICE, entries(READS), body)
    answer = answered(
        lambda inbound, body: api.topic_partitions(inbound, body, rights),
        broker_apis.DESCRIBE_TOPIC_PARTITIONS,
        body,
    )
    assert [(each.error_code, each.topic_authorized_operations) for each in answer.topics] == [
        (0, READ_AND_DESCRIBE),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, READ_AND_DESCRIBE),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, NO_AUTHORIZED_OPERATIONS),
    ]
    hosted.close()


@pytest.mark.parametrize(
    ("caller", "allowed", "expected"),
    [
        (ALICE, (), 0),
        (ALICE, (AclOperation.DESCRIBE,), 1 << 8),
        (ALICE, (AclOperation.ALL,), ALL_OF_CLUSTER),
        (Caller("User:root", "10.0.0.1", "L"), (), ALL_OF_CLUSTER),
    ],
)
async def test_described_cluster_has_operations(
    tmp_path: Path, caller: Caller, allowed: tuple[AclOperation, ...], expected: int
) -> None:
    hosted = HostedReplicas(tmp_path)
    api = MetadataApi(ME, lambda: hosted.cluster.image, lambda: "c", lambda: 1)
    cluster = AclResource.CLUSTER, "kafka-cluster", AclPattern.LITERAL
    acls = entries(*((*cluster, each, AclPermission.ALLOW) for each in allowed))

    def described(*, asked: bool) -> Any:
        body = DescribeClusterRequest(include_cluster_authorized_operations=asked)
        rights = rights_of(caller, acls, body)
        return answered(
            lambda inbound, body: api.describe_cluster(inbound, body, rights),
            DESCRIBE_CLUSTER,
            body,
        )

    found = described(asked=False).cluster_authorized_operations
    assert (found, described(asked=True).cluster_authorized_operations) == (
        NO_AUTHORIZED_OPERATIONS,
        expected,
    )
    hosted.close()


def test_reported_operations_do_not_depend_on_the_role_in_the_request() -> None:
    """A role permits different operations to each API."""
    admin = Caller("User:alice", "h", "L", CertificateIdentity("ns", "q", Role.ADMIN, None))
    rights = rights_of(admin, entries(READS), MetadataRequest(topics=None))
    assert rights.allows(AclOperation.DESCRIBE, AclResource.TOPIC, "secret")
    assert rights.operations(AclResource.TOPIC, "secret") == frozenset()


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ([("x", AclPattern.PREFIXED, AclPermission.ALLOW)], True),
        ([("x", AclPattern.LITERAL, AclPermission.ALLOW)], True),
        (
            [
                ("xy", AclPattern.PREFIXED, AclPermission.ALLOW),
                ("x", AclPattern.PREFIXED, AclPermission.DENY),
            ],
            False,
        ),
        (
            [
                ("x", AclPattern.PREFIXED, AclPermission.ALLOW),
                ("xy", AclPattern.PREFIXED, AclPermission.DENY),
            ],
            True,
        ),
        (
            [
                ("x", AclPattern.LITERAL, AclPermission.ALLOW),
                ("*", AclPattern.LITERAL, AclPermission.DENY),
            ],
            False,
        ),
        ([], False),
    ],
)
def test_right_on_any_topic_needs_no_topic(
    wanted: list[tuple[str, AclPattern, AclPermission]], expected: bool
) -> None:
    acls = entries(
        *(
            (AclResource.TOPIC, name, pattern, AclOperation.WRITE, permission)
            for name, pattern, permission in wanted
        )
    )
    rights = rights_of(ALICE, acls, MetadataRequest(topics=None))
    assert rights.allows_any(AclOperation.WRITE, AclResource.TOPIC) is expected
    assert not rights.allows_any(AclOperation.READ, AclResource.TOPIC)
    assert not rights.allows_any(AclOperation.WRITE, AclResource.GROUP)
