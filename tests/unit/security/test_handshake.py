"""From files to a result: real handshakes in memory between contexts that `security/` made from checked files."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from quorum_node.image.access import AclsImage
from quorum_node.protocol.apis import VOTE
from quorum_node.security.authorizer import AuthorizerSettings
from quorum_node.security.caller import Caller
from quorum_node.security.certificate_identity import identity_in, own_identity
from quorum_node.security.principals.certificate_principal import principal_of
from quorum_node.security.rights.claims import why_not_dialled
from quorum_node.security.rights.request_authorizer import AccessSettings, Asked, RequestAuthorizer
from quorum_node.security.tls.certificates import alternative_uris, check_host
from quorum_node.security.tls.key_pairs import check_own_trust, load_key_pair, load_trust
from quorum_node.security.tls.ssl_settings import PemFile, SslSettings, read_ssl_settings
from support.generated_certificates import Issued, authority, issue, pem
from support.request_samples import body_of

NOW = datetime.now(UTC)
"""OpenSSL asks the clock of the host."""
# They are made when the tests are collected, and have to last until the run comes to them.
START, END = NOW - timedelta(hours=1), NOW + timedelta(hours=12)
CA = authority(start=START, end=END)
AUTHORIZER = RequestAuthorizer(
    AccessSettings(AuthorizerSettings(enabled=True), frozenset({"CONTROLLER"})), AclsImage()
)


def node(node_id: int, issuer: Issued = CA, role: str = "member") -> Issued:
    return issue(
        f"demo-{node_id}",
        issuer=issuer,
        start=START,
        end=END,
        hosts=(f"demo-{node_id}.ns.svc",),
        uris=(f"urn:metadataquorum:ns:demo:{role}:{node_id}",),
    )


def settings_for(folder: Path, made: Issued, trusted: Issued = CA) -> SslSettings:
    folder.mkdir()
    (folder / "keystore.pem").write_bytes(made.keystore)
    (folder / "ca.crt").write_bytes(pem(trusted.certificate))
    return read_ssl_settings(
        {
            "ssl.keystore.location": str(folder / "keystore.pem"),
            "ssl.truststore.location": str(folder / "ca.crt"),
            "ssl.principal.mapping.rules": "RULE:^CN=([^,]+)$/$1/",
        },
        "CONTROLLER",
    )


def context(settings: SslSettings, *, server: bool) -> ssl.SSLContext:
    """As a server makes it: checked first, loaded then."""
    assert isinstance(settings.keystore.chain, PemFile)
    assert isinstance(settings.truststore, PemFile)
    file = Path(settings.keystore.chain.path)
    pair = load_key_pair(file.read_bytes(), file.read_bytes(), None, NOW, file.name)
    trust = load_trust(Path(settings.truststore.path).read_bytes(), NOW, "ca.crt")
    check_own_trust(pair, trust, NOW, file.name)
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    made.verify_mode = ssl.CERT_REQUIRED
    made.load_verify_locations(cadata=trust.pem.decode())
    loaded = file.with_name("loaded.pem")
    loaded.write_bytes(pair.chain_pem + pair.key_pem)
    made.load_cert_chain(loaded)
    return made


def handshake_result(
    server: ssl.SSLContext, client: ssl.SSLContext, host: str
) -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Both ends after the handshake. Raises ssl.SSLError."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        server.wrap_bio(up, down, server_side=True),
        client.wrap_bio(down, up, server_hostname=host),
    )
    for _ in range(4):
        for end in reversed(ends):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return ends


def test_member_is_identified_by_its_certificate_and_votes_only_for_itself(tmp_path: Path) -> None:
    one = settings_for(tmp_path / "one", node(1))
    two = settings_for(tmp_path / "two", node(2))
    at_one, at_two = handshake_result(
        context(one, server=True), context(two, server=False), "demo-1.ns.svc"
    )
    der = at_one.getpeercert(binary_form=True)
    assert der is not None
    uris = alternative_uris(_certificate(der))
    assert own_identity(alternative_uris(node(1).certificate), 1).quorum == "demo"
    caller = Caller(
        principal_of(der, one.rules), "10.0.0.2", "CONTROLLER", identity_in(uris, "ns", "demo")
    )
    assert caller.principal == "User:demo-2"
    assert isinstance(AUTHORIZER.request(caller, body_of(VOTE, node_id=2)), Asked)
    assert not isinstance(AUTHORIZER.request(caller, body_of(VOTE, node_id=1)), Asked)
    dialled = at_two.getpeercert(binary_form=True)
    assert dialled is not None
    check_host(_certificate(dialled), "demo-1.ns.svc", "demo-1:9093")
    found = identity_in(alternative_uris(_certificate(dialled)), "ns", "demo")
    assert why_not_dialled(found, 1) is None
    assert why_not_dialled(found, 3) is not None


def _certificate(der: bytes) -> x509.Certificate:
    return x509.load_der_x509_certificate(der)


def test_certificate_of_another_authority_is_rejected_in_the_handshake(tmp_path: Path) -> None:
    foreign = authority("ca-9", start=START, end=END)
    server = context(settings_for(tmp_path / "one", node(1)), server=True)
    stranger = context(settings_for(tmp_path / "two", node(2, foreign), foreign), server=False)
    with pytest.raises(ssl.SSLError):
        handshake_result(server, stranger, "demo-1.ns.svc")
