"""`quorum.role.mapping.rules`: a subject gives a role to people and programs, never to nodes."""

import pytest

from quorum_node.security.certificate_identity import CertificateIdentity, Role
from quorum_node.security.principals.mapping_rules import parse_mapping_rules
from quorum_node.server.transport.tls_peers import identity_of
from support.generated_certificates import issue

RULES = parse_mapping_rules("RULE:^CN=(.*)$/$1/")
"""As careless as a rule can be: whoever requests certificates chooses the subject."""
OWN = CertificateIdentity("ns", "demo", Role.MEMBER, 1)


def role(subject: str, *uris: str, own: CertificateIdentity | None = OWN) -> Role | None:
    found = identity_of(issue(subject, uris=uris).certificate, own, RULES)
    return None if found is None else found.role


@pytest.mark.parametrize("own", [OWN, None])
def test_rules_give_roles_of_people_and_programs_only(own: CertificateIdentity | None) -> None:
    for each in (Role.OPERATOR, Role.ADMIN, Role.READER, Role.ARCHIVER):
        assert role(each.value, own=own) is each
    for subject in ("member", "broker", "Admin", "nobody", "User:admin"):
        assert role(subject, own=own) is None


def test_name_in_the_certificate_precedes_the_rules() -> None:
    assert role("admin", "urn:metadataquorum:ns:demo:reader") is Role.READER
    assert role("admin", "urn:metadataquorum:ns:demo:broker:7") is Role.BROKER
    assert role("admin", "spiffe://example.org/admin") is Role.ADMIN
