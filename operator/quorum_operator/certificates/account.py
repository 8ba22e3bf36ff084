"""What people are told of the certificates of a quorum, from the facts and the next step. Pure."""

from quorum_operator.certificates.facts import Seen
from quorum_operator.certificates.rotation import signer_of
from quorum_operator.certificates.steps import Settled, Step, WaitFor
from quorum_operator.planner.certificates_seen import CertificatesSeen

_NAMED = 4


def account(seen: Seen, step: Step, refused: str = "") -> CertificatesSeen:
    """How far they are. `step`: the one that is planned now."""
    signer = signer_of(seen)
    leaves = {each.holder: each for each in seen.leaves}
    missing = [
        each.holder.name
        for each in seen.members
        if each.holder.name not in leaves or leaves[each.holder.name].certificate is None
    ]
    told = (*(each.problem for each in seen.authorities), *(each.problem for each in seen.leaves))
    problems = [each for each in told if each]
    authorities = [each for each in seen.authorities if not each.retired]
    waits = "" if isinstance(step, Settled) else step.reason
    return CertificatesSeen(
        usable=not missing and signer is not None,
        waits=waits,
        trust_pending=len(authorities) > 1 and bool(waits),
        brokers=step.brokers if isinstance(step, WaitFor) else (),
        refused=refused,
        problems=tuple(problems[:_NAMED]),
        troubles=seen.named.troubles[:_NAMED],
        authority=signer.generation if signer is not None else None,
        renewal_at=step.due_at if isinstance(step, Settled) else None,
    )
