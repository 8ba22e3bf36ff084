"""The next step for certificates of an external issuer: request, distribute trust, take over. Pure.

The issuer decides when to renew and which authority signs. This module decides when an issued certificate is used:
one member at a time, the leader last, and only if every member that may be running trusts its authority.
"""

from collections.abc import Iterator
from functools import cached_property

from quorum_operator.certificates.facts import AuthoritySecret, Issued, MemberSeen
from quorum_operator.certificates.holders import Holder
from quorum_operator.certificates.steps import (
    CopyIssuedPair,
    RequestCertificate,
    Retire,
    Settled,
    Step,
    WaitFor,
)
from quorum_operator.certificates.trust import Trust, names_of


class IssuedRotation(Trust):
    """Rotation with an external issuer."""

    def steps(self) -> Iterator[Step]:
        """All steps in order: those that distribute trust first, those that depend on it last."""
        waits: list[WaitFor] = []
        yield from self._unretired()
        yield from self._spread()
        for step in self._taken():
            if isinstance(step, WaitFor):
                waits.append(step)
            else:
                yield step
        yield from self._requests()
        yield from waits
        yield from self._missing()
        yield from self._forget()
        yield Settled(self._due_at())

    @cached_property
    def signer(self) -> AuthoritySecret | None:
        """Always None: an external issuer signs."""
        return None

    @cached_property
    def issued(self) -> dict[str, Issued]:
        """States of the issued certificates by holder."""
        return {each.holder: each for each in self.seen.issued or ()}

    def _signer_of(self, step: Step) -> str | None:
        """Fingerprint of the authority of the key pair that a step writes; None if it writes none."""
        return self.issued[step.holder.name].anchor if isinstance(step, CopyIssuedPair) else None

    def _requests(self) -> Iterator[Step]:
        for each in self.issued.values():
            if each.is_readable and not each.is_as_wanted:
                why = "other names or another issuer" if each.version else "it has no certificate"
                yield RequestCertificate(
                    each.holder, each.request, each.version, f"{each.holder}: {why}"
                )

    def _taken(self) -> Iterator[Step]:
        """Key pairs to take over: holders without one first, then one at a time."""
        due = [each for each in self.holders if self._is_due(each)]
        blocked = self._unloaded()
        due.sort(key=lambda each: (not self._has_no_pair(each), *self._rank(each)))
        for holder in due:
            pair = self.issued[holder.name]
            why_not = self._why_not(holder, pair)
            if why_not is not None:
                yield why_not
            elif self._has_no_pair(holder) or blocked is None or self._is_urgent(holder):
                leaf = self.leaves.get(holder.name)
                version = "" if leaf is None else leaf.version
                yield CopyIssuedPair(
                    *(holder, pair.chain[0], self.wanted_bundle, version),
                    f"{holder.name}: a new certificate was issued",
                    self._marks,
                    self.revoked_for(holder),
                )
            else:
                yield WaitFor(blocked)

    def _is_due(self, holder: Holder) -> bool:
        pair, leaf = self.issued.get(holder.name), self.leaves.get(holder.name)
        if pair is None or not pair.chain:
            return False
        return leaf is None or leaf.certificate != pair.chain[0]

    def _why_not(self, holder: Holder, pair: Issued) -> WaitFor | None:
        """Why the certificate can't be used yet: a member does not trust its authority."""
        ignorant = self._distrusting(holder, pair.anchor)
        if ignorant is not None:
            return WaitFor(
                f"the certificate of {holder.name} waits until {ignorant} trusts its issuer"
            )
        if self.usable and self.seen.unaware and not self.seen.confirmed:
            listed = ", ".join(self.seen.unaware)
            text = (
                f"the issuer's certificates wait until these brokers have been restarted: {listed}"
            )
            return WaitFor(text, self.seen.unaware)
        return None

    def _distrusting(self, holder: Holder, anchor: str) -> str | None:
        """A member that may be running with a valid certificate, and may not trust the authority of the new certificate
        of `holder`.
        """
        for each in self.seen.members:
            if not each.running or self._waits_for_a_pair(each):
                continue
            if each.loaded is None:
                if self._may_distrust(each, holder, anchor):
                    return each.holder.name
            elif anchor not in names_of(each.loaded.bundle):
                return each.holder.name
        return None

    def _may_distrust(self, silent: MemberSeen, holder: Holder, anchor: str) -> bool:
        """Whether a member that does not answer may not trust this authority."""
        leaf = self.leaves.get(silent.holder.name)
        if leaf is None or leaf.certificate is None:
            return False
        if self.issuer_of(leaf) != anchor:
            return True
        # It gets a certificate of an authority after it reports that it trusts it, or without a report if its Secret
        # was lost while it was silent. Hence its certificate alone is no proof, and no working holder changes its
        # authority because of it.
        return self._changes_authority(holder, anchor) and not self._is_in_use(anchor)

    def _changes_authority(self, holder: Holder, anchor: str) -> bool:
        """Whether the holder now uses a valid certificate of another authority."""
        leaf, member = self.leaves.get(holder.name), self.members.get(holder.name)
        if leaf is not None and leaf.certificate is not None:
            return self.issuer_of(leaf) != anchor
        loaded = member.loaded if member is not None else None
        return loaded is not None and loaded.authority != anchor

    def _is_in_use(self, anchor: str) -> bool:
        """Whether a member reports that it uses a certificate of this authority."""
        for each in self.seen.members:
            leaf = self.leaves.get(each.holder.name)
            if each.loaded is None or leaf is None or leaf.certificate is None:
                continue
            has_loaded_it = each.loaded.certificate == leaf.certificate.fingerprint
            if has_loaded_it and self.issuer_of(leaf) == anchor:
                return True
        return False

    def _missing(self) -> Iterator[Step]:
        for each in self.issued.values():
            if each.waits:
                yield WaitFor(f"{each.holder}: {each.waits}")

    def _forget(self) -> Iterator[Step]:
        """Retire authorities that the operator created or copied earlier."""
        for each in sorted(self.usable.values(), key=lambda one: one.generation):
            assert each.certificate is not None
            name = f"authority {each.generation}"
            if self._may_be_presented(each.certificate, each):
                yield WaitFor(f"{name} is kept until no member can present its certificates")
            elif self.seen.lagging and not self.seen.confirmed:
                listed = ", ".join(self.seen.lagging)
                text = f"{name} is kept until these brokers have been restarted: {listed}"
                yield WaitFor(text, self.seen.lagging)
            else:
                yield Retire(
                    each.generation,
                    each.version,
                    f"no certificate signed by {name} is in use any more",
                )

    def _due_at(self) -> float:
        """When the next certificate is due: cert-manager renews it after two thirds of its lifetime."""
        ends = [e.certificate.validity.leaf_due_at for e in self.seen.leaves if e.certificate]
        return min(ends, default=float("inf"))
