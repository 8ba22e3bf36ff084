"""Names, rules, rights and SCRAM beside Java and stock Kafka: the same answers to random questions."""

from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from uuid import UUID

import pytest

from quorum_node.image.access import AclsImage
from quorum_node.image.host_text import host_text
from quorum_node.records.metadata import AccessControlEntryRecord
from quorum_node.security.acl_terms import AclOperation, AclResource
from quorum_node.security.any_resource import allowed_on_any
from quorum_node.security.authorizer import AuthorizerSettings, authorize
from quorum_node.security.caller import Caller
from quorum_node.security.errors import SecuritySettingError
from quorum_node.security.principals.mapping_rules import NoRuleFits, parse_mapping_rules
from quorum_node.security.principals.x500 import name_text
from quorum_node.security.scram.add_scram import parse_add_scram
from quorum_node.security.scram.credential import Decoy, made_from_password
from quorum_node.security.scram.exchange import ScramRefused, challenge, verdict
from quorum_node.security.scram.mechanism import ScramMechanism
from support.security_oracle import OracleRefused, SecurityOracle
from support.security_samples import odd_name, rule, subject

pytestmark = pytest.mark.interop

PRINCIPALS = ("User:alice", "User:bob", "User:*", "Group:alice", "Group:*")
NAMES = ("a", "ab", "abc", "abd", "b", "*")
"""None with a star and more: there stock Kafka overlooks entries for all names, against KIP-290."""
FIELDS = (
    "resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission_type",
)  # fmt: skip
HOSTS = ("*", "10.0.0.1", "0:0:0:0:0:0:0:1")


@pytest.fixture(scope="module")
def oracle() -> Iterator[SecurityOracle]:
    with SecurityOracle() as running:
        yield running


def test_names_are_formatted_as_in_java(oracle: SecurityOracle) -> None:
    random = Random(17)
    names = [odd_name(random) for _ in range(3000)]
    other = [each.hex() for each in names if name_text(each) != oracle.ask("name", each.hex())]
    assert other == []


def test_mapping_rules_give_the_name_of_kafka(oracle: SecurityOracle) -> None:
    """A rule that is refused here may work there; what both take gives the same."""
    random = Random(29)
    compared = matched = 0
    for _ in range(3000):
        text = rule(random)
        subjects = [subject(random) for _ in range(3)]
        try:
            ours = parse_mapping_rules(text)
        except SecuritySettingError:
            continue
        for each in subjects:
            found: list[str | None] = []
            both: tuple[Callable[[str], str], ...] = (
                ours.name_of,
                partial(oracle.ask, "map", text),
            )
            for name_of in both:
                try:
                    found.append(name_of(each))
                except (NoRuleFits, OracleRefused):
                    found.append(None)
            assert found[0] == found[1], (text, each)
            compared, matched = compared + 1, matched + (found[0] is not None)
    assert compared > 1000
    assert matched > 100


@pytest.mark.requirement("K631-12")
@pytest.mark.parametrize("nothing_said", [False, True])
def test_decisions_equal_those_of_the_standard_authorizer(
    oracle: SecurityOracle, nothing_said: bool
) -> None:
    random = Random(31)
    for _ in range(60):
        on = AuthorizerSettings(True, frozenset({"User:root"}), nothing_said)
        oracle.ask("authorizer", "User:root", str(nothing_said).lower())
        acls, seen = AclsImage(), set()
        for number in range(random.randrange(12)):
            fields = (
                random.choice((2, 3)), random.choice(NAMES), random.choice((3, 4)), random.choice(PRINCIPALS),
                random.choice(HOSTS), random.randrange(2, 16), random.choice((2, 3, 3)),
            )  # fmt: skip
            if fields in seen:
                continue
            seen.add(fields)
            oracle.ask("entry", *map(str, fields))
            named = dict(zip(FIELDS, fields, strict=True))
            acls = acls.replay_add(AccessControlEntryRecord(id=UUID(int=number + 1), **named))
        for _ in range(40):
            who = random.choice(("User:alice", "Group:alice", "User:carol", "User:root"))
            host = random.choice(("10.0.0.1", "::1", "10.0.0.2"))
            operation = AclOperation(random.randrange(3, 16))
            kind, name = AclResource(random.choice((2, 3))), random.choice(NAMES)
            theirs = oracle.ask("ask", who, host, str(int(operation)), str(int(kind)), name)
            ours = authorize(on, acls, Caller(who, host_text(host), "L"), operation, kind, name)
            assert ours.allowed is (theirs == "ALLOWED"), (sorted(seen), who, host, operation, name)
            theirs = oracle.ask("ask-any", who, host, str(int(operation)), str(int(kind)))
            caller = Caller(who, host_text(host), "L")
            on_any = allowed_on_any(on, acls, caller, operation, kind)
            assert on_any is (theirs == "ALLOWED"), (sorted(seen), who, host, operation)


@pytest.mark.parametrize("mechanism", list(ScramMechanism))
def test_credentials_equal_those_of_kafka(
    oracle: SecurityOracle, mechanism: ScramMechanism
) -> None:
    for password, salt, iterations in (
        ("x", b"salt", 4096),
        ("Ünïcode \u00a0\u2168", b"\0\xff", 5000),
    ):
        made = made_from_password(mechanism, password, salt, iterations)
        theirs = oracle.ask(
            "credential", mechanism.sasl_name, password, salt.hex(), str(iterations)
        )
        assert theirs == f"{made.stored_key.hex()} {made.server_key.hex()}"


@pytest.mark.parametrize("mechanism", list(ScramMechanism))
@pytest.mark.parametrize("user", ["alice", "a,b=c d"])
def test_stock_client_logs_in_only_with_the_right_password(
    oracle: SecurityOracle, mechanism: ScramMechanism, user: str
) -> None:
    """The client also checks our own proof, in its last step."""
    (record,) = parse_add_scram(
        [f"{mechanism.sasl_name}=[name=x,password=right,iterations=4097]"], lambda: b"the salt"
    )
    nonce, decoy = "0123456789abcdefghijklmnop", Decoy(b"secret")
    for name, password, gets_in in (
        (user, "right", True),
        (user, "wrong", False),
        ("nobody", "right", False),
    ):
        first = oracle.ask("client", mechanism.sasl_name, name, password).encode()
        given = challenge(
            mechanism, first, lambda _, who: record if who == user else None, decoy, nonce
        )
        last = oracle.ask("challenge", given.answer.decode()).encode()
        if gets_in:
            answer = verdict(given, last)
            assert answer.user == user
            assert oracle.ask("challenge", answer.answer.decode()) == "complete"
        else:
            with pytest.raises(ScramRefused):
                verdict(given, last)
