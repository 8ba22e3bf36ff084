"""The next step of certificates that somebody else issues: ask for them, spread trust, and take over what was issued. Pure.

Who issues decides when a certificate is renewed and by which authority. What is decided here is when it is taken over: one member at a
time, the leader last, and never before every member that may be alive trusts the authority that it leads to.
"""

from collections.abc import Iterator
from functools import cached_property

from quorum_operator.certificates.facts import AuthoritySecret, Issued
from quorum_operator.certificates.holders import Holder
from quorum_operator.certificates.steps import (
    RequestCertificate,
    Retire,
    Settled,
    Step,
    TakePair,
    WaitFor,
)
from quorum_operator.certificates.trust import Trust, names_of


class IssuedRotation(Trust):
    """Authorities whose keys somebody else has."""

    def steps(self) -> Iterator[Step]:
        """In this order: what brings trust goes first, what needs it last."""
        waits: list[WaitFor] = []
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
        """Nobody here signs."""
        return None

    @cached_property
    def issued(self) -> dict[str, Issued]:
        """By holder."""
        return {each.holder: each for each in self.seen.issued or ()}

    def _requests(self) -> Iterator[Step]:
        for each in self.issued.values():
            if not each.is_as_wanted and not (
                each.trouble and each.trouble.reason == "IssuerForbidden"
            ):
                why = "other names or another issuer" if each.version else "it has no certificate"
                yield RequestCertificate(
                    each.holder, each.request, each.version, f"{each.holder}: {why}"
                )

    def _taken(self) -> Iterator[Step]:
        """Those that have none first, of the rest one at a time."""
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
                yield TakePair(
                    *(holder, pair.chain[0], self.wanted_bundle, version),
                    f"{holder.name}: another certificate was issued",
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
        """Somebody would not trust it."""
        ignorant = self._distrusting(pair.anchor)
        if ignorant is not None:
            return WaitFor(
                f"the certificate of {holder.name} waits until {ignorant} trusts who issued it"
            )
        if self.usable and self.seen.unaware and not self.seen.confirmed:
            listed = ", ".join(self.seen.unaware)
            text = (
                f"the issuer's certificates wait until these brokers have been restarted: {listed}"
            )
            return WaitFor(text, self.seen.unaware)
        return None

    def _distrusting(self, anchor: str) -> str | None:
        """A member that may be alive and show a valid certificate, and does not say that it trusts this authority."""
        for each in self.seen.members:
            if not each.running or self._waits_for_a_pair(each):
                continue
            if each.loaded is None:
                leaf = self.leaves.get(each.holder.name)
                if leaf is not None and leaf.certificate is not None:
                    return each.holder.name
            elif anchor not in names_of(each.loaded.bundle):
                return each.holder.name
        return None

    def _missing(self) -> Iterator[Step]:
        for each in self.issued.values():
            if each.waits:
                yield WaitFor(f"{each.holder}: {each.waits}")

    def _forget(self) -> Iterator[Step]:
        """Authorities that the operator has made or copied before."""
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
                yield Retire(each.generation, each.version, f"nobody presents what {name} signed")

    def _due_at(self) -> float:
        """When two thirds of the first certificate are over: cert-manager renews it then."""
        ends = [e.certificate.validity.leaf_due_at for e in self.seen.leaves if e.certificate]
        return min(ends, default=float("inf"))
