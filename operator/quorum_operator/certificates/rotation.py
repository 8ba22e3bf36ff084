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

from collections import Counter
from collections.abc import Iterator
from functools import cached_property

from quorum_operator.certificates import lifetimes
from quorum_operator.certificates.facts import AuthoritySecret, LeafSecret, MemberSeen, Seen
from quorum_operator.certificates.holders import Holder
from quorum_operator.certificates.lifetimes import CLOSING_S, SPREAD_S, SURELY_OVER_S
from quorum_operator.certificates.pem import Read, is_same_authority, signed_by
from quorum_operator.certificates.steps import (
    ApplyTrust,
    BeginSigning,
    CreateAuthority,
    RaiseSignedUntil,
    Retire,
    Settled,
    Step,
    WaitFor,
    WriteBundle,
    WriteLeaf,
)


def plan(seen: Seen) -> Step:
    """The first step that applies."""
    at = _Situation(seen)
    return next(at.steps())


def known_authorities(seen: Seen) -> tuple[Read, ...]:
    """Those with a Secret, and those that more than half of the holders' Secrets, or of the members that answer, trust.

    A single Secret that somebody has written, or a single member that says so, makes no authority; nor does the ConfigMap
    with the trust, which many may write. Else any of them could make himself an administrator of the quorum.
    """
    found = {
        each.certificate.fingerprint: each.certificate
        for each in seen.authorities
        if each.certificate is not None
    }
    extras = {each.fingerprint for each in seen.named.trusted}
    marks = Counter(name for leaf in seen.leaves if leaf.bundle for name in leaf.extras)
    extras |= {name for name, count in marks.items() if 2 * count > _bundles(seen)}
    in_secrets = [leaf.bundle for leaf in seen.leaves if leaf.bundle]
    said = [each.loaded.bundle for each in seen.members if each.loaded is not None]
    for bundles in (in_secrets, said):
        found |= {
            each.fingerprint: each for each in _of_most(bundles) if each.fingerprint not in extras
        }
    return tuple(found.values())


def _extras_in_secrets(seen: Seen) -> tuple[Read, ...]:
    """What more than half of the holders' Secrets trust beside the quorum's own authorities."""
    return _of_most(
        [
            tuple(each for each in leaf.bundle if each.fingerprint in leaf.extras)
            for leaf in seen.leaves
            if leaf.bundle
        ]
    )


def _bundles(seen: Seen) -> int:
    """How many Secrets have one."""
    return sum(1 for leaf in seen.leaves if leaf.bundle)


def _of_most(bundles: list[tuple[Read, ...]]) -> tuple[Read, ...]:
    """Certificates in more than half of them."""
    times = Counter(each for bundle in bundles for each in set(bundle))
    return tuple(each for each, count in times.items() if 2 * count > len(bundles))


def signer_of(seen: Seen) -> AuthoritySecret | None:
    """The authority that signs now; None while there is none, or its key is lost."""
    return _Situation(seen).signer


def trusted_by(seen: Seen) -> tuple[Read, ...]:
    """The authorities that members' certificates may be of now."""
    return _Situation(seen).own_bundle


class _Situation:
    """What follows from what is seen."""

    def __init__(self, seen: Seen) -> None:
        self.seen = seen
        self.holders = (*(each.holder for each in seen.members), *seen.others)
        self.leaves = {each.holder: each for each in seen.leaves}
        self.members = {each.holder.name: each for each in seen.members}

    def steps(self) -> Iterator[Step]:
        """In this order: what brings trust goes first, what needs it last."""
        yield from self._first_authority()
        yield from self._spread()
        yield from self._pairs()
        yield from self._next_authority()
        yield from self._forget()
        yield Settled(self._due_at())

    # ---- What is known

    @cached_property
    def usable(self) -> dict[int, AuthoritySecret]:
        """By generation: those whose key is at hand and which are not retired."""
        return {
            each.generation: each
            for each in self.seen.authorities
            if each.certificate is not None and not each.retired
        }

    @cached_property
    def signer(self) -> AuthoritySecret | None:
        """The newest that is signing; None while there is none, or its key is lost."""
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
        """What everybody is to trust."""
        return (*self.own_bundle, *self.extras)

    @cached_property
    def extras(self) -> tuple[Read, ...]:
        """What the spec names beside the quorum's own. While some of that can't be read what was trusted stays."""
        own = _names(self.own_bundle)
        kept = () if self.seen.named.is_whole else _extras_in_secrets(self.seen)
        found = {each.fingerprint: each for each in (*self.seen.named.trusted, *kept)}
        return tuple(each for name, each in sorted(found.items()) if name not in own)

    @cached_property
    def own_bundle(self) -> tuple[Read, ...]:
        """Authorities that are not retired, and those without a Secret that may still be presented."""
        retired = {
            each.certificate.fingerprint
            for each in self.seen.authorities
            if each.certificate is not None and each.retired
        }
        usable = {each.certificate.fingerprint for each in self.usable.values() if each.certificate}
        kept = [
            each
            for name, each in self.known.items()
            if name in usable or (name not in retired and self._may_be_presented(each, None))
        ]
        return tuple(sorted(kept, key=lambda each: (each.generation or 0, each.fingerprint)))

    def _may_be_presented(self, authority: Read, secret: AuthoritySecret | None) -> bool:
        """Whether some member that may be alive, or some Secret, may have a certificate that only this one proves."""
        signer = self.signer
        if signer is not None and signer.certificate not in (None, authority):
            assert signer.certificate is not None
            if is_same_authority(signer.certificate, authority):
                return False  # it was renewed with its key: the new one proves them as well
        if any(self.issuer_of(leaf) == authority.fingerprint for leaf in self.seen.leaves):
            return True
        end = authority.validity.not_after if secret is None else _last_end(secret)
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
        """Fingerprint of the authority that has signed it, of those that are known."""
        if leaf.certificate is None:
            return None
        certificate = leaf.certificate
        # The signer first: an authority that was renewed with its key has two certificates.
        own = self.signer.certificate if self.signer is not None else None
        known = ([own] if own is not None else []) + list(self.known.values())
        signers = (each for each in known if signed_by(certificate, each))
        return next((each.fingerprint for each in signers), None)

    # ---- Steps

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

    def _spread(self) -> Iterator[Step]:
        """The trust, and every bundle."""
        wanted, marks = self.wanted_bundle, self._marks
        if self.seen.trust is None or _names(self.seen.trust) != _names(wanted):
            yield ApplyTrust(wanted, self.seen.trust_version, "the trust has other authorities")
        for holder in self.holders:
            leaf = self.leaves.get(holder.name)
            if leaf is None or not self._is_as_wanted(leaf):
                if leaf is None and self.signer is not None:
                    continue  # it gets both at once
                version = "" if leaf is None else leaf.version
                why = f"{holder.name} has another bundle"
                yield WriteBundle(holder, wanted, version, why, marks)

    def _is_as_wanted(self, leaf: LeafSecret) -> bool:
        marked = leaf.extras & _names(leaf.bundle)
        return _names(leaf.bundle) == _names(self.wanted_bundle) and marked == _names(self.extras)

    @cached_property
    def _marks(self) -> frozenset[str]:
        """Which certificates are none of this quorum's own. Those that the spec names no more are marked as long as somebody has them:
        else they would be taken for authorities of this quorum whose Secret is lost."""
        seen = self.seen
        bundles = [leaf.bundle for leaf in seen.leaves]
        bundles += [each.loaded.bundle for each in seen.members if each.loaded is not None]
        about = {each.fingerprint for bundle in bundles for each in bundle}
        once = {name for leaf in seen.leaves for name in leaf.extras} & about
        return _names(self.extras) | (once - _names(self.own_bundle))

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
        yield WriteLeaf(holder, signer.generation, bundle, version, why, marks)

    def _has_no_pair(self, holder: Holder) -> bool:
        leaf = self.leaves.get(holder.name)
        return leaf is None or leaf.certificate is None

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

    def _unloaded(self) -> str | None:
        """A member that has not taken over the pair in its Secret yet, or is not heard: the next pair waits for it."""
        for each in self.seen.members:
            leaf = self.leaves.get(each.holder.name)
            if each.voter_down:
                return f"{each.holder.name}, a voter, is not heard by the leader"
            if each.loaded is None or leaf is None or leaf.certificate is None:
                continue
            if each.loaded.certificate != leaf.certificate.fingerprint:
                return f"{each.holder.name} has not loaded its new certificate yet"
        return None

    def _is_urgent(self, holder: Holder) -> bool:
        """A certificate that has little time left is replaced whoever is down; who can't be asked holds up nobody by it."""
        leaf, seen = self.leaves.get(holder.name), self.members.get(holder.name)
        if leaf is None or leaf.certificate is None:
            return True
        silent = seen is not None and seen.loaded is None
        return silent or self.seen.now >= leaf.certificate.validity.urgent_at

    def _rank(self, holder: Holder) -> tuple[bool, str]:
        seen = self.members.get(holder.name)
        return (seen is not None and seen.leader, holder.name)

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
            elif authority.fingerprint not in _names(each.loaded.bundle):
                return each.holder.name
        return None

    def _waits_for_a_pair(self, member: MemberSeen) -> bool:
        """It does not run and can't start: its Secret holds no pair. When it has one it reads the bundle with it."""
        leaf = self.leaves.get(member.holder.name)
        return member.stopped and (leaf is None or leaf.certificate is None)

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
        ends = [_last_end(e) for e in self.seen.authorities if e.signing and not e.retired]
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
        return not self._surely_over(_last_end(old))

    def _due_at(self) -> float:
        """When the first certificate is to be replaced."""
        assert self.signer is not None
        assert self.signer.certificate is not None
        times = [self.signer.certificate.validity.authority_due_at]
        times += [
            each.certificate.validity.leaf_due_at for each in self.seen.leaves if each.certificate
        ]
        return min(times)


def _last_end(secret: AuthoritySecret) -> float:
    """When everything that it has signed has ended; its own end where that is not noted."""
    if secret.certificate is None:
        return secret.signed_until or float("inf")
    end = secret.certificate.validity.not_after
    return min(end, secret.signed_until) if secret.signed_until else end


def _names(bundle: tuple[Read, ...]) -> frozenset[str]:
    return frozenset(each.fingerprint for each in bundle)
