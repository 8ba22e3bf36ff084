"""The authorizer: its rule against one that reads every entry, its settings, and what a question costs."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorum_node.image.access import AclsImage
from quorum_node.image.host_text import host_text
from quorum_node.records.metadata import (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
)
from quorum_node.security.acl_terms import AclOperation, AclPattern, AclPermission, AclResource
from quorum_node.security.authorizer import (
    AuthorizerSettings,
    Reason,
    authorize,
    parse_super_users,
)
from quorum_node.security.caller import Caller
from quorum_node.security.errors import SecuritySettingError

ON = AuthorizerSettings(enabled=True, super_users=frozenset({"User:root"}))
DESCRIBES = {"READ", "WRITE", "DELETE", "ALTER", "DESCRIBE", "ALL"}
DESCRIBES_CONFIGS = {"ALTER_CONFIGS", "DESCRIBE_CONFIGS", "ALL"}
NAMES = ["a", "ab", "abc", "abd", "b", "*", "*a", ""]
PRINCIPALS = ["User:alice", "User:bob", "User:*", "Group:alice", "Group:*"]
HOSTS = ["*", "10.0.0.1", "::1", "0:0:0:0:0:0:0:1", "::ffff:10.0.0.1"]


def entry(number: int, **fields: Any) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=UUID(int=number + 1),
        **{
            "resource_type": int(AclResource.TOPIC),
            "resource_name": "ab",
            "pattern_type": int(AclPattern.LITERAL),
            "principal": "User:alice",
            "host": "*",
            "operation": int(AclOperation.READ),
            "permission_type": int(AclPermission.ALLOW),
            **fields,
        },
    )


def image_of(*entries: AccessControlEntryRecord) -> AclsImage:
    image = AclsImage()
    for each in entries:
        image = image.replay_add(each)
    return image


ENTRY_FIELDS = st.fixed_dictionaries(
    {
        "resource_type": st.sampled_from([2, 3, 4]),
        "resource_name": st.sampled_from(NAMES),
        "pattern_type": st.sampled_from([3, 4]),
        "principal": st.sampled_from(PRINCIPALS),
        "host": st.sampled_from(HOSTS),
        "operation": st.sampled_from([int(each) for each in AclOperation]),
        "permission_type": st.sampled_from([2, 3]),
    }
)
QUESTIONS = st.tuples(
    st.sampled_from(["User:alice", "Group:alice", "User:carol"]),
    st.sampled_from(["10.0.0.1", "::1", "10.0.0.2", "::ffff:10.0.0.1"]),
    st.sampled_from([each for each in AclOperation if each > AclOperation.ALL]),
    st.sampled_from([AclResource.TOPIC, AclResource.GROUP, AclResource.CLUSTER]),
    st.sampled_from([name for name in NAMES if name]),
)


def by_reading_all(
    entries: list[AccessControlEntryRecord],
    nothing_said: bool,
    question: tuple[str, str, AclOperation, AclResource, str],
) -> bool:
    """Kafka's rule as in its documentation, over a list."""
    who, at, operation, resource, name = question
    about = [
        each
        for each in entries
        if each.resource_type == resource
        and (
            name.startswith(each.resource_name)
            if each.pattern_type == AclPattern.PREFIXED
            else each.resource_name in (name, "*")
        )
    ]
    if not about:
        return nothing_said
    mine = [
        each
        for each in about
        if each.principal in (who, "User:*")
        and (each.host == "*" or host_text(each.host) == host_text(at))
    ]
    if any(
        each.permission_type == AclPermission.DENY
        and each.operation in (operation, AclOperation.ALL)
        for each in mine
    ):
        return False
    enough = {operation.name, "ALL"}
    if operation is AclOperation.DESCRIBE:
        enough = DESCRIBES
    if operation is AclOperation.DESCRIBE_CONFIGS:
        enough = DESCRIBES_CONFIGS
    return any(
        each.permission_type == AclPermission.ALLOW and AclOperation(each.operation).name in enough
        for each in mine
    )


@pytest.mark.requirement("K631-12")
@given(
    st.lists(st.tuples(st.integers(0, 6), ENTRY_FIELDS, st.booleans()), max_size=14),
    st.lists(QUESTIONS, min_size=1, max_size=6),
    st.booleans(),
)
@settings(max_examples=400, deadline=None)
def test_index_gives_the_same_decisions_as_a_scan_of_all_entries(
    changes: list[tuple[int, dict[str, Any], bool]],
    questions: list[tuple[str, str, AclOperation, AclResource, str]],
    nothing_said: bool,
) -> None:
    """Entries come, are replaced and go; the answers are those of what is left."""
    image, held = AclsImage(), {}
    for number, fields, is_removal in changes:
        record = entry(number, **fields)
        if is_removal:
            held.pop(number, None)
            image = image.replay_remove(RemoveAccessControlEntryRecord(id=record.id))
        else:
            held[number] = record
            image = image.replay_add(record)
    on = AuthorizerSettings(enabled=True, allow_if_no_acl_found=nothing_said)
    for question in questions:
        who, at, operation, resource, name = question
        ruling = authorize(on, image, Caller(who, at, "L"), operation, resource, name)
        assert ruling.allowed is by_reading_all(list(held.values()), nothing_said, question)
        assert ruling.entry is None or ruling.entry in held.values()


@given(st.lists(st.tuples(st.integers(0, 9), ENTRY_FIELDS), max_size=20))
def test_index_keeps_nothing_of_deleted_entries(
    added: list[tuple[int, dict[str, Any]]],
) -> None:
    image = image_of(*(entry(number, **fields) for number, fields in added))
    for number, _ in added:
        image = image.replay_remove(RemoveAccessControlEntryRecord(id=UUID(int=number + 1)))
    assert image == AclsImage()
    assert not image.index.by_resource
    assert not image.index.prefixes
    assert not image.index.by_caller


@pytest.mark.requirement("K631-12")
def test_each_operation_allows_and_denies_the_implied_ones() -> None:
    """Every operation of an entry against every requested one."""
    asked_for = [each for each in AclOperation if each > AclOperation.ALL]
    alice = Caller("User:alice", "10.0.0.1", "L")
    for held in AclOperation:
        allowing = image_of(entry(0, operation=int(held)))
        denying = allowing.replay_add(
            entry(1, operation=int(AclOperation.ALL), principal="User:bob", permission_type=2)
        )
        denying = denying.replay_add(entry(2, operation=int(AclOperation.ALL)))
        denying = denying.replay_add(entry(3, operation=int(held), permission_type=2))
        allowed, denied = (
            {
                requested.name
                for requested in asked_for
                if authorize(ON, image, alice, requested, AclResource.TOPIC, "ab").allowed is answer
            }
            for image, answer in ((allowing, True), (denying, False))
        )
        exactly = {held.name} & {each.name for each in asked_for}
        if held is AclOperation.ALL:
            exactly = {each.name for each in asked_for}
        assert denied == exactly
        if held.name in DESCRIBES - {"ALL"}:
            exactly |= {"DESCRIBE"}
        if held is AclOperation.ALTER_CONFIGS:
            exactly |= {"DESCRIBE_CONFIGS"}
        assert allowed == exactly


def test_wildcard_user_entry_matches_principals_of_every_type() -> None:
    """`User:*` denies a principal of another type as well; `Group:*` is a group of that name."""
    for_all = image_of(entry(0, principal="User:*"))
    group = Caller("Group:ops", "10.0.0.1", "L")
    requested = (AclOperation.READ, AclResource.TOPIC, "ab")
    assert authorize(ON, for_all, group, *requested).allowed
    assert not authorize(ON, image_of(entry(0, principal="Group:*")), group, *requested).allowed


@pytest.mark.parametrize(
    ("written", "asking"),
    [
        ("0:0:0:0:0:0:0:1", "::1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("10.0.0.1", "::ffff:10.0.0.1"),
        ("2001:DB8::1", "2001:db8:0:0::1"),
    ],
)
def test_denied_host_is_denied_in_any_notation_of_its_address(written: str, asking: str) -> None:
    image = image_of(entry(0), entry(1, host=written, permission_type=2))
    caller = Caller("User:alice", asking, "L")
    ruling = authorize(ON, image, caller, AclOperation.READ, AclResource.TOPIC, "ab")
    assert (ruling.allowed, ruling.reason) == (False, Reason.DENIED_BY_ENTRY)


def test_only_super_users_are_served_before_the_entries_are_loaded() -> None:
    image = image_of(entry(0))
    requested = (AclOperation.READ, AclResource.TOPIC, "ab")
    alice = authorize(ON, image, Caller("User:alice", "", ""), *requested, loaded=False)
    assert (alice.allowed, alice.reason) == (False, Reason.NOT_LOADED)
    assert authorize(ON, image, Caller("User:root", "", ""), *requested, loaded=False).allowed


def test_lookup_reads_only_entries_that_can_match(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted, not timed: two thousand entries of others cost a question nothing."""
    others = [
        entry(n, resource_name=f"topic-{n % 100}-{n}", pattern_type=3 + n % 2) for n in range(1000)
    ]
    strangers = [
        entry(1000 + n, principal=f"User:{n}", host=f"10.1.{n >> 8}.{n & 255}") for n in range(1000)
    ]
    image = image_of(*others, *strangers, entry(20_000))
    reads: list[str] = []
    real = AccessControlEntryRecord.operation

    class Counted:
        def __get__(self, instance: Any, owner: Any) -> int:
            reads.append("operation")
            return int(real.__get__(instance, owner))

    monkeypatch.setattr(AccessControlEntryRecord, "operation", Counted())
    caller = Caller("User:alice", "10.0.0.1", "L")
    assert authorize(ON, image, caller, AclOperation.READ, AclResource.TOPIC, "ab").allowed
    assert len(reads) <= 2


@pytest.mark.parametrize(
    ("text", "users"),
    [
        ("User:root", {"User:root"}),
        (" User:CN=a,OU=b,O=c ;; User:root;", {"User:CN=a,OU=b,O=c", "User:root"}),
        ("User:a b;\tUser:c\n", {"User:a b", "User:c"}),
        ("User:a:b", {"User:a:b"}),
        ("User:\u00a0a\u00a0", {"User:\u00a0a\u00a0"}),
        ("User:", {"User:"}),
        (":alice", {":alice"}),
        (";", set()),
        ("", set()),
    ],
)
def test_super_users_are_parsed_as_by_stock_kafka(text: str, users: set[str]) -> None:
    assert parse_super_users(text) == users


@pytest.mark.parametrize("text", ["alice", "User:root;alice", "User:root,User:bob;CN=x"])
def test_super_users_without_a_type_are_rejected(text: str) -> None:
    with pytest.raises(SecuritySettingError, match="is not Type:name"):
        parse_super_users(text)
