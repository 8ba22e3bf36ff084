"""Lifetimes of certificates and renewal times. Pure arithmetic on seconds since 1970.

A leaf certificate is renewed after two thirds of its lifetime: of 90 days a month remains in case the operator is
down. An authority is replaced after four fifths of five years, because stock brokers have to be restarted for it.
Clocks may differ by up to a day. A certificate is valid from some minutes before it is issued, for clocks that are
behind.
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
"""After this time no clock that is wrong by less than a day considers an expired certificate valid."""
SPREAD_S = 600.0
"""After this time a working kubelet has updated a mounted Secret; it takes two minutes."""
CLOSING_S = 90 * DAY_S
"""Remaining lifetime of an authority below which the operator waits only for members."""

_LIFE_S = {Role.MEMBER: MEMBER_S, Role.OPERATOR: OPERATOR_S}


@dataclass(frozen=True, slots=True)
class Validity:
    """The validity period from `not_before` to `not_after`, in seconds since 1970."""

    not_before: float
    not_after: float

    def has(self, now: float) -> bool:
        """Whether it is valid at this time."""
        return self.not_before <= now < self.not_after

    def part(self, share: float) -> float:
        """The time at which this fraction of it has passed."""
        return self.not_before + share * (self.not_after - self.not_before)

    @property
    def leaf_due_at(self) -> float:
        """When a leaf certificate is renewed."""
        return self.part(2 / 3)

    @property
    def urgent_at(self) -> float:
        """When a certificate is renewed without waiting for others: half of the time between renewal and expiry has
        passed.
        """
        return self.part(5 / 6)

    @property
    def authority_due_at(self) -> float:
        """When the next authority is created."""
        return self.part(4 / 5)


def of_leaf(role: Role, now: float, authority: Validity) -> Validity:
    """Validity of a new leaf certificate. It ends no later than its authority."""
    return Validity(now - BACKDATED_S, min(now + _LIFE_S.get(role, CLIENT_S), authority.not_after))


def of_authority(now: float) -> Validity:
    """Validity of a new authority."""
    return Validity(now - BACKDATED_S, now + AUTHORITY_S)
