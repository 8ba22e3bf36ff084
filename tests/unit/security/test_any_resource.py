"""Whether a caller may do something on any resource of a type: the rule against a list of all entries, and what it reads."""

from dataclasses import replace
from typing import Any, cast
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from quorum_node.image.access import AclsImage
from quorum_node.records.metadata import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from quorum_node.security.acl_terms import AclOperation, AclPattern, AclPermission, AclResource
from quorum_node.security.any_resource import allowed_on_any
from quorum_node.security.authorizer import AuthorizerSettings
from quorum_node.security.caller import Caller

ON = AuthorizerSettings(enabled=True)
ALICE = Caller("User:alice", "10.0.0.1", "L")
LITERAL, PREFIXED = int(AclPattern.LITERAL), int(AclPattern.PREFIXED)
WRITE, TOPIC = AclOperation.WRITE, AclResource.TOPIC


def entry(number: int, **fields: Any) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        id=UUID(int=number + 1),
        **{
            "resource_type": int(TOPIC),
            "resource_name": "ab",
            "pattern_type": LITERAL,
            "principal": "User:alice",
            "host": "*",
            "operation": int(WRITE),
            "permission_type": int(AclPermission.ALLOW),
            **fields,
        },
    )


def by_reading_all(entries: list[AccessControlEntryRecord]) -> bool:
    """The rule of KIP-679, over a list."""
    mine = [
        each
        for each in entries
        if each.resource_type == TOPIC
        and each.principal in (ALICE.principal, "User:*")
        and each.host in (ALICE.host, "*")
        and each.operation in (WRITE, AclOperation.ALL)
    ]
    denied = [each for each in mine if each.permission_type == AclPermission.DENY]
    if any((each.pattern_type, each.resource_name) == (LITERAL, "*") for each in denied):
        return False

    def is_covered(allowing: AccessControlEntryRecord) -> bool:
        if (allowing.pattern_type, allowing.resource_name) == (LITERAL, "*"):
            return False
        return any(
            allowing.resource_name.startswith(each.resource_name)
            if each.pattern_type == PREFIXED
            else (each.pattern_type, each.resource_name)
            == (allowing.pattern_type, allowing.resource_name)
            for each in denied
        )

    allowed = [each for each in mine if each.permission_type == AclPermission.ALLOW]
    return any(not is_covered(each) for each in allowed)


FIELDS = st.fixed_dictionaries(
    {
        "resource_type": st.sampled_from([2, 3]),
        "resource_name": st.sampled_from(["a", "ab", "abc", "b", "*"]),
        "pattern_type": st.sampled_from([LITERAL, PREFIXED]),
        "principal": st.sampled_from(["User:alice", "User:bob", "User:*"]),
        "host": st.sampled_from(["*", "10.0.0.1", "10.0.0.2"]),
        "operation": st.sampled_from([2, 3, 4]),
        "permission_type": st.sampled_from([2, 3]),
    }
)


@given(st.lists(st.tuples(st.integers(0, 6), FIELDS, st.booleans()), max_size=14))
@settings(max_examples=300, deadline=None)
def test_decision_is_that_of_a_scan_of_all_entries(
    changes: list[tuple[int, dict[str, Any], bool]],
) -> None:
    image, held = AclsImage(), dict[int, AccessControlEntryRecord]()
    for number, fields, is_removal in changes:
        record = entry(number, **fields)
        if is_removal:
            held.pop(number, None)
            image = image.replay_remove(RemoveAccessControlEntryRecord(id=record.id))
        else:
            held[number] = record
            image = image.replay_add(record)
    found = allowed_on_any(ON, image, ALICE, WRITE, TOPIC)
    assert found is by_reading_all(list(held.values()))


class Asked:
    """A map of which single values can be read, and nothing else."""

    def __init__(self, whole: Any) -> None:
        self.whole, self.keys = whole, list[object]()

    def get(self, key: object, default: object = None) -> object:
        self.keys.append(key)
        return self.whole.get(key, default)


def test_entries_of_others_are_not_read() -> None:
    """A broker asks for each producer, on its event loop. Counted, not timed."""
    image = AclsImage()
    for number in range(500):
        record = entry(number, resource_name=f"topic-{number}", principal=f"User:{number}")
        image = image.replay_add(record)
    image = image.replay_add(entry(500))
    counted = [Asked(each) for each in (image.index.by_resource, image.index.by_caller)]
    by_resource, by_caller = cast("list[Any]", counted)
    index = replace(image.index, by_resource=by_resource, by_caller=by_caller)
    watched = replace(image, index=index)
    assert allowed_on_any(ON, watched, ALICE, WRITE, TOPIC)
    assert not allowed_on_any(ON, watched, ALICE, AclOperation.READ, TOPIC)
    assert len(by_resource.keys) + len(by_caller.keys) <= 12
