"""Access control entries and SCRAM credentials as records."""

import hashlib
import hmac
from collections.abc import Iterator

import pytest

from quorum_node.controller import acls
from quorum_node.controller.acls import create_acls, delete_acls, describe_acls
from quorum_node.controller.scram import alter_scram_credentials, describe_scram_credentials
from quorum_node.image.access import AclsImage
from quorum_node.protocol.acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from quorum_node.protocol.errors import ErrorCode
from quorum_node.protocol.scram import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)
from quorum_node.records.metadata import AccessControlEntryRecord
from support.controlled_cluster import ControlledCluster

TOPIC, CLUSTER = 2, 4
ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4
READ, ALLOW = 3, 3


@pytest.fixture
def cluster() -> ControlledCluster:
    cluster = ControlledCluster([1])
    cluster.with_settings(has_authorizer=True)
    return cluster


def entry(
    name: str = "t", kind: int = TOPIC, pattern: int = LITERAL, operation: int = READ,
    permission: int = ALLOW, principal: str = "User:a",
) -> AclCreation:  # fmt: skip
    return AclCreation(
        resource_type=kind, resource_name=name, resource_pattern_type=pattern, principal=principal,
        host="*", operation=operation, permission_type=permission,
    )  # fmt: skip


def create(cluster: ControlledCluster, *entries: AclCreation) -> list[ErrorCode]:
    answer = cluster.ask(create_acls, CreateAclsRequest(creations=entries), CreateAclsResponse)
    return [ErrorCode(each.error_code) for each in answer.results]


def found(cluster: ControlledCluster, name: str | None, pattern: int) -> set[str]:
    request = DescribeAclsRequest(
        resource_type_filter=ANY, resource_name_filter=name, pattern_type_filter=pattern,
        principal_filter=None, host_filter=None, operation=ANY, permission_type=ANY,
    )  # fmt: skip
    answer = cluster.ask(describe_acls, request, DescribeAclsResponse)
    assert answer.error_code == ErrorCode.NONE
    return {f"{each.resource_name}/{each.pattern_type}" for each in answer.resources}


def test_acl_entry_is_created_once(cluster: ControlledCluster) -> None:
    assert create(cluster, entry(), entry(), entry("u")) == [ErrorCode.NONE] * 3
    assert create(cluster, entry()) == [ErrorCode.NONE]
    assert len(cluster.decided) == 2


def test_creation_of_an_entry_does_not_read_all_others(
    cluster: ControlledCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(cluster, *(entry(f"topic-{each}") for each in range(50)))

    def read_all(image: AclsImage) -> Iterator[AccessControlEntryRecord]:
        raise AssertionError("a node with many entries would be held up")

    monkeypatch.setattr(AclsImage, "__iter__", read_all)
    assert create(cluster, entry("topic-7"), entry("u")) == [ErrorCode.NONE] * 2
    assert len(cluster.image.acls.by_id) == 51


def test_filters_of_one_deletion_are_compared_with_entries_in_bounded_time(
    cluster: ControlledCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(cluster, entry("t"), entry("u"))
    monkeypatch.setattr(acls, "MAX_COMPARISONS", 3)
    wanted = [
        DeleteAclsFilter(
            resource_type_filter=ANY, resource_name_filter=name, pattern_type_filter=ANY,
            principal_filter=None, host_filter=None, operation=ANY, permission_type=ANY,
        )
        for name in ("t", "no", "u")
    ]  # fmt: skip
    request = DeleteAclsRequest(filters=tuple(wanted))
    results = cluster.ask(delete_acls, request, DeleteAclsResponse).filter_results
    assert [each.error_code for each in results] == [0, 0, ErrorCode.POLICY_VIOLATION]
    assert [len(each.matching_acls) for each in results] == [1, 0, 0]
    assert {each.resource_name for each in cluster.image.acls} == {"u"}


def test_entries_that_many_filters_of_one_deletion_match_are_not_listed_for_all_of_them(
    cluster: ControlledCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few hundred filters that match everything would make an answer of millions of entries."""
    create(cluster, entry("t"), entry("u"))
    monkeypatch.setattr(acls, "MAX_RECORDS", 5)
    everything = DeleteAclsFilter(
        resource_type_filter=ANY, resource_name_filter=None, pattern_type_filter=ANY,
        principal_filter=None, host_filter=None, operation=ANY, permission_type=ANY,
    )  # fmt: skip
    request = DeleteAclsRequest(filters=(everything,) * 4)
    results = cluster.ask(delete_acls, request, DeleteAclsResponse).filter_results
    refused = ErrorCode.POLICY_VIOLATION
    assert [each.error_code for each in results] == [0, 0, refused, refused]
    assert [len(each.matching_acls) for each in results] == [2, 2, 0, 0]
    assert not list(cluster.image.acls)


@pytest.mark.parametrize(
    "bad",
    [
        entry(""), entry(kind=1), entry(kind=0), entry(kind=9), entry(pattern=MATCH), entry(pattern=0),
        entry(operation=1), entry(operation=99), entry(permission=1), entry("other", kind=CLUSTER),
    ],
)  # fmt: skip
def test_invalid_acl_entry_is_rejected(cluster: ControlledCluster, bad: AclCreation) -> None:
    assert create(cluster, bad, entry()) == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    assert len(cluster.decided) == 1


def test_acl_filter_matches_name_and_pattern(cluster: ControlledCluster) -> None:
    create(cluster, entry("abc"), entry("ab", pattern=PREFIXED), entry("*"), entry("x"))
    assert found(cluster, None, ANY) == {"abc/3", "ab/4", "*/3", "x/3"}
    assert found(cluster, "abc", LITERAL) == {"abc/3"}
    assert found(cluster, "abc", MATCH) == {"abc/3", "ab/4", "*/3"}
    assert found(cluster, "ab", ANY) == {"ab/4"}
    assert found(cluster, None, PREFIXED) == {"ab/4"}


def delete(cluster: ControlledCluster, **fields: int | str | None) -> tuple[ErrorCode, int]:
    requested = {
        "resource_type_filter": ANY, "resource_name_filter": None, "pattern_type_filter": ANY,
        "principal_filter": None, "host_filter": None, "operation": ANY, "permission_type": ANY,
    } | fields  # fmt: skip
    request = DeleteAclsRequest(filters=(DeleteAclsFilter(**requested),))  # type: ignore[arg-type]
    answer = cluster.ask(delete_acls, request, DeleteAclsResponse)
    (result,) = answer.filter_results
    return ErrorCode(result.error_code), len(result.matching_acls)


def test_acl_entries_are_deleted_by_filter(cluster: ControlledCluster) -> None:
    create(cluster, entry("a"), entry("b"), entry("b", principal="User:b"))
    assert delete(cluster, principal_filter="User:b") == (ErrorCode.NONE, 1)
    assert delete(cluster, operation=99) == (ErrorCode.INVALID_REQUEST, 0)
    assert delete(cluster, resource_name_filter="nope") == (ErrorCode.NONE, 0)
    assert delete(cluster) == (ErrorCode.NONE, 2)
    assert list(cluster.image.acls) == []


def test_acl_requests_are_rejected_without_an_authorizer() -> None:
    cluster = ControlledCluster([1])
    assert create(cluster, entry()) == [ErrorCode.SECURITY_DISABLED]
    assert delete(cluster) == (ErrorCode.SECURITY_DISABLED, 0)


def upsert(name: str = "a", mechanism: int = 1, iterations: int = 4096) -> ScramCredentialUpsertion:
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=b"salt",
        salted_password=b"salted",
    )  # fmt: skip


def alter(
    cluster: ControlledCluster, *changes: ScramCredentialUpsertion | ScramCredentialDeletion
) -> dict[str, ErrorCode]:
    request = AlterUserScramCredentialsRequest(
        deletions=tuple(x for x in changes if isinstance(x, ScramCredentialDeletion)),
        upsertions=tuple(x for x in changes if isinstance(x, ScramCredentialUpsertion)),
    )
    answer = cluster.ask(alter_scram_credentials, request, AlterUserScramCredentialsResponse)
    return {each.user: ErrorCode(each.error_code) for each in answer.results}


def test_only_scram_keys_of_a_password_are_stored() -> None:
    """RFC 5802: StoredKey is the hash of ClientKey; computed independently here."""
    cluster = ControlledCluster([1])
    assert alter(cluster, upsert()) == {"a": ErrorCode.NONE}
    kept = cluster.image.scram.get(1, "a")
    assert kept is not None
    client_key = hmac.new(b"salted", b"Client Key", hashlib.sha256).digest()
    assert kept.stored_key == hashlib.sha256(client_key).digest()
    assert kept.server_key == hmac.new(b"salted", b"Server Key", hashlib.sha256).digest()
    assert alter(cluster, upsert(mechanism=2, iterations=8192)) == {"a": ErrorCode.NONE}
    request = DescribeUserScramCredentialsRequest(users=None)
    answer = cluster.ask(describe_scram_credentials, request, DescribeUserScramCredentialsResponse)
    infos = [(each.mechanism, each.iterations) for each in answer.results[0].credential_infos]
    assert infos == [(1, 4096), (2, 8192)]
    assert alter(cluster, ScramCredentialDeletion(name="a", mechanism=1)) == {"a": ErrorCode.NONE}
    assert cluster.image.scram.get(1, "a") is None


def test_invalid_scram_credentials_are_rejected() -> None:
    cluster = ControlledCluster([1])
    bad = {
        "few": upsert("few", iterations=4095),
        "many": upsert("many", iterations=16_385),
        "": upsert(""),
        "unknown": upsert("unknown", mechanism=3),
        "gone": ScramCredentialDeletion(name="gone", mechanism=1),
    }
    assert alter(cluster, *bad.values(), upsert("twice"), upsert("twice")) == {
        "few": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "many": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "unknown": ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        "gone": ErrorCode.RESOURCE_NOT_FOUND,
        "twice": ErrorCode.DUPLICATE_RESOURCE,
    }
    assert cluster.decided == []
    request = DescribeUserScramCredentialsRequest(users=(UserName(name="x"),))
    answer = cluster.ask(describe_scram_credentials, request, DescribeUserScramCredentialsResponse)
    assert answer.results[0].error_code == ErrorCode.RESOURCE_NOT_FOUND


def test_scram_is_not_supported_before_metadata_version_3_5() -> None:
    cluster = ControlledCluster([1], level=10)
    assert alter(cluster, upsert()) == {"a": ErrorCode.UNSUPPORTED_VERSION}
