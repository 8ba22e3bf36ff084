"""The certificate status for conditions, from the facts and the next step. Pure."""

from dataclasses import replace

from quorum_operator.certificates.facts import Seen
from quorum_operator.certificates.rotation import signer_of
from quorum_operator.certificates.steps import Settled, Step, WaitFor
from quorum_operator.planner.certificates_seen import CertificatesSeen, Trouble

_NAMED = 4


def account(seen: Seen, step: Step, refused: str = "") -> CertificatesSeen:
    """Return the state of the certificates. `step`: the planned step."""
    signer = signer_of(seen)
    leaves = {each.holder: each for each in seen.leaves}
    missing = [
        each.holder.name
        for each in seen.members
        if each.holder.name not in leaves or leaves[each.holder.name].certificate is None
    ]
    all_problems = (
        *(each.problem for each in seen.authorities),
        *(each.problem for each in seen.leaves),
    )
    problems = [each for each in all_problems if each]
    authorities = [each for each in seen.authorities if not each.retired]
    waits = "" if isinstance(step, Settled) else step.reason
    by_others = seen.issued is not None
    incomplete = [
        each.holder.name
        for each in seen.members
        if seen.revoked is not None
        if (leaf := leaves.get(each.holder.name)) is None or leaf.revoked is None
    ]
    troubles = (*seen.named.troubles, *_of_issuer(seen))
    return CertificatesSeen(
        usable=not missing and (by_others or signer is not None),
        waits=waits,
        trust_pending=len(authorities) > (0 if by_others else 1) and bool(waits),
        brokers=step.brokers if isinstance(step, WaitFor) else (),
        refused=refused,
        problems=tuple(problems[:_NAMED]),
        troubles=troubles[:_NAMED],
        by_others=by_others,
        without_revoked=frozenset(incomplete),
        authority=signer.generation if signer is not None else None,
        renewal_at=_renewal_at(seen, step),
    )


def _renewal_at(seen: Seen, step: Step) -> float | None:
    """When the next certificate is renewed. While a renewal is pending, refused or paused this is the time at which it
    was due, so that an overdue one is noticed.
    """
    if isinstance(step, Settled):
        return step.due_at
    return min((each.due_at for each in seen.leaves if each.due_at is not None), default=None)


def _of_issuer(seen: Seen) -> tuple[Trouble, ...]:
    """Report the same problem of an issuer only once."""
    found = [each.trouble for each in seen.issued or () if each.trouble is not None]
    first = {each.reason: each for each in reversed(found)}
    return tuple(
        replace(each, message=f"{each.message} (the same for {count} certificates)")
        if count > 1
        else each
        for each in first.values()
        for count in [sum(1 for other in found if other.reason == each.reason)]
    )
