"""The identity in a certificate: one text for one identity, and nothing that only looks like one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorum_node.security.certificate_identity import (
    CertificateIdentity,
    Role,
    WrongIdentity,
    identity_in,
    own_identity,
)

NODES = st.builds(
    CertificateIdentity,
    st.sampled_from(["ns", "a-b"]),
    st.sampled_from(["demo", "q1"]),
    st.sampled_from([Role.MEMBER, Role.BROKER]),
    st.integers(0, 2**31 - 1),
)
OTHERS = st.builds(
    CertificateIdentity,
    st.just("ns"),
    st.just("demo"),
    st.sampled_from([Role.ADMIN, Role.READER, Role.OPERATOR, Role.ARCHIVER]),
)


@given(st.one_of(NODES, OTHERS))
def test_identity_is_valid_only_in_its_own_quorum(identity: CertificateIdentity) -> None:
    uris = ("https://example.org/x", identity.uri())
    assert identity_in(uris, identity.namespace, identity.quorum) == identity
    assert identity_in(uris, identity.namespace, "another") is None
    assert identity_in(("spiffe://x/y",), identity.namespace, identity.quorum) is None


@pytest.mark.parametrize(
    "uri",
    [
        "urn:metadataquorum:ns:demo:member",
        "urn:metadataquorum:ns:demo:member:",
        "urn:metadataquorum:ns:demo:member:-1",
        "urn:metadataquorum:ns:demo:member:01",
        "urn:metadataquorum:ns:demo:member:+1",
        "urn:metadataquorum:ns:demo:member:1_0",
        "urn:metadataquorum:ns:demo:member:²",
        "urn:metadataquorum:ns:demo:member:2147483648",
        "urn:metadataquorum:ns:demo:member:1:2",
        "urn:metadataquorum:ns:demo:admin:1",
        "urn:metadataquorum:ns:demo:root",
        "urn:metadataquorum:ns:demo:Member:1",
        "urn:metadataquorum::demo:member:1",
        "urn:metadataquorum:ns::member:1",
        "URN:MetadataQuorum:ns:demo:root:1",
    ],
)
def test_incomplete_name_of_this_project_is_rejected(uri: str) -> None:
    with pytest.raises(WrongIdentity):
        identity_in([uri], "ns", "demo")


def test_two_identities_in_one_quorum_are_rejected_and_in_two_quorums_they_are_not() -> None:
    uris = ["urn:metadataquorum:ns:demo:member:1", "urn:metadataquorum:ns:demo:broker:1"]
    with pytest.raises(WrongIdentity, match="several identities"):
        identity_in(uris, "ns", "demo")
    both = ["urn:metadataquorum:ns:demo:reader", "urn:metadataquorum:ns:other:admin"]
    found = identity_in(both, "ns", "demo")
    assert found is not None
    assert found.role is Role.READER


@pytest.mark.parametrize(
    ("uris", "why"),
    [
        ([], "names no identity"),
        (["urn:metadataquorum:ns:demo:member:2"], "is not that of member 1"),
        (["urn:metadataquorum:ns:demo:broker:1"], "is not that of member 1"),
        (["urn:metadataquorum:ns:demo:member:1", "urn:metadataquorum:ns:q:member:1"], "several"),
    ],
)
def test_node_with_the_certificate_of_another_member_reports_it(uris: list[str], why: str) -> None:
    with pytest.raises(WrongIdentity, match=why):
        own_identity(uris, 1)
    assert own_identity(["urn:metadataquorum:ns:demo:member:1"], 1).quorum == "demo"
