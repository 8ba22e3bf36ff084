"""How long certificates live, and when each is replaced. Pure arithmetic on seconds since 1970.

A leaf is replaced when two thirds of its life are over: of 90 days a month is left, in which an operator that was away comes
back. An authority is replaced at four fifths of five years, since stock brokers have to be restarted for it. A clock may be wrong
by a day, and a certificate is valid some minutes before it is issued, for clocks that are behind.
"""

from dataclasses import dataclass

from quorum_node.security.certificate_identity import Role

DAY_S = 86_400.0
BACKDATED_S = 300.0
AUTHORITY_S = 1825 * DAY_S
MEMBER_S = 90 * DAY_S
CLIENT_S = 365 * DAY_S
OPERATOR_S = DAY_S
SURELY_OVER_S = 2 * DAY_S
"""After its end nobody's clock, if it is wrong by less than a day, holds a certificate valid."""
SPREAD_S = 600.0
"""After so long a kubelet that works has brought a changed Secret into its pods; they take two minutes."""
CLOSING_S = 90 * DAY_S
"""Of the life of an authority; then nothing but members is waited for."""

_LIFE_S = {Role.MEMBER: MEMBER_S, Role.OPERATOR: OPERATOR_S}


@dataclass(frozen=True, slots=True)
class Validity:
    """From `not_before` up to `not_after`, in seconds since 1970."""

    not_before: float
    not_after: float

    def part(self, share: float) -> float:
        """The moment at which so much of it is over."""
        return self.not_before + share * (self.not_after - self.not_before)

    @property
    def leaf_due_at(self) -> float:
        """When a certificate that no other was signed by is replaced."""
        return self.part(2 / 3)

    @property
    def urgent_at(self) -> float:
        """When a certificate is replaced without waiting for others: half of the time for it is over."""
        return self.part(5 / 6)

    @property
    def authority_due_at(self) -> float:
        """When the next authority is made."""
        return self.part(4 / 5)


def of_leaf(role: Role, now: float, authority: Validity) -> Validity:
    """A new one. It ends with its authority at the latest: a chain is as long as its shortest part."""
    return Validity(now - BACKDATED_S, min(now + _LIFE_S.get(role, CLIENT_S), authority.not_after))


def of_authority(now: float) -> Validity:
    """A new authority's."""
    return Validity(now - BACKDATED_S, now + AUTHORITY_S)
