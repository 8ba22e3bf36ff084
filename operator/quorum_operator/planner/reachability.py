"""Members on unreachable hosts: which ones, since when, and whether one is replaced now.

Owns `spec.repair.unreachableAfterSeconds`. Three sources must agree: the Node is not ready or deleted, the process
does not answer the operator, and it does not fetch from a confirmed leader. Its disk is assumed to be intact: it may
return at any time, so no failure mark is written, and its voter is removed by replica UUID. One member is replaced at
a time, none while another voter has failed or its whole zone is down.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from quorum_operator.planner.observed import HostFacts, Incarnation, Key
from quorum_operator.planner.step import Step, Wait
from quorum_operator.planner.times import text_of

if TYPE_CHECKING:
    from quorum_operator.planner.situation import Situation

NEW_MEMBER_AWAY_S = 60.0
"""Time after which an unreachable new member, which has no data yet, is replaced by one elsewhere."""
LOOK_AGAIN_S = 10.0


@dataclass(frozen=True, slots=True)
class Unreachable:
    """An unreachable member on a host that is not ready; `since`: without interruption, observed by the operator."""

    incarnation: Incarnation
    host: HostFacts
    since: float

    @property
    def text(self) -> str:
        """Text for users."""
        return f"host {self.host.name} is {self.host.state}, since {_time(self.since)}"


class Reachability:
    """Reachability of the members of one situation."""

    def __init__(self, at: "Situation") -> None:
        self._at = at

    @cached_property
    def unreachable(self) -> dict[str, Unreachable]:
        """Unreachable members by incarnation name."""
        found = map(self._unreachable, self._at.current)
        return {each.incarnation.name: each for each in found if each is not None}

    def _unreachable(self, each: Incarnation) -> Unreachable | None:
        host = each.host_away
        if host is None or each.report is not None or each.key in self._at.in_contact:
            return None
        since = self._at.now if each.unreachable_since is None else each.unreachable_since
        return Unreachable(each, host, since)

    @cached_property
    def voters(self) -> tuple[Unreachable, ...]:
        """Unreachable voters, the longest unreachable first."""
        voters = self._at.voters
        found = [each for each in self.unreachable.values() if each.incarnation.key in voters]
        return tuple(sorted(found, key=lambda each: (each.since, each.incarnation.node_id)))

    def is_abandoned(self, new_member: Incarnation) -> bool:
        """Whether a new member on an unreachable host is given up, which loses nothing."""
        found = self.unreachable.get(new_member.name)
        return found is not None and self._at.now - found.since >= NEW_MEMBER_AWAY_S

    def replaced(self, others_dead: bool) -> Key | None:
        """The voter to replace now, if any; `others_dead`: another voter is lost for a different reason."""
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
            return "another voter is being replaced; only one at a time"
        zones = sorted({each.host.zone for each in self.voters if each.host.zone_is_away})
        if zones:
            return f"all hosts of zone {', '.join(zones)} are unreachable: during a zone outage no member is replaced"
        return None

    def wait(self, others_dead: bool) -> Step | None:
        """The step while no member is replaced yet although this is configured."""
        after_s = self._at.seen.wanted.unreachable_after_s
        if after_s is None or not self.voters:
            return None
        each = self.voters[0]
        due = each.since + after_s
        blocked = self._obstacle(others_dead) or (
            f"spec.repair.unreachableAfterSeconds: the member is replaced at {_time(due)} unless it returns"
        )
        retry_s = min(max(due - self._at.now, 0.5), LOOK_AGAIN_S)
        return Wait(f"{each.incarnation.name} is unreachable: {each.text}", blocked, retry_s)

    def advice(self) -> str:
        """The unreachable members with advice; empty if there are none."""
        if not self.unreachable:
            return ""
        named = [
            f"member {each.incarnation.node_id} ({each.incarnation.name}): {each.text}"
            for each in self.unreachable.values()
        ]
        after_s = self._at.seen.wanted.unreachable_after_s
        advice = (
            "It continues when its host is back. To replace it now list it in spec.retire; to replace members of "
            "unreachable hosts automatically, set spec.repair.unreachableAfterSeconds"
            if after_s is None
            else f"It continues when its host is back, and is replaced after {after_s:.0f} s"
        )
        return f"{'; '.join(named)}. {advice}"


def _time(at: float) -> str:
    return text_of(math.ceil(at))
