"""Tries a user's authority before anything trusts it: signs a certificate for a member, and checks that members accept it."""

from dataclasses import replace

from quorum_operator.certificates import checks, holders, issuing
from quorum_operator.certificates.checks import Reason
from quorum_operator.certificates.handshake import rejection
from quorum_operator.certificates.named import Named, NamedObjects, pair_of
from quorum_operator.desired.names import Owner
from quorum_operator.planner.certificates_seen import Trouble

_MOST = 1024


class Trials:
    """The results by quorum and authority. A key is not kept."""

    def __init__(self) -> None:
        self._results: dict[tuple[str, str, str], str | None] = {}

    def without_useless(self, owner: Owner, given: Named, found: NamedObjects, now: float) -> Named:
        """Reject an authority whose certificates members refuse. `now`: seconds since 1970."""
        if given.authority is None:
            return given
        case = (owner.namespace, owner.name, given.authority.fingerprint)
        if case not in self._results:
            if len(self._results) >= _MOST:
                self._results.clear()
            self._results[case] = _tried(owner, pair_of(found), now)
        why = self._results[case]
        if why is None:
            return given
        text = (
            f"Secret {owner.namespace}/{given.secret}: members refuse the certificates that it signs: {why}. Put a CA "
            f"certificate into {checks.CERTIFICATE} that may certify clients and servers with names such as "
            f"{owner.host(owner.member(1, 1))}, and its key into {checks.KEY}. {checks.STAYS}"
        )
        trouble = Trouble(Reason.CANNOT_CERTIFY.value, text)
        return replace(given, authority=None, troubles=(trouble, *given.troubles))


def _tried(owner: Owner, authority: issuing.Pair, now: float) -> str | None:
    made = issuing.issue(owner, holders.member(owner, 1, 1), authority, now)
    return rejection(made, authority.certificate, serves=True)
