"""Members on hosts that stay away: who is unreachable, since when, and whether one of them is replaced now.

Owns `spec.repair.unreachableAfterSeconds`. Three witnesses must agree on a member: its Node is not ready or gone, its
process does not answer the operator, and no confirmed leader hears it. Its disk is held to be sound: it may come back at
any moment, so that nothing is latched, and its voter is removed by replica UUID. One member at a time, none while another
voter is dead, none while its whole zone is away: an outage is waited for.
"""

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING

from quorum_operator.planner.observed import HostFacts, Incarnation, Key
from quorum_operator.planner.step import Step, Wait

if TYPE_CHECKING:
    from quorum_operator.planner.situation import Situation

NEWCOMER_AWAY_S = 60.0
"""A newcomer holds nothing yet: so long after its host has gone another one is started elsewhere."""
LOOK_AGAIN_S = 10.0


@dataclass(frozen=True, slots=True)
class Unreachable:
    """A member that nobody hears on a host that is not ready; `since`: without a break, by the operator's own looks."""

    incarnation: Incarnation
    host: HostFacts
    since: float

    @property
    def text(self) -> str:
        """In words for people."""
        state = "not ready" if self.host.exists else "gone"
        return f"host {self.host.name} is {state}, since {_time(self.since)}"


class Reachability:
    """Of the members of one situation."""

    def __init__(self, at: "Situation") -> None:
        self._at = at

    @cached_property
    def unreachable(self) -> dict[str, Unreachable]:
        """By the name of the incarnation."""
        found = map(self._unreachable, self._at.current)
        return {each.incarnation.name: each for each in found if each is not None}

    def _unreachable(self, each: Incarnation) -> Unreachable | None:
        host = each.host
        if host is None or host.ready or each.report is not None or each.key in self._at.heard:
            return None
        since = self._at.now if each.unreachable_since is None else each.unreachable_since
        return Unreachable(each, host, since)

    @cached_property
    def voters(self) -> tuple[Unreachable, ...]:
        """Voters among them, the longest away first."""
        voters = self._at.voters
        found = [each for each in self.unreachable.values() if each.incarnation.key in voters]
        return tuple(sorted(found, key=lambda each: (each.since, each.incarnation.node_id)))

    def is_abandoned(self, newcomer: Incarnation) -> bool:
        """A newcomer whose host stays away: nothing is lost with it."""
        found = self.unreachable.get(newcomer.name)
        return found is not None and self._at.now - found.since >= NEWCOMER_AWAY_S

    def replaced(self, others_dead: bool) -> Key | None:
        """The one voter that is replaced now; `others_dead`: some voter is lost for another reason."""
        due = self._due()
        if not due or self._obstacle(others_dead) is not None:
            return None
        begun = [each for each in due if self._has_successor(each.incarnation)]
        return (begun or due)[0].incarnation.key

    def _due(self) -> list[Unreachable]:
        after_s = self._at.seen.wanted.unreachable_after_s
        if after_s is None:
            return []
        return [
            each
            for each in self.voters
            if each.incarnation.failed is None
            if each.incarnation.unreachable_since is not None
            if self._at.now - each.since >= after_s
        ]

    def _has_successor(self, each: Incarnation) -> bool:
        return any(
            other.node_id == each.node_id and other.replaces == each.number
            for other in self._at.current
        )

    def _obstacle(self, others_dead: bool) -> str | None:
        at = self._at
        if at.view is None or not at.view.formed:
            return "no majority confirms a leader"
        if not at.seen.wanted.repair_enabled:
            return "spec.repair.enabled is false"
        if others_dead:
            return "another voter is replaced first: one at a time"
        zones = sorted({each.host.zone for each in self.voters if each.host.zone_is_away})
        if zones:
            return (
                f"all hosts of zone {', '.join(zones)} are away: an outage of a zone is waited for"
            )
        return None

    def wait(self, others_dead: bool) -> Step | None:
        """What the plan says while nobody is replaced yet, where that was asked for."""
        after_s = self._at.seen.wanted.unreachable_after_s
        if after_s is None or not self.voters:
            return None
        each = self.voters[0]
        due = each.since + after_s
        blocked = self._obstacle(others_dead) or (
            f"repair.unreachableAfterSeconds: it is replaced at {_time(due)}, unless it comes back"
        )
        retry_s = min(max(due - self._at.now, 0.5), LOOK_AGAIN_S)
        return Wait(f"{each.incarnation.name} is unreachable: {each.text}", blocked, retry_s)

    def advice(self) -> str:
        """Who is away, and what can be done about it; empty when everybody can be reached."""
        if not self.unreachable:
            return ""
        named = [
            f"member {each.incarnation.node_id} ({each.incarnation.name}): {each.text}"
            for each in self.unreachable.values()
        ]
        after_s = self._at.seen.wanted.unreachable_after_s
        told = (
            "It goes on by itself when its host is back. To replace it now name it in spec.retire; to replace members"
            " on hosts that stay away unasked, set spec.repair.unreachableAfterSeconds"
            if after_s is None
            else f"It goes on by itself when its host is back, and is replaced after {after_s:.0f} s"
        )
        return f"{'; '.join(named)}. {told}"


def _time(at: float) -> str:
    return datetime.fromtimestamp(math.ceil(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
