"""Certificates of a listener, own and trusted, checked together; and their update when files change. PURE.

Owns the rule of rotation: a new set replaces the old one as a whole, once it has no problem. Until
then the old one stays, except the trusted and revoked certificates, and the problem is reported.
The server reads the files periodically (`paths_of`), creates a context from the result, and uses it
for new handshakes. It never changes a context in use.
"""

import contextlib
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from quorum_node.security.certificate_identity import (
    CertificateIdentity,
    Role,
    WrongIdentity,
    own_identity,
)
from quorum_node.security.tls.certificates import alternative_uris, check_time
from quorum_node.security.tls.key_pairs import (
    KeyPair,
    TrustBundle,
    check_own_trust,
    load_key_pair,
    load_trust,
)
from quorum_node.security.tls.peers import check_revoked
from quorum_node.security.tls.problems import CertificateProblem, ProblemKind
from quorum_node.security.tls.revocation import NONE_REVOKED, RevokedCertificates, load_revoked
from quorum_node.security.tls.ssl_settings import REVOKED_KEY, PemFile, PemSource, SslSettings

Contents = Mapping[str, bytes | None]
"""Content of each file, by path; None for an unreadable one."""


@dataclass(frozen=True, slots=True)
class Material:
    """Certificates of one listener. `identity`: identity of this node in its certificate, if required."""

    pair: KeyPair
    trust: TrustBundle | None
    identity: CertificateIdentity | None
    revoked: RevokedCertificates = NONE_REVOKED


@dataclass(frozen=True, slots=True)
class Held:
    """`problem`: of the newest files, while `material` is still that of earlier ones.

    `seen`: a digest of the newest files.
    """

    material: Material
    seen: bytes
    problem: CertificateProblem | None = None


def paths_of(settings: SslSettings) -> frozenset[str]:
    """The files to read."""
    store = settings.keystore
    sources = (store.chain, store.key, settings.truststore, settings.revoked)
    return frozenset(each.path for each in sources if isinstance(each, PemFile))


def first_held(
    settings: SslSettings,
    contents: Contents,
    now: datetime,
    node_id: int | None = None,
    role: Role = Role.MEMBER,
) -> Held:
    """The initial state, without earlier files as a fallback. Raises CertificateProblem."""
    return Held(_loaded(settings, contents, now, node_id, role), _digest(contents))


def held_now(
    held: Held,
    settings: SslSettings,
    contents: Contents,
    now: datetime,
    node_id: int | None = None,
    role: Role = Role.MEMBER,
) -> Held:
    """The state after reading the files again: the same object if nothing has changed.

    Files with a problem are checked again even if they are unchanged: a certificate can become
    valid.
    """
    seen = _digest(contents)
    if seen == held.seen and held.problem is None:
        return held
    try:
        loaded = _loaded(settings, contents, now, node_id, role)
        _check_not_emptied(held.material.revoked, settings, contents)
        return Held(loaded, seen)
    except CertificateProblem as problem:
        if seen == held.seen and problem.is_same(held.problem):
            return held
        return Held(_with_usable_parts(held.material, settings, contents, now), seen, problem)


def why_others_refuse(material: Material, now: datetime) -> CertificateProblem | None:
    """Problem of the certificate in use, without any change of its files: it expired, or was revoked."""
    what = "the certificate in use"
    try:
        check_time(material.pair.leaf, now, what)
        trusted = () if material.trust is None else material.trust.certificates
        above = [each for each in material.pair.chain[1:] if each not in trusted]
        check_revoked(material.pair.leaf, material.revoked, what, above)
    except CertificateProblem as problem:
        return problem
    return None


def is_renewal_due(before: Material, now: Material) -> bool:
    """Whether open outgoing connections have to be replaced: not if this node only trusts more than before."""
    same = before.pair.chain == now.pair.chain and before.revoked == now.revoked
    if not same or before.trust is None or now.trust is None:
        return True
    return not set(before.trust.certificates) <= set(now.trust.certificates)


def _with_usable_parts(
    material: Material, settings: SslSettings, contents: Contents, now: datetime
) -> Material:
    """If one of the files can't be used, take over the trusted and revoked certificates nevertheless.

    Otherwise peers with certificates of a new authority would be refused until this node has one
    too, and this node would wait for them. The same object if nothing changes.
    """
    trust, revoked = material.trust, material.revoked
    with contextlib.suppress(CertificateProblem):
        found_revoked = _revoked(settings, contents)
        _check_not_emptied(revoked, settings, contents)
        revoked = found_revoked
    if settings.truststore is not None:
        with contextlib.suppress(CertificateProblem):
            data, where = _content(settings.truststore, contents, "ssl.truststore.certificates")
            found = load_trust(data, now, where)
            check_own_trust(material.pair, found, now, where)
            trust = found
    if (trust, revoked) == (material.trust, material.revoked):
        return material
    return replace(material, trust=trust, revoked=revoked)


def _loaded(
    settings: SslSettings, contents: Contents, now: datetime, node_id: int | None, role: Role
) -> Material:
    """`node_id`: required node id in the certificate; None: any certificate."""
    store = settings.keystore
    chain, what = _content(store.chain, contents, "ssl.keystore.certificate.chain")
    key, _ = _content(store.key, contents, "ssl.keystore.key")
    pair = load_key_pair(chain, key, store.key_password, now, what)
    trust = None
    if settings.truststore is not None:
        data, where = _content(settings.truststore, contents, "ssl.truststore.certificates")
        trust = load_trust(data, now, where)
        check_own_trust(pair, trust, now, what)
    identity = None
    if node_id is not None:
        try:
            identity = own_identity(alternative_uris(pair.leaf), node_id, role)
        except WrongIdentity as error:
            text = f"holds no certificate of this node: {error}"
            raise CertificateProblem(ProblemKind.WRONG_IDENTITY, what, text) from None
    return Material(pair, trust, identity, _revoked(settings, contents))


def _revoked(settings: SslSettings, contents: Contents) -> RevokedCertificates:
    if settings.revoked is None:
        return NONE_REVOKED
    data, where = _content(settings.revoked, contents, REVOKED_KEY)
    return load_revoked(data, where)


def _check_not_emptied(
    revoked: RevokedCertificates, settings: SslSettings, contents: Contents
) -> None:
    """A file that is being rewritten is empty for a moment. It must not clear the revoked certificates."""
    if settings.revoked is not None and revoked:
        data, what = _content(settings.revoked, contents, REVOKED_KEY)
        if not data:
            text = "is empty, but listed revoked certificates before: to revoke no certificate, write a comment line into it"
            raise CertificateProblem(ProblemKind.HALF_WRITTEN, what, text)


def _content(source: PemSource, contents: Contents, key: str) -> tuple[bytes, str]:
    """Content of a setting, and its name in messages."""
    if not isinstance(source, PemFile):
        return source.text.encode(), key
    data = contents.get(source.path)
    if data is None:
        raise CertificateProblem(ProblemKind.MISSING, source.path, "can't be read")
    return data, source.path


def _digest(contents: Contents) -> bytes:
    """Digest of all files. It covers private keys, so it must not be reversible."""
    digest = hashlib.sha256()
    for path in sorted(contents):
        data = contents[path]
        digest.update(hashlib.sha256(path.encode()).digest())
        digest.update(b"\0" if data is None else hashlib.sha256(data).digest())
    return digest.digest()
