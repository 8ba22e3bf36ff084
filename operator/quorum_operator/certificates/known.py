"""Determines which authorities belong to this quorum. Pure."""

from collections import Counter

from quorum_operator.certificates.facts import Seen
from quorum_operator.certificates.pem import Read


def known_authorities(seen: Seen) -> tuple[Read, ...]:
    """Authorities with a Secret, and those trusted by more than half of the holders' Secrets or of the answering
    members.

    A single edited Secret, a single member, or the trust ConfigMap is not sufficient. Otherwise write access to one
    of them would allow its holder to become an administrator of the quorum.
    """
    found = {
        each.certificate.fingerprint: each.certificate
        for each in seen.authorities
        if each.certificate is not None
    }
    named = () if seen.issued is not None else seen.named.trusted
    extras = {each.fingerprint for each in named}
    marks = Counter(name for leaf in seen.leaves if leaf.bundle for name in leaf.extras)
    extras |= {name for name, count in marks.items() if 2 * count > _bundles(seen)}
    in_secrets = [leaf.bundle for leaf in seen.leaves if leaf.bundle]
    loaded = [each.loaded.bundle for each in seen.members if each.loaded is not None]
    for bundles in (in_secrets, loaded):
        found |= {
            each.fingerprint: each for each in _of_most(bundles) if each.fingerprint not in extras
        }
    if seen.issued is not None:  # the issuer in the spec issues the certificates then
        found |= {each.fingerprint: each for each in seen.named.trusted}
    return tuple(found.values())


def extras_in_secrets(seen: Seen) -> tuple[Read, ...]:
    """Additional authorities that more than half of the holders' Secrets trust."""
    return _of_most(
        [
            tuple(each for each in leaf.bundle if each.fingerprint in leaf.extras)
            for leaf in seen.leaves
            if leaf.bundle
        ]
    )


def _bundles(seen: Seen) -> int:
    """Number of holders' Secrets with a bundle."""
    return sum(1 for leaf in seen.leaves if leaf.bundle)


def _of_most(bundles: list[tuple[Read, ...]]) -> tuple[Read, ...]:
    """Certificates that more than half of the bundles contain."""
    times = Counter(each for bundle in bundles for each in set(bundle))
    return tuple(each for each, count in times.items() if 2 * count > len(bundles))
