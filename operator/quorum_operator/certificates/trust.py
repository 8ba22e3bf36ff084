"""Which authorities a quorum trusts, and how they are distributed, independent of who signs. Pure."""

from collections.abc import Iterator
from functools import cached_property

from quorum_node.security.certificate_identity import Role
from quorum_operator.certificates.facts import AuthoritySecret, LeafSecret, MemberSeen, Seen
from quorum_operator.certificates.holders import Holder
from quorum_operator.certificates.known import extras_in_secrets, known_authorities
from quorum_operator.certificates.lifetimes import SURELY_OVER_S
from quorum_operator.certificates.pem import Read, anchor_of, is_same_authority
from quorum_operator.certificates.steps import (
    ApplyTrust,
    RemoveRetiredMark,
    Step,
    WriteBundle,
    WriteLeaf,
)


class Trust:
    """The trusted authorities, derived from the observation."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen
        self.holders = (*(each.holder for each in seen.members), *seen.others)
        self.leaves = {each.holder: each for each in seen.leaves}
        self.members = {each.holder.name: each for each in seen.members}

    @cached_property
    def usable(self) -> dict[int, AuthoritySecret]:
        """Authorities by generation that have a key and are not retired."""
        return {
            each.generation: each
            for each in self.seen.authorities
            if each.certificate is not None and each.generation not in self.retired
        }

    @cached_property
    def retired(self) -> frozenset[int]:
        """Generations that are not trusted any more, because none of their certificates is in use."""
        marked = {each.generation for each in self.seen.authorities if each.retired}
        return frozenset(marked - {each.generation for each in self._wrongly_retired})

    @cached_property
    def _wrongly_retired(self) -> tuple[AuthoritySecret, ...]:
        """Authorities that another client has marked as retired: their certificates may be in use, and more than half
        of the bundles contain them.

        The operator marks an authority only if none of its certificates is in use, and then removes it from all
        bundles. Therefore a single edited Secret or a single member does not restore the trust in a retired one.
        """
        seen = self.seen
        in_secrets = [leaf.bundle for leaf in seen.leaves if leaf.bundle]
        reported = [each.loaded.bundle for each in seen.members if each.loaded is not None]
        bundles = in_secrets or reported
        valid = (each.certificate for each in seen.authorities if not each.retired)
        others = (*self.issuers, *(each for each in valid if each is not None))
        return tuple(
            each
            for each in seen.authorities
            if each.retired and each.certificate is not None
            # The certificate of another authority with the same key verifies the same certificates.
            if not any(is_same_authority(one, each.certificate) for one in others)
            if 2 * sum(each.certificate in bundle for bundle in bundles) > len(bundles)
            if self._is_in_a_secret(each.certificate)
            or self._may_be_loaded(each.certificate, last_end(each))
        )

    def _is_in_a_secret(self, authority: Read) -> bool:
        """Whether a holder's Secret has a certificate signed by this authority."""
        chains = [(each.certificate, *each.above) for each in self.seen.leaves if each.certificate]
        return any(anchor_of(chain, (authority,)) is not None for chain in chains)

    @cached_property
    def signer(self) -> AuthoritySecret | None:
        """The newest signing authority; None if there is none or its key is lost."""
        signing = [each for each in self.usable.values() if each.signing]
        found = max(signing, key=lambda each: each.generation, default=None)
        newest_signing = max((e.generation for e in self.seen.authorities if e.signing), default=0)
        return found if found is not None and found.generation >= newest_signing else None

    @cached_property
    def known(self) -> dict[str, Read]:
        """All authorities of this quorum, by fingerprint."""
        return {each.fingerprint: each for each in known_authorities(self.seen)}

    @cached_property
    def wanted_bundle(self) -> tuple[Read, ...]:
        """The bundle for all holders."""
        return (*self.own_bundle, *self.extras)

    @cached_property
    def extras(self) -> tuple[Read, ...]:
        """Additional authorities of the spec. While some of them are unreadable, the previously trusted ones are
        kept.
        """
        if self.seen.issued is not None:
            return ()
        own = names_of(self.own_bundle)
        kept = () if self.seen.named.is_complete else extras_in_secrets(self.seen)
        found = {each.fingerprint: each for each in (*self.seen.named.trusted, *kept)}
        return tuple(each for name, each in sorted(found.items()) if name not in own)

    @cached_property
    def own_bundle(self) -> tuple[Read, ...]:
        """Authorities that are not retired, and those without a Secret whose certificates may still be in use."""
        retired = {
            each.certificate.fingerprint
            for each in self.seen.authorities
            if each.certificate is not None and each.generation in self.retired
        }
        usable = {each.certificate.fingerprint for each in self.usable.values() if each.certificate}
        usable |= names_of(self.issuers)
        # While the authorities in the spec can't be read, it is unknown which ones are no longer
        # trusted.
        unsure = self.seen.issued is not None and not self.seen.named.is_complete
        kept = [
            each
            for name, each in self.known.items()
            if name in usable
            or (name not in retired and (unsure or self._may_be_presented(each, None)))
        ]
        return tuple(sorted(kept, key=lambda each: (each.generation or 0, each.fingerprint)))

    @cached_property
    def issuers(self) -> tuple[Read, ...]:
        """Authorities of an external issuer."""
        return self.seen.named.trusted if self.seen.issued is not None else ()

    def _may_be_presented(self, authority: Read, secret: AuthoritySecret | None) -> bool:
        """Whether a running member or a Secret may have a certificate that only this authority verifies."""
        if any(each != authority and is_same_authority(each, authority) for each in self._newest):
            # It was renewed with the same key, so the new certificate verifies them as well.
            return False
        if any(self.issuer_of(leaf) == authority.fingerprint for leaf in self.seen.leaves):
            return True
        end = authority.validity.not_after if secret is None else last_end(secret)
        return self._may_be_loaded(authority, end)

    def _may_be_loaded(self, authority: Read, end: float) -> bool:
        """Whether a running member may present a certificate signed by this authority. `end`: when all of them have
        expired.
        """
        for each in self.seen.members:
            if not each.running or self._waits_for_a_pair(each):
                continue
            if each.loaded is None:
                if not self._surely_over(end):
                    return True
            elif each.loaded.authority == authority.fingerprint:
                return True
        return False

    def _surely_over(self, end: float) -> bool:
        return self.seen.now > end + SURELY_OVER_S

    def issuer_of(self, leaf: LeafSecret) -> str | None:
        """Fingerprint of the known authority that signed the certificate; None if there is none."""
        if leaf.certificate is None:
            return None
        # The newest first: an authority that was renewed with the same key has two certificates.
        found = anchor_of((leaf.certificate, *leaf.above), (*self._newest, *self.known.values()))
        return found.fingerprint if found is not None else None

    @cached_property
    def _newest(self) -> tuple[Read, ...]:
        """Authorities that certificates should currently come from."""
        own = self.signer.certificate if self.signer is not None else None
        return (own,) if own is not None else self.issuers

    # ---- Steps and what they wait for

    def _unretired(self) -> Iterator[Step]:
        """Remove wrong marks first: they would count once the certificates are those of the next authority."""
        for each in self._wrongly_retired:
            why = f"authority {each.generation} is marked as retired, but its certificates may be in use"
            yield RemoveRetiredMark(each.generation, each.version, why)

    def _spread(self) -> Iterator[Step]:
        """Update the trust ConfigMap and every bundle."""
        wanted, marks = self.wanted_bundle, self._marks
        if self.seen.trust is None or names_of(self.seen.trust) != names_of(wanted):
            yield ApplyTrust(
                wanted, self.seen.trust_version, "the trust bundle holds different authorities"
            )
        for holder in self.holders:
            leaf = self.leaves.get(holder.name)
            same = leaf is not None and self._is_as_wanted(leaf)
            revoked = self.revoked_for(holder)
            if same and (revoked is None or (leaf is not None and leaf.revoked == revoked)):
                continue
            if leaf is None and self.signer is not None:
                continue  # A new member gets key pair and bundle in one write.
            version = "" if leaf is None else leaf.version
            why = f"{holder.name} has {'other revoked certificates' if same else 'another bundle'}"
            yield WriteBundle(holder, wanted, version, why, marks, revoked)

    def revoked_for(self, holder: Holder) -> str | None:
        """The file of revoked certificates for a member; None for other holders, which do not read it."""
        return self.seen.revoked if holder.role is Role.MEMBER else None

    def _is_as_wanted(self, leaf: LeafSecret) -> bool:
        marked = leaf.extras & names_of(leaf.bundle)
        return names_of(leaf.bundle) == names_of(self.wanted_bundle) and marked == names_of(
            self.extras
        )

    @cached_property
    def _marks(self) -> frozenset[str]:
        """Certificates to mark as not belonging to this quorum.

        Authorities that were removed from the spec stay marked while a bundle contains them. Otherwise they would
        count as authorities of this quorum whose Secret is lost.
        """
        seen = self.seen
        bundles = [leaf.bundle for leaf in seen.leaves]
        bundles += [each.loaded.bundle for each in seen.members if each.loaded is not None]
        about = {each.fingerprint for bundle in bundles for each in bundle}
        once = {name for leaf in seen.leaves for name in leaf.extras} & about
        return names_of(self.extras) | (once - names_of(self.own_bundle))

    def is_independent(self, step: Step, held: Step) -> bool:
        """Whether a step of one holder may be executed although `held`, that of another, could not be: not a key pair
        from an authority that the bundle of a member does not contain, which could not be written.
        """
        if not isinstance(held, WriteBundle) or held.holder.role is not Role.MEMBER:
            return True
        signer = self._signer_of(step)
        member, leaf = self.members.get(held.holder.name), self.leaves.get(held.holder.name)
        if signer is None or (member is not None and not member.running):
            return True
        return leaf is not None and signer in names_of(leaf.bundle)

    def _signer_of(self, step: Step) -> str | None:
        """Fingerprint of the authority of the key pair that a step writes; None if it writes none."""
        if not isinstance(step, WriteLeaf):
            return None
        own = self.usable.get(step.generation)
        return own.certificate.fingerprint if own is not None and own.certificate else ""

    def _has_no_pair(self, holder: Holder) -> bool:
        leaf = self.leaves.get(holder.name)
        return leaf is None or leaf.certificate is None

    def _unloaded(self) -> str | None:
        """A member that has not loaded the key pair in its Secret yet, or does not fetch. The next key pair waits for
        it.
        """
        for each in self.seen.members:
            leaf = self.leaves.get(each.holder.name)
            if each.voter_down:
                return f"{each.holder.name} is a voter that does not fetch from the leader"
            if each.loaded is None or leaf is None or leaf.certificate is None:
                continue
            if each.loaded.certificate != leaf.certificate.fingerprint:
                return f"{each.holder.name} has not loaded its new certificate yet"
        return None

    def _is_urgent(self, holder: Holder) -> bool:
        """Whether a certificate is about to expire, so that it is renewed even if members are down."""
        leaf, seen = self.leaves.get(holder.name), self.members.get(holder.name)
        if leaf is None or leaf.certificate is None:
            return True
        silent = seen is not None and seen.loaded is None
        return silent or self.seen.now >= leaf.certificate.validity.urgent_at

    def _rank(self, holder: Holder) -> tuple[bool, str]:
        seen = self.members.get(holder.name)
        return (seen is not None and seen.leader, holder.name)

    def _waits_for_a_pair(self, member: MemberSeen) -> bool:
        """Whether the member can't start because its Secret has no key pair."""
        leaf = self.leaves.get(member.holder.name)
        return member.stopped and (leaf is None or leaf.certificate is None)


def last_end(secret: AuthoritySecret) -> float:
    """Time at which all certificates of the authority have expired; its own expiry if this is not recorded."""
    if secret.certificate is None:
        return secret.signed_until or float("inf")
    end = secret.certificate.validity.not_after
    return min(end, secret.signed_until) if secret.signed_until else end


def names_of(bundle: tuple[Read, ...]) -> frozenset[str]:
    return frozenset(each.fingerprint for each in bundle)
