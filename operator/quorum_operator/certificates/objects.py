"""Converts the objects of one quorum to facts about its certificates. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from quorum_operator.certificates import documents
from quorum_operator.certificates.documents import Object
from quorum_operator.certificates.facts import AuthoritySecret, Issued, LeafSecret, MemberSeen, Seen
from quorum_operator.certificates.holders import Holder
from quorum_operator.certificates.issued import IssuedObjects, issued
from quorum_operator.certificates.known import known_authorities
from quorum_operator.certificates.named import Named, without_clash
from quorum_operator.certificates.pem import Read
from quorum_operator.certificates.revoked import file_for
from quorum_operator.desired.names import Owner
from quorum_operator.tls_crd import IssuerRef


@dataclass(frozen=True, slots=True)
class Objects:
    """Objects as the API server returned them. `authorities`: Secrets by generation; `leaves`: by the holder's name."""

    authorities: Mapping[int, Object]
    leaves: Mapping[str, Object]
    trust: Object | None
    issued: Mapping[str, IssuedObjects] | None = None
    """Objects of an external issuer, by the holder's name; None if the operator signs."""


def certificate_facts(
    owner: Owner,
    now: float,
    found: Objects,
    members: tuple[MemberSeen, ...],
    others: tuple[Holder, ...] = (),
    given: Named | None = None,
    issuer: IssuerRef | None = None,
) -> Seen:
    """Return the input of `rotation.plan`; the caller adds the facts about brokers and annotations."""
    authorities = tuple(
        documents.read_authority(owner, generation, secret, now)
        for generation, secret in sorted(found.authorities.items())
    )
    holders = {each.name: each for each in (*(one.holder for one in members), *others)}
    bundles = tuple(
        LeafSecret(
            name,
            None,
            documents.bundle_of(owner, holders[name], secret),
            "",
            extras=documents.extras_of(secret),
            revoked=documents.revoked_in(secret),
        )
        for name, secret in sorted(found.leaves.items())
        if name in holders
    )
    seen = Seen(
        now=now,
        authorities=authorities,
        trust=None if found.trust is None else documents.read_trust(owner, found.trust),
        trust_version="" if found.trust is None else documents.version_of(found.trust),
        leaves=bundles,
        members=members,
        others=others,
        named=without_clash(owner.namespace, given or Named(), _present(authorities)),
    )
    earlier = (each.revoked for each in bundles if each.revoked is not None)
    seen = replace(
        seen,
        issued=_issued(owner, now, found, holders, seen.named, issuer),
        revoked=file_for(seen.named.revoked, earlier),
    )
    known = known_authorities(seen)
    leaves = tuple(
        documents.read_leaf(owner, holders[name], secret, known, now)
        for name, secret in sorted(found.leaves.items())
        if name in holders
    )
    return replace(seen, leaves=leaves)


def _present(authorities: tuple[AuthoritySecret, ...]) -> tuple[Read, ...]:
    """Certificates of the authorities that are not retired."""
    return tuple(
        each.certificate
        for each in authorities
        if each.certificate is not None and not each.retired
    )


def _issued(
    owner: Owner,
    now: float,
    found: Objects,
    all_holders: Mapping[str, Holder],
    given: Named,
    issuer: IssuerRef | None,
) -> tuple[Issued, ...] | None:
    """The state of cert-manager's certificates, verified only against authorities that the spec names."""
    if issuer is None:
        return None
    there = found.issued or {}
    return tuple(
        issued(owner, each, issuer, there.get(each.name, IssuedObjects()), given.trusted, now)
        for each in all_holders.values()
    )
