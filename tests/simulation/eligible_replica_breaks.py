"""Eligible leader replicas broken on purpose, one way at a time: what the simulation of brokers has to catch.

Same shape as `breaks.py`. A docstring says what is broken and, behind "Would:", what that would do.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from quorum_node.controller import partition_change
from quorum_simulation.broker import controller as control

Patch = pytest.MonkeyPatch
Break = Callable[[Patch], None]


def trust_every_returning_replica(patch: Patch) -> None:
    """The controller takes every stop for a clean one.

    Would: elect a broker that lost its page cache.
    """
    patch.setattr(control, "is_unclean", lambda broker_epoch, previous_broker_epoch: False)


def keep_eligible_after_unclean_shutdown(patch: Patch) -> None:
    """An unclean shutdown removes a replica from the ISR but not from the eligible replicas.

    Would: elect a broker that lost its page cache, when the ISR is empty.
    """
    real = partition_change._eligible

    def trusting(now: Any, isr: Any, wanted: Any, given: Any) -> tuple[int, ...]:
        return real(now, isr, replace(wanted, unclean_shutdown=()), given)

    patch.setattr(partition_change, "_eligible", trusting)


def keep_eligible_after_leaving(patch: Patch) -> None:
    """Who leaves an ISR that is large enough stays eligible.

    Would: elect a replica that lacks what was acknowledged since.
    """
    real = partition_change._eligible

    def generous(now: Any, isr: Any, wanted: Any, given: Any) -> tuple[int, ...]:
        return real(now, isr, wanted, replace(given, min_isr=len(now.replicas) + 1))

    patch.setattr(partition_change, "_eligible", generous)


def drop_eligible_replicas(patch: Patch) -> None:
    """Nobody is eligible but the ISR.

    Would: elect the last leader, which lost its page cache, though others have everything.
    """
    patch.setattr(partition_change, "_eligible", lambda now, isr, wanted, given: ())


BY_BROKERS: tuple[Break, ...] = (
    trust_every_returning_replica,
    keep_eligible_after_unclean_shutdown,
    keep_eligible_after_leaving,
    drop_eligible_replicas,
)
