"""Connections that were let in once: they end with the certificate, with its issuer's trust, and with its serial."""

from datetime import timedelta

from quorum_node.security.tls.key_pairs import load_trust
from quorum_node.security.tls.peers import next_expiry, why_close
from quorum_node.security.tls.problems import ProblemKind
from quorum_node.security.tls.revocation import NONE_REVOKED, RevokedCertificates
from support.generated_certificates import DAY, NOW, authority, issue, pem

OLD, NEW = authority("ca-1"), authority("ca-2")
LOWER = authority("lower", issuer=NEW)
PEER = issue(issuer=OLD).certificate
BOTH = load_trust(pem(OLD.certificate, NEW.certificate), NOW, "trust")
NONE = NONE_REVOKED
AT = "10.0.0.7:5000"


def test_peer_stays_connected_while_its_issuer_is_trusted() -> None:
    new_alone = load_trust(pem(NEW.certificate), NOW, "trust")
    assert why_close(PEER, BOTH, NONE, NOW, AT) is None
    problem = why_close(PEER, new_alone, NONE, NOW, AT)
    assert problem is not None
    assert problem.kind is ProblemKind.UNTRUSTED
    assert str(problem) == f"{AT} shows CN=demo-1-0, whose issuer is not trusted any more"


def test_peer_is_disconnected_when_its_certificate_expires() -> None:
    end = NOW + 90 * DAY
    assert next_expiry([PEER, issue(end=end + DAY).certificate]) == end
    assert next_expiry([]) is None
    assert why_close(PEER, BOTH, NONE, end, AT) is None
    problem = why_close(PEER, BOTH, NONE, end + timedelta(seconds=1), AT)
    assert problem is not None
    assert problem.kind is ProblemKind.EXPIRED


def test_peer_is_disconnected_when_its_serial_is_revoked() -> None:
    assert (
        why_close(PEER, BOTH, RevokedCertificates(frozenset({PEER.serial_number + 1})), NOW, AT)
        is None
    )
    problem = why_close(PEER, BOTH, RevokedCertificates(frozenset({PEER.serial_number})), NOW, AT)
    assert problem is not None
    assert problem.kind is ProblemKind.REVOKED
    assert f"{PEER.serial_number:x}" in str(problem)


def test_expired_issuer_does_not_count() -> None:
    brief = authority("brief", end=NOW + DAY)
    peer = issue(issuer=brief, end=NOW + 2 * DAY).certificate
    trust = load_trust(pem(brief.certificate), NOW, "trust")
    assert why_close(peer, trust, NONE, NOW, AT) is None
    assert why_close(peer, trust, NONE, NOW + DAY + timedelta(hours=1), AT) is not None


def test_peer_below_an_intermediate_needs_the_intermediate() -> None:
    peer = issue(issuer=LOWER).certificate
    assert why_close(peer, BOTH, NONE, NOW, AT) is not None
    assert why_close(peer, BOTH, NONE, NOW, AT, (LOWER.certificate,)) is None


def test_peer_is_disconnected_when_an_authority_above_it_is_revoked() -> None:
    peer, above = issue(issuer=LOWER).certificate, (LOWER.certificate,)
    gone = RevokedCertificates(frozenset({LOWER.certificate.serial_number}))
    problem = why_close(peer, BOTH, gone, NOW, AT, above)
    assert problem is not None
    assert problem.kind is ProblemKind.REVOKED
    assert "CN=lower with the serial" in str(problem)
