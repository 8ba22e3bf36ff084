"""The next step of the certificates of a quorum: issue, renew, and change the authority (trust both → reissue → forget).

A function of what is seen. It remembers nothing, so a killed operator, or another one, goes on from what is there. Each step
is one write: a creation, or a patch bound to the version that was read.

What it holds to, at every moment and wherever it is cut off:

* An authority signs only when every member that may be alive trusts it, by its own word, and every bundle in Kubernetes has it.
* An authority is forgotten only when no member that may be alive presents a certificate of it, and no Secret holds one.

Hence each member trusts each other one, whichever of the files that it was given it has loaded. A member that is
alive and silent is waited for: until it can be asked, is gone, or everything it can present has surely expired.

It counts on nodes to take over the bundle and the pair independently: a Secret without a pair brings a bundle to a
process that keeps the pair it has.
"""

from collections.abc import Iterator
from functools import cached_property

from quorum_operator.certificates import lifetimes
from quorum_operator.certificates.facts import AuthoritySecret, Seen
from quorum_operator.certificates.holders import Holder
from quorum_operator.certificates.issued_rotation import IssuedRotation
from quorum_operator.certificates.lifetimes import CLOSING_S, SPREAD_S
from quorum_operator.certificates.pem import Read
from quorum_operator.certificates.steps import (
    BeginSigning,
    CreateAuthority,
    RaiseSignedUntil,
    Retire,
    Settled,
    Step,
    WaitFor,
    WriteLeaf,
)
from quorum_operator.certificates.trust import Trust, last_end, names_of


def plan(seen: Seen) -> Step:
    """The first step that applies."""
    return next(_planner(seen).steps())


def signer_of(seen: Seen) -> AuthoritySecret | None:
    """The authority that signs now; None while there is none, or its key is lost."""
    return _planner(seen).signer


def trusted_by(seen: Seen) -> tuple[Read, ...]:
    """The authorities that members' certificates may be of now."""
    return _planner(seen).own_bundle


def _planner(seen: Seen) -> "Rotation | IssuedRotation":
    return Rotation(seen) if seen.issued is None else IssuedRotation(seen)


class Rotation(Trust):
    """Authorities whose keys the operator has."""

    def steps(self) -> Iterator[Step]:
        """In this order: what brings trust goes first, what needs it last."""
        yield from self._first_authority()
        yield from self._spread()
        yield from self._pairs()
        yield from self._next_authority()
        yield from self._forget()
        yield Settled(self._due_at())

    # ---- What is known

    def _first_authority(self) -> Iterator[Step]:
        if self.usable and (self.signer is not None or self._candidate is not None):
            return
        lost = bool(self.known) or bool(self.seen.authorities)
        reason = "there is no authority"
        if lost:
            reason = "the key of the authority is lost: the next one takes over once all trust it"
        yield self._make(not lost and not self._anyone, reason)

    def _make(self, signing: bool, reason: str) -> Step:
        """The next authority: of the operator, or the one that is given. Nothing takes the place of one that can't be used."""
        given = self.seen.named
        if given.secret and given.authority is None:
            why = next((each.message for each in given.troubles), "")
            return WaitFor(f"no authority can sign: {why}")
        return CreateAuthority(self._next_generation(), signing, reason, given.authority)

    def _is_wanted(self, authority: AuthoritySecret) -> bool:
        """Whether the spec asks for such an authority: for this one, or for one that the operator makes."""
        given = self.seen.named
        if not given.secret:
            return not authority.given
        return authority.given and given.authority in (None, authority.certificate)

    @cached_property
    def _anyone(self) -> bool:
        """Some process may be alive that trusts something else."""
        return any(each.running for each in self.seen.members)

    @cached_property
    def _candidate(self) -> AuthoritySecret | None:
        """The newest that is not signing yet."""
        signing = max(
            (each.generation for each in self.seen.authorities if each.signing), default=0
        )
        waiting = [
            each
            for each in self.usable.values()
            if each.generation > signing and self._is_wanted(each)
        ]
        return max(waiting, key=lambda each: each.generation, default=None)

    def _next_generation(self) -> int:
        taken = {each.generation for each in self.seen.authorities} | self.seen.names_taken
        taken |= {each.generation or 0 for each in self.known.values()}
        return max(taken, default=0) + 1

    def _pairs(self) -> Iterator[Step]:
        """New pairs: who has none first, of the rest one at a time, the leader last."""
        signer = self.signer
        if signer is None or not self._can_sign(signer):
            return
        due = [(holder, why) for holder in self.holders if (why := self._why_due(holder))]
        for holder, why in due:
            if self._has_no_pair(holder):
                yield from self._write(signer, holder, why)
        blocked = self._unloaded()
        for holder, why in sorted(due, key=lambda each: self._rank(each[0])):
            if blocked is None or self._is_urgent(holder):
                yield from self._write(signer, holder, why)
        if due and blocked is not None:
            yield WaitFor(blocked)

    def _can_sign(self, signer: AuthoritySecret) -> bool:
        """What an authority signs ends with it."""
        assert signer.certificate is not None
        return self.seen.now < signer.certificate.validity.not_after

    def _write(self, signer: AuthoritySecret, holder: Holder, why: str) -> Iterator[Step]:
        assert signer.certificate is not None
        authority = signer.certificate.validity
        until = lifetimes.of_leaf(holder.role, self.seen.now, authority).not_after
        if signer.signed_until < until:
            # A day more, so that it is not raised again for each.
            raised = until + lifetimes.DAY_S
            yield RaiseSignedUntil(signer.generation, signer.version, raised, why)
        leaf = self.leaves.get(holder.name)
        version = "" if leaf is None else leaf.version
        bundle, marks = self.wanted_bundle, self._marks
        told = self.revoked_for(holder)
        yield WriteLeaf(holder, signer.generation, bundle, version, why, marks, told)

    def _why_due(self, holder: Holder) -> str | None:
        """Why it gets a new pair now."""
        leaf, signer = self.leaves.get(holder.name), self.signer
        assert signer is not None
        assert signer.certificate is not None
        if leaf is None:
            return f"{holder.name} has no Secret"
        if leaf.certificate is None:
            return f"{holder.name}: {leaf.problem or 'its Secret has no pair yet'}"
        if self.issuer_of(leaf) != signer.certificate.fingerprint:
            return f"{holder.name}: its certificate is not signed by authority {signer.generation}"
        if not set(holder.dns_names) <= leaf.certificate.dns_names:
            return f"{holder.name}: names are missing in its certificate"
        due = self.seen.now >= leaf.certificate.validity.leaf_due_at
        new_end = lifetimes.of_leaf(
            holder.role, self.seen.now, signer.certificate.validity
        ).not_after
        # Near the end of its authority a new one would hardly end later.
        if due and new_end > leaf.certificate.validity.not_after + lifetimes.DAY_S:
            return f"{holder.name}: two thirds of its certificate's life are over"
        return None

    def _next_authority(self) -> Iterator[Step]:
        """Make the next one in time, and let it sign when all trust it."""
        candidate, signer = self._candidate, self.signer
        if candidate is None:
            assert signer is not None
            assert signer.certificate is not None
            why = self._why_another(signer, signer.certificate)
            if why is not None:
                yield self._make(False, f"authority {signer.generation}: {why}")
            return
        assert candidate.certificate is not None
        name = f"authority {candidate.generation}"
        ignorant = self._ignorant(candidate.certificate)
        if ignorant is not None:
            yield WaitFor(f"{name} waits until {ignorant} trusts it")
        elif self._must_wait(self.seen.unaware, signer):
            listed = ", ".join(self.seen.unaware)
            yield WaitFor(
                f"{name} waits until these brokers have been restarted: {listed}", self.seen.unaware
            )
        else:
            yield BeginSigning(candidate.generation, candidate.version, f"all trust {name}")

    def _why_another(self, signer: AuthoritySecret, certificate: Read) -> str | None:
        """Why the next authority is made now. One that is given is followed by what is put in its place, and by nothing else."""
        given = self.seen.named
        if given.secret:
            other = given.authority is not None and not self._is_wanted(signer)
            return f"Secret {given.secret} has another one" if other else None
        if signer.given:
            return "the spec names no Secret with an authority any more"
        if self.seen.now >= certificate.validity.authority_due_at:
            return "four fifths of its life are over"
        return "another one is asked for" if self.seen.rotation_asked else None

    def _ignorant(self, authority: Read) -> str | None:
        """A member that may be alive and does not say that it trusts it. Bundles in Kubernetes have it by now."""
        for each in self.seen.members:
            if not each.running or self._waits_for_a_pair(each):
                continue
            if each.loaded is None:
                if not self._mute() and not self._all_has_ended:
                    return each.holder.name
            elif authority.fingerprint not in names_of(each.loaded.bundle):
                return each.holder.name
        return None

    @cached_property
    def _all_has_ended(self) -> bool:
        """The authority has ended, nobody answers any more, and kubelets have had the time to bring the bundle with the next one: there
        is nothing left that could be torn apart."""
        signer, candidate = self.signer, self._candidate
        if signer is None or signer.certificate is None or candidate is None:
            return False
        ended = self.seen.now >= signer.certificate.validity.not_after
        nobody = not any(each.loaded is not None for each in self.seen.members)
        return ended and nobody and self.seen.now > candidate.made_at + SPREAD_S

    def _mute(self) -> bool:
        """Whatever a silent member could present has surely expired: it can't talk to anybody before it loads what its Secret holds."""
        ends = [last_end(e) for e in self.seen.authorities if e.signing and not e.retired]
        without_secret = {
            name: each.validity.not_after
            for name, each in self.known.items()
            if name
            not in {e.certificate.fingerprint for e in self.seen.authorities if e.certificate}
        }
        return all(self._surely_over(end) for end in (*ends, *without_secret.values()))

    def _must_wait(self, brokers: tuple[str, ...], signer: AuthoritySecret | None) -> bool:
        """Not when a person says so, and not when the authority that they know is about to end."""
        if not brokers or self.seen.confirmed:
            return False
        ends = [
            each.validity.not_after
            for each in self.known.values()
            if signer is None or signer.certificate is None or each == signer.certificate
        ]
        return self.seen.now < min(ends, default=0.0) - CLOSING_S

    def _forget(self) -> Iterator[Step]:
        """Others than the signer, when nobody presents what they have signed."""
        signer = self.signer
        if signer is None or self._candidate is not None:
            return
        for each in sorted(self.usable.values(), key=lambda one: one.generation):
            if each is signer:
                continue
            assert each.certificate is not None
            name = f"authority {each.generation}"
            if self._may_be_presented(each.certificate, each):
                yield WaitFor(f"{name} is kept until no member can present its certificates")
            elif self._must_wait_lagging(each):
                listed = ", ".join(self.seen.lagging)
                yield WaitFor(
                    f"{name} is kept until these brokers have been restarted: {listed}",
                    self.seen.lagging,
                )
            else:
                yield Retire(each.generation, each.version, f"nobody presents what {name} signed")

    def _must_wait_lagging(self, old: AuthoritySecret) -> bool:
        if not self.seen.lagging or self.seen.confirmed:
            return False
        return not self._surely_over(last_end(old))

    def _due_at(self) -> float:
        """When the first certificate is to be replaced."""
        assert self.signer is not None
        assert self.signer.certificate is not None
        times = [self.signer.certificate.validity.authority_due_at]
        times += [
            each.certificate.validity.leaf_due_at for each in self.seen.leaves if each.certificate
        ]
        return min(times)
