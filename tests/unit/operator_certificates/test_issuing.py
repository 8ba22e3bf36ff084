"""Certificates that are issued: real handshakes with them, the names in them, and how long they are valid."""

import ssl
import time
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given
from hypothesis import strategies as st

from quorum_node.security.certificate_identity import Role, identity_in
from quorum_node.security.principals.certificate_principal import principal_of
from quorum_node.security.principals.mapping_rules import parse_mapping_rules
from quorum_operator.certificates import documents, holders, issuing, lifetimes, pem
from quorum_operator.certificates.checks import BUNDLE, CERTIFICATE, KEY, KEYSTORE, decoded
from quorum_operator.certificates.holders import Holder
from quorum_operator.certificates.issuing import Pair
from quorum_operator.certificates.lifetimes import DAY_S, Validity
from quorum_operator.desired.names import Owner

OWNER = Owner("demo", "space", "uid")
LONGEST = Owner("q" * 40, "n" * 63, "uid")
NOW_S = 1_795_000_000.0


def context(
    folder: Path, owner: Owner, holder: Holder, authority: Pair, trusted: Pair, *, server: bool
) -> ssl.SSLContext:
    """As a node makes it from the Secret."""
    pair = issuing.issue(owner, holder, authority, NOW_S)
    secret = documents.leaf_secret(owner, holder, pair, (trusted.certificate,))
    data = decoded(secret["data"])
    file = folder / f"{holder.name[-20:]}-{server}.pem"
    file.write_bytes(data[KEYSTORE])
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    made.load_cert_chain(file)
    made.load_verify_locations(cadata=data[BUNDLE].decode())
    made.verify_mode = ssl.CERT_REQUIRED
    made.verify_flags |= ssl.VERIFY_X509_STRICT
    return made


def shake_hands(client: ssl.SSLContext, server: ssl.SSLContext, host: str) -> bytes | None:
    """A handshake in memory; the certificate of the client as the server sees it. Raises SSLError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    dialling = client.wrap_bio(to_client, to_server, server_hostname=host)
    serving = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(10):
        done = 0
        for end in (dialling, serving):
            try:
                end.do_handshake()
                done += 1
            except ssl.SSLWantReadError:
                continue
        if done == 2:
            return serving.getpeercert(binary_form=True)
    raise AssertionError("the handshake does not end")


def valid_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenSSL uses the machine's clock."""
    monkeypatch.setattr(__name__ + ".NOW_S", time.time())


@pytest.mark.parametrize("owner", [OWNER, LONGEST], ids=["usual names", "longest names"])
def test_handshakes_succeed_under_every_name_of_a_member(
    owner: Owner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    valid_now(monkeypatch)
    authority = issuing.new_authority(owner, 1, NOW_S)
    one, two = (holders.member(owner, number, 1, "cluster.local") for number in (1, 2))
    server = context(tmp_path, owner, one, authority, authority, server=True)
    client = context(tmp_path, owner, two, authority, authority, server=False)
    for host in (owner.host(f"{owner.name}-1-1"), f"{owner.name}-bootstrap", "localhost"):
        assert shake_hands(client, server, host) is not None
    full = f"{owner.name}-bootstrap.{owner.namespace}.svc.cluster.local"
    assert shake_hands(client, server, full) is not None
    with pytest.raises(ssl.SSLError, match="Hostname mismatch"):
        shake_hands(client, server, owner.host(f"{owner.name}-2-1"))


def test_certificate_of_another_quorum_is_rejected_by_both_sides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the same names even: what counts is the key of the authority."""
    valid_now(monkeypatch)
    mine, foreign = (issuing.new_authority(OWNER, 1, NOW_S) for _ in range(2))
    member, other = (holders.member(OWNER, number, 1) for number in (1, 2))
    host = OWNER.host("demo-1-1")
    server = context(tmp_path, OWNER, member, mine, mine, server=True)
    client = context(tmp_path, OWNER, other, foreign, mine, server=False)
    with pytest.raises(ssl.SSLError):
        shake_hands(client, server, host)
    server = context(tmp_path, OWNER, member, foreign, mine, server=True)
    client = context(tmp_path, OWNER, other, mine, mine, server=False)
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        shake_hands(client, server, host)


@pytest.mark.parametrize(
    ("holder", "role", "node_id"),
    [
        (holders.member(OWNER, 3, 2), Role.MEMBER, 3),
        (holders.broker("kafka-101", 101), Role.BROKER, 101),
        (holders.operator(), Role.OPERATOR, None),
        (holders.person("anna"), Role.ADMIN, None),
        (holders.person("grafana", Role.READER), Role.READER, None),
    ],
)
def test_node_reads_its_identity_from_the_certificate(
    holder: Holder, role: Role, node_id: int | None
) -> None:
    authority = issuing.new_authority(OWNER, 1, NOW_S)
    made = issuing.issue(OWNER, holder, authority, NOW_S).certificate
    found = identity_in(made.uris, "space", "demo")
    assert found is not None
    assert (found.namespace, found.quorum, found.role, found.node_id) == (
        "space",
        "demo",
        role,
        node_id,
    )


def test_subject_matches_the_kafka_principal_mapping_rules() -> None:
    authority = issuing.new_authority(OWNER, 1, NOW_S)
    made = issuing.issue(OWNER, holders.member(OWNER, 3, 2), authority, NOW_S).certificate
    der = x509.load_pem_x509_certificate(made.pem.encode()).public_bytes(Encoding.DER)
    reported = principal_of(der, parse_mapping_rules("DEFAULT"))
    assert reported == "User:CN=demo-3-2,OU=member,O=demo.space"


def test_two_certificates_of_one_holder_share_neither_key_nor_serial() -> None:
    authority = issuing.new_authority(OWNER, 1, NOW_S)
    one, two = (issuing.issue(OWNER, holders.operator(), authority, NOW_S) for _ in range(2))
    assert one.key_pem != two.key_pem
    assert one.certificate.fingerprint != two.certificate.fingerprint


def test_authorities_of_two_generations_have_different_names_and_accept_only_their_own_leaves() -> (
    None
):
    one, two = (issuing.new_authority(OWNER, number, NOW_S) for number in (1, 2))
    leaf = issuing.issue(OWNER, holders.operator(), two, NOW_S).certificate
    assert (one.certificate.generation, two.certificate.generation) == (1, 2)
    assert pem.signed_by(leaf, two.certificate)
    assert not pem.signed_by(leaf, one.certificate)
    assert not pem.signed_by(leaf, leaf), "a leaf certificate may sign"


def test_private_key_is_not_in_the_repr() -> None:
    authority = issuing.new_authority(OWNER, 1, NOW_S)
    secret = authority.key_pem.splitlines()[1]
    assert secret not in repr(authority)
    assert secret not in str(authority)


@given(
    st.sampled_from(Role),
    st.floats(1_700_000_000, 1_900_000_000),
    st.floats(0, 1900),
)
def test_certificate_expires_no_later_than_its_authority_and_is_due_long_before(
    role: Role, made_at: float, age_days: float
) -> None:
    authority = lifetimes.of_authority(made_at)
    now = made_at + age_days * DAY_S
    leaf = lifetimes.of_leaf(role, now, authority)
    assert leaf.not_after <= authority.not_after
    assert leaf.not_before < now, "not valid for clocks that are some minutes behind"
    if leaf.not_after > now:
        assert leaf.not_before < leaf.leaf_due_at < leaf.urgent_at < leaf.not_after
    assert authority.authority_due_at <= authority.not_after - 360 * DAY_S


def test_member_certificate_is_renewed_a_month_before_expiry() -> None:
    authority = lifetimes.of_authority(NOW_S)
    leaf = lifetimes.of_leaf(Role.MEMBER, NOW_S, authority)
    assert leaf.not_after - leaf.leaf_due_at == pytest.approx(30 * DAY_S, abs=600)
    assert Validity(0, 90).part(0.5) == 45


def test_secret_has_the_keys_for_stock_kafka_and_for_pem_readers() -> None:
    authority = issuing.new_authority(OWNER, 1, NOW_S)
    holder = holders.member(OWNER, 1, 1)
    pair = issuing.issue(OWNER, holder, authority, NOW_S)
    secret = documents.leaf_secret(OWNER, holder, pair, (authority.certificate,))
    assert secret["metadata"]["name"] == "demo-1-1-tls"
    data = decoded(secret["data"])
    assert set(data) == {CERTIFICATE, KEY, BUNDLE, KEYSTORE}
    assert data[KEYSTORE] == data[KEY] + data[CERTIFICATE]
    assert data[KEY].startswith(b"-----BEGIN PRIVATE KEY-----"), "not PKCS#8, which Java requires"
    made = documents.authority_secret(OWNER, 1, authority, signing=True)
    assert made["immutable"] is True
    assert documents.leaf_name(OWNER, holders.person("anna")) == "demo-anna-tls"
