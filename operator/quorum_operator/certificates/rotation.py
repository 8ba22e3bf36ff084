"""The next certificate step of a quorum: issue, renew, rotate the authority (trust both, reissue, retire the old
one).

A pure function of the observation, so a killed or second operator continues from the current state. Each step is one
write: a creation, or a patch conditional on the version that was read. Invariants at every moment, also after an
interruption:

* An authority signs only if every member that may be running reports that it trusts it, and every bundle in
  Kubernetes contains it.
* An authority is retired only if no member that may be running presents a certificate signed by it, and no Secret
  contains one.

Hence all members trust each other, whichever version of its files a member has loaded. The operator waits for a
running member that does not answer until it can be queried, has been removed, or all its certificates have certainly
expired.
Nodes load the bundle and the key pair independently, so a Secret without a key pair can deliver a bundle to a running
process.
"""

from collections.abc import Callable, Iterator
from functools import cached_property

from quorum_operator.certificates import lifetimes
from quorum_operator.certificates.facts import AuthoritySecret, Seen
from quorum_operator.certificates.holders import Holder
from quorum_operator.certificates.issued_rotation import IssuedRotation
from quorum_operator.certificates.lifetimes import CLOSING_S, SPREAD_S
from quorum_operator.certificates.pem import Read
from quorum_operator.certificates.steps import (
    ApplyTrust,
    BeginSigning,
    CopyIssuedPair,
    CreateAuthority,
    ExtendSignedUntil,
    RemoveRetiredMark,
    RequestCertificate,
    Retire,
    Settled,
    Step,
    WaitFor,
    WriteBundle,
    WriteLeaf,
)
from quorum_operator.certificates.trust import Trust, last_end, names_of


def plan(seen: Seen, is_held: Callable[[Step], bool] = lambda step: False) -> Step:
    """Return the first step that applies. `is_held`: whether a step was just refused or reverted. Steps that do not
    depend on it go first then: a Secret that can't be written must not keep other holders from being renewed.
    """
    planner, back = _planner(seen), list[Step]()
    for step in planner.steps():
        alone = isinstance(step, _FOR_ONE) and all(
            planner.is_independent(step, each) for each in back
        )
        if back and not alone:
            return back[0]
        if not is_held(step) or not isinstance(step, _PASSED_OVER):
            return step
        back.append(step)
    raise AssertionError("the plan ends with Settled")


_PASSED_OVER = (
    *(RemoveRetiredMark, ApplyTrust, RequestCertificate),
    *(CopyIssuedPair, WriteLeaf, WriteBundle),
)
"""Steps that may be postponed: members still trust each other."""
_FOR_ONE = (*_PASSED_OVER, ExtendSignedUntil)
"""Steps that concern one holder. All others, such as BeginSigning, rely on all bundles and key pairs."""


def signer_of(seen: Seen) -> AuthoritySecret | None:
    """The authority that currently signs; None if there is none or its key is lost."""
    return _planner(seen).signer


def trusted_by(seen: Seen) -> tuple[Read, ...]:
    """The authorities that may have signed the members' current certificates."""
    return _planner(seen).own_bundle


def _planner(seen: Seen) -> "Rotation | IssuedRotation":
    return Rotation(seen) if seen.issued is None else IssuedRotation(seen)


class Rotation(Trust):
    """Rotation with authorities whose keys the operator has."""

    def steps(self) -> Iterator[Step]:
        """All steps in order: those that distribute trust first, those that depend on it last."""
        yield from self._unretired()
        yield from self._first_authority()
        yield from self._spread()
        yield from self._pairs()
        yield from self._next_authority()
        yield from self._forget()
        yield Settled(self._due_at())

    def _first_authority(self) -> Iterator[Step]:
        if self.usable and (self.signer is not None or self._candidate is not None):
            return
        lost = bool(self.known) or bool(self.seen.authorities)
        reason = "there is no certificate authority"
        if lost:
            reason = "the key of the certificate authority is lost: a new authority takes over once all members trust it"
        yield self._make(not lost and not self._anyone, reason)

    def _make(self, signing: bool, reason: str) -> Step:
        """Create the next authority: a new one, or a copy of the user's. An unusable user authority is never replaced
        by a new one.
        """
        given = self.seen.named
        if given.secret and given.authority is None:
            why = next((each.message for each in given.troubles), "")
            return WaitFor(f"no certificate authority can sign: {why}")
        requested = self.seen.rotation_requested
        return CreateAuthority(self._next_generation(), signing, reason, given.authority, requested)

    def _is_wanted(self, authority: AuthoritySecret) -> bool:
        """Whether an authority is of the kind that the spec asks for: the user's, or one created by the operator."""
        given = self.seen.named
        if not given.secret:
            return not authority.given
        return authority.given and given.authority in (None, authority.certificate)

    @cached_property
    def _anyone(self) -> bool:
        """Whether a process may be running that trusts other authorities."""
        return any(each.running for each in self.seen.members)

    @cached_property
    def _candidate(self) -> AuthoritySecret | None:
        """The newest authority that does not sign yet."""
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
        """Issue new key pairs: holders without one first, then one at a time, the leader last."""
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
        """Whether the authority is valid long enough to sign."""
        assert signer.certificate is not None
        return self.seen.now < signer.certificate.validity.not_after

    def _write(self, signer: AuthoritySecret, holder: Holder, why: str) -> Iterator[Step]:
        assert signer.certificate is not None
        authority = signer.certificate.validity
        until = lifetimes.of_leaf(holder.role, self.seen.now, authority).not_after
        if signer.signed_until < until:
            # One more day, so that the value is not raised for each certificate.
            raised = until + lifetimes.DAY_S
            yield ExtendSignedUntil(signer.generation, signer.version, raised, why)
        leaf = self.leaves.get(holder.name)
        version = "" if leaf is None else leaf.version
        bundle, marks = self.wanted_bundle, self._marks
        revoked = self.revoked_for(holder)
        yield WriteLeaf(holder, signer.generation, bundle, version, why, marks, revoked)

    def _why_due(self, holder: Holder) -> str | None:
        """Why the holder needs a new key pair."""
        leaf, signer = self.leaves.get(holder.name), self.signer
        assert signer is not None
        assert signer.certificate is not None
        if leaf is None:
            return f"{holder.name} has no Secret"
        if leaf.certificate is None:
            return f"{holder.name}: {leaf.problem or 'its Secret holds no key pair yet'}"
        if self.issuer_of(leaf) != signer.certificate.fingerprint:
            return f"{holder.name}: its certificate is not signed by authority {signer.generation}"
        if not set(holder.dns_names) <= leaf.certificate.dns_names:
            return f"{holder.name}: names are missing in its certificate"
        due = self.seen.now >= leaf.certificate.validity.leaf_due_at
        new_end = lifetimes.of_leaf(
            holder.role, self.seen.now, signer.certificate.validity
        ).not_after
        # Near the end of its authority a new certificate would hardly expire later.
        if due and new_end > leaf.certificate.validity.not_after + lifetimes.DAY_S:
            return f"{holder.name}: two thirds of its certificate's lifetime have passed"
        return None

    def _next_authority(self) -> Iterator[Step]:
        """Create the next authority in time, and let it sign once all members trust it."""
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
        """Why to create the next authority; None if it is not needed. A user's authority is replaced only by its
        successor in the same Secret.
        """
        given = self.seen.named
        if given.secret:
            other = given.authority is not None and not self._is_wanted(signer)
            return f"Secret {given.secret} holds a different authority" if other else None
        if signer.given:
            return "spec.tls.caSecret was removed"
        if self.seen.now >= certificate.validity.authority_due_at:
            return "four fifths of its lifetime have passed"
        return "a new authority was requested" if self.seen.rotation_requested else None

    def _ignorant(self, authority: Read) -> str | None:
        """A member that may be running and does not report that it trusts the authority. The bundles in Kubernetes
        already contain it.
        """
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
        """Whether the authority has expired, no member answers, and kubelets had time to deliver the new bundle. Then
        no connection remains that a change could break.
        """
        signer, candidate = self.signer, self._candidate
        if signer is None or signer.certificate is None or candidate is None:
            return False
        ended = self.seen.now >= signer.certificate.validity.not_after
        none_answers = not any(each.loaded is not None for each in self.seen.members)
        return ended and none_answers and self.seen.now > candidate.made_at + SPREAD_S

    def _mute(self) -> bool:
        """Whether all certificates of a member that does not answer have certainly expired: it can't communicate
        before it loads the new Secret.
        """
        ends = [
            last_end(each)
            for each in self.seen.authorities
            if each.signing and each.generation not in self.retired
        ]
        without_secret = {
            name: each.validity.not_after
            for name, each in self.known.items()
            if name
            not in {e.certificate.fingerprint for e in self.seen.authorities if e.certificate}
        }
        return all(self._surely_over(end) for end in (*ends, *without_secret.values()))

    def _must_wait(self, brokers: tuple[str, ...], signer: AuthoritySecret | None) -> bool:
        """Whether to wait for brokers: not after a user's confirmation, and not if their authority is about to
        expire.
        """
        if not brokers or self.seen.confirmed:
            return False
        ends = [
            each.validity.not_after
            for each in self.known.values()
            if signer is None or signer.certificate is None or each == signer.certificate
        ]
        return self.seen.now < min(ends, default=0.0) - CLOSING_S

    def _forget(self) -> Iterator[Step]:
        """Retire other authorities whose certificates are no longer in use."""
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
                yield Retire(
                    each.generation,
                    each.version,
                    f"no certificate signed by {name} is in use any more",
                )

    def _must_wait_lagging(self, old: AuthoritySecret) -> bool:
        if not self.seen.lagging or self.seen.confirmed:
            return False
        return not self._surely_over(last_end(old))

    def _due_at(self) -> float:
        """When the next certificate is due."""
        assert self.signer is not None
        assert self.signer.certificate is not None
        times = [self.signer.certificate.validity.authority_due_at]
        times += [
            each.certificate.validity.leaf_due_at for each in self.seen.leaves if each.certificate
        ]
        return min(times)
