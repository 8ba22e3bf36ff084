"""Derives from the observation which members stay, which are removed, and which are added.

Owns the derivation; decides no step. Everything is recomputed from each observation, so reverted changes, a crash of
the operator or a second operator need no memory.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from itertools import count

from quorum_operator.planner.credible_identity import current_formation
from quorum_operator.planner.gates import live_voters, voter_keys
from quorum_operator.planner.growth import grows_to
from quorum_operator.planner.observed import (
    Identity,
    Incarnation,
    Key,
    LoneClaim,
    Observation,
    QuorumView,
    ReplicaView,
)
from quorum_operator.planner.reachability import Reachability
from quorum_operator.planner.tls_stage import TlsStage


class Why(StrEnum):
    """Why a voter is removed."""

    DEAD = "its disk failed"
    MISSING = "no StatefulSet runs it"
    CLAIM = "its claim is being deleted, or is gone"
    STORAGE = "spec.storage has changed"
    RETIRED = "its id is in spec.retire"
    SURPLUS = "fewer voters are wanted"
    UNREACHABLE = "its host is unreachable"


CLAIM_SEEN_S = 30.0
"""Time after the creation of a pod after which its claim must be visible."""

FENCED = "FencedByRecovery"
"""Reason of a member stopped and marked by the recovery from another one."""

UNPLANNED = frozenset({Why.DEAD, Why.MISSING, Why.UNREACHABLE})
_SUCCEEDED_BY_SAME_ID = UNPLANNED | {Why.CLAIM, Why.STORAGE}


@dataclass(frozen=True, slots=True)
class Leaving:
    """A voter to remove."""

    key: Key
    why: Why

    @property
    def dead(self) -> bool:
        """Whether it failed instead of being removed on purpose."""
        return self.why in UNPLANNED


@dataclass(frozen=True, slots=True)
class Slot:
    """A member to add: `incarnation` once its StatefulSet exists."""

    node_id: int
    incarnation: Incarnation | None
    replaces: int | None
    predecessor: str | None = None
    """StatefulSet of the leaving member whose place it takes."""


class Situation:
    """Derived facts of one observation; `view` counts only for the current formation."""

    def __init__(self, seen: Observation) -> None:
        self.seen = seen
        self.now = seen.now
        self.reachability = Reachability(self)

    @cached_property
    def index(self) -> int:
        """Number of the current formation, even if its identity is missing; 0 if there was none."""
        seen = self.seen
        formed = current_formation(seen.incarnations, seen.view)
        if formed is not None:
            return formed
        found = [each.index for each in seen.identities]
        found += [each.formation for each in seen.incarnations]
        return max(
            [*found, *(each.claim.marks.formation or 0 for each in self.own_claims)], default=0
        )

    @cached_property
    def tls_stage(self) -> TlsStage:
        """TLS stage of the members."""
        return self.identity.tls_stage if self.identity is not None else TlsStage.PLAIN

    @cached_property
    def own_claims(self) -> tuple[LoneClaim, ...]:
        """Claims without a StatefulSet that were created for this resource."""
        uid = self.seen.resource_uid
        return tuple(
            each for each in self.seen.lone_claims if uid and each.claim.marks.resource_uid == uid
        )

    @cached_property
    def recorded_identity(self) -> Identity | None:
        """The existing identity object of the current formation."""
        return next((each for each in self.seen.identities if each.index == self.index), None)

    @cached_property
    def identity(self) -> Identity | None:
        """The identity of the current formation. `formed` is also derived from members, voters and status."""
        identity = self.recorded_identity
        if identity is None or identity.formed:
            return identity
        return replace(identity, formed=self._has_formed(identity))

    def _has_formed(self, identity: Identity) -> bool:
        view, cluster_id = self.seen.view, identity.cluster_id
        reports = [each.report for each in self.current if each.report is not None]
        mine = [report for report in reports if report.cluster_id in (None, cluster_id)]
        if any(report.formed for report in mine):
            return True
        if view is not None and view.formed and view.cluster_id in (None, cluster_id):
            return True
        founder = Key(identity.founder_id, identity.founder_uuid)
        permission = [
            each.founding for each in self.current if each.key == founder and each.cluster_id
        ]
        if permission == [None]:
            return True  # the permission was withdrawn after the formation
        if any(each is not None for each in permission) and identity.initial_voters > 1:
            # The formation is recorded before the last voter joins, so the status was edited.
            return False
        known = self.seen.known_cluster_id in (None, cluster_id)
        return known and self.seen.known_voters >= identity.initial_voters

    @property
    def known_voters(self) -> int:
        """Number of voters in the last status of this cluster."""
        identity, known = self.recorded_identity, self.seen.known_cluster_id
        same = identity is None or known in (None, identity.cluster_id)
        return self.seen.known_voters if same else 0

    @cached_property
    def view(self) -> QuorumView | None:
        """The confirmed description, unless it is of another cluster.

        The leader considers a stopped voter live until its fetch timeout ends, so a voter with a missing or
        terminating pod counts as not caught up.
        """
        view, identity = self.seen.view, self.recorded_identity
        if view is None or (identity is None and not self.current):
            return None
        if identity is not None and view.cluster_id not in (None, identity.cluster_id):
            return None
        going = {each.key for each in self.current if each.pod is None or each.pod.deleting}
        going |= {each.key for each in view.voters if self._is_absent(each.key, view)}

        def believed(replica: ReplicaView) -> ReplicaView:
            return replace(replica, caught_up=False) if replica.key in going else replica

        return replace(
            view,
            voters=tuple(map(believed, view.voters)),
            observers=tuple(map(believed, view.observers)),
        )

    def _is_absent(self, key: Key, view: QuorumView) -> bool:
        """Whether a voter belongs to a member whose replica UUID is unknown or was edited, and that has no pod."""
        if any(each.key == key for each in self.current):
            return False
        described = {each.key for each in (*view.voters, *view.observers)}
        mine = (each for each in self.current if each.node_id == key.id)
        carriers = [each for each in mine if each.key not in described]
        return bool(carriers) and all(each.pod is None or each.pod.deleting for each in carriers)

    @cached_property
    def current(self) -> tuple[Incarnation, ...]:
        """Incarnations of the current formation, by id and number."""
        mine = [each for each in self.seen.incarnations if each.formation == self.index]
        return tuple(sorted(mine, key=lambda each: (each.node_id, each.number)))

    def non_voters_first(self, members: Iterable[Incarnation]) -> list[Incarnation]:
        """Sort members that are not voters before voters."""
        return sorted(members, key=lambda each: each.key in self.voters)

    @cached_property
    def by_key(self) -> dict[Key, Incarnation]:
        """Incarnations by replica key; a recorded UUID takes precedence over a reported one."""
        reported = {
            each.key: each for each in self.current if each.uuid is None and each.key is not None
        }
        recorded = {
            Key(each.node_id, each.uuid): each for each in self.current if each.uuid is not None
        }
        return {**reported, **recorded}

    @cached_property
    def voters(self) -> frozenset[Key]:
        """The voter set."""
        return voter_keys(self.view) if self.view is not None else frozenset()

    @cached_property
    def live(self) -> frozenset[Key]:
        """Voters that fetch and have caught up, and the leader."""
        return live_voters(self.view) if self.view is not None else frozenset()

    @cached_property
    def in_contact(self) -> frozenset[Key | None]:
        """Replicas that fetch from the confirmed leader, caught up or not, and the leader itself."""
        view = self.view
        if view is None:
            return frozenset()
        replicas = (*view.voters, *view.observers)
        return frozenset(each.key for each in replicas if each.fetching or each.key == view.leader)

    @cached_property
    def target(self) -> int:
        """The wanted number of voters: the initial number until the quorum is formed."""
        identity, view = self.identity, self.view
        if identity is None:
            return self.seen.wanted.replicas
        formed = view.formed if view is not None else identity.formed
        return self.seen.wanted.replicas if formed else identity.initial_voters

    @cached_property
    def target_is_the_specs(self) -> bool:
        """Whether the target is the spec's; not while the quorum forms."""
        return self.view is not None and self.view.formed

    @cached_property
    def leaving(self) -> tuple[Leaving, ...]:
        """Voters to remove: failed ones first, then those that are not live, the leader last, high ids before low
        ones.
        """
        reasons = {key: why for key in self.voters if (why := self._why(key)) is not None}
        away = self.reachability.replaced(self.others_are_dead)
        if away is not None and away not in reasons:
            reasons[away] = Why.UNREACHABLE
        # First the older voter of a duplicate id, then voters that are not live. The others may be
        # too few with such a voter, but never without it.
        staying = sorted(
            self.voters - reasons.keys(),
            key=lambda key: (not self._has_replacement(key), key in self.live, -key.id, key.uuid),
        )
        for key in staying[: max(0, len(staying) - self.target)]:
            reasons[key] = Why.SURPLUS
        leader = self.view.leader if self.view is not None else None

        def order(entry: Leaving) -> tuple[bool, bool, bool, int, str]:
            key = entry.key
            return (not entry.dead, key in self.live, key == leader, -key.id, key.uuid)

        return tuple(sorted((Leaving(key, why) for key, why in reasons.items()), key=order))

    def _has_replacement(self, key: Key) -> bool:
        """Whether a newer replica of its id is already a voter."""
        mine = self.by_key.get(key)
        others = (self.by_key.get(other) for other in self.voters if other.id == key.id)
        return mine is not None and any(e is not None and e.number > mine.number for e in others)

    @cached_property
    def others_are_dead(self) -> bool:
        """Whether another voter is lost for a different reason than its host."""
        return any(self._why(key) in {Why.DEAD, Why.MISSING} for key in self.voters)

    @property
    def unrepaired(self) -> list[Key]:
        """Lost voters that stay, because repairs are switched off."""
        if self.seen.wanted.repair_enabled:
            return []
        lost = {key for key in self.voters - self.live if self._is_lost(key)}
        return sorted(lost - {entry.key for entry in self.leaving})

    def _is_lost(self, key: Key) -> bool:
        incarnation = self.by_key.get(key)
        return incarnation is None or incarnation.failed is not None

    def _why(self, key: Key) -> Why | None:
        wanted = self.seen.wanted
        incarnation = self.by_key.get(key)
        # Without repairs a lost member is replaced only if the spec names it.
        named = Why.RETIRED if key.id in wanted.retire else None
        if incarnation is None:
            return Why.MISSING if wanted.repair_enabled or key in self.live else named
        if incarnation.failed is not None:
            return Why.DEAD if wanted.repair_enabled else named
        if named is not None:
            return named
        if self._loses_claim(incarnation):
            return Why.CLAIM
        if self.is_on_other_storage(incarnation) and not self._waits_for_window(incarnation):
            return Why.STORAGE
        return None

    def _waits_for_window(self, each: Incarnation) -> bool:
        """Whether a move has to wait for a maintenance window; one in progress is completed."""
        update = self.seen.update
        if update is None or update.hold is None:
            return False
        later = (e for e in self.current if e.node_id == each.node_id and e.number > each.number)
        return all(other.failed is not None or other.stopped is not None for other in later)

    def _loses_claim(self, each: Incarnation) -> bool:
        """Whether it loses its volume with its claim, now or when its pod ends."""
        return is_without_claim(each, self.now) or (each.claim is not None and each.claim.deleting)

    def is_on_other_storage(self, each: Incarnation) -> bool:
        """Whether it has to move to a new volume because its own can't be changed as wanted."""
        wanted = self.seen.wanted.storage
        return self.seen.invalid is None and each.storage != wanted and not grows_to(each, wanted)

    @cached_property
    def staying(self) -> frozenset[Key]:
        """Voters that stay."""
        return self.voters - {entry.key for entry in self.leaving}

    def _new_member(self, node_id: int) -> Incarnation | None:
        """The new incarnation for this id, if it exists."""
        mine = [each for each in self.current if each.node_id == node_id]
        if not mine:
            return None
        newest = mine[-1]
        voter = newest.key is not None and newest.key in self.voters
        ended = newest.failed is not None or newest.stopped is not None
        leaving = self._loses_claim(newest)
        other = self.is_on_other_storage(newest)
        away = self.target_is_the_specs and self.reachability.is_abandoned(newest)
        return None if voter or ended or leaving or other or away else newest

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """Members to add, so that staying voters and new members make the target."""
        needed = self.target - len(self.staying)
        if needed <= 0:
            return ()
        retire = self.seen.wanted.retire
        # An id whose successor is a voter already needs none, and an id may occur at most twice.
        settled = {key.id for key in self.staying}
        succeeded = sorted(
            {
                entry.key.id
                for entry in self.leaving
                if entry.why in _SUCCEEDED_BY_SAME_ID and entry.key.id not in retire | settled
            }
        )
        taken = {key.id for key in self.voters}
        free = [
            each.node_id
            for each in self.current
            if each.node_id not in taken and each.node_id not in retire
        ]
        waiting = sorted({each for each in free if self._new_member(each) is not None})
        unused = (each for each in count(1) if each not in taken | retire | set(waiting))
        ids = [*succeeded, *waiting][:needed]
        ids += [next(unused) for _ in range(needed - len(ids))]
        made = {each: self._new_member(each) for each in ids}
        former = self._predecessors(made)
        return tuple(Slot(each, made[each], self._replaces(each), former.get(each)) for each in ids)

    def _predecessors(self, made: Mapping[int, Incarnation | None]) -> dict[int, str]:
        """StatefulSet of the member whose place a new one takes, by the new one's id: a member with the same id that
        leaves or was removed, else another one. No two members take the same place. `made`: new members by id, None
        until they are created.
        """
        left = {entry.key for entry in self.leaving}
        new = {each.name for each in made.values() if each is not None}
        taken = {each.predecessor for each in self.current}

        def goes(each: Incarnation) -> bool:
            removed = each.key not in self.voters and each.name not in new and each.pod is not None
            return each.name not in taken and (each.key in left or removed)

        free = [each for each in self.current if goes(each)]
        same = {each.node_id: each.name for each in free if each.node_id in made}
        rest = (each.name for each in free if each.node_id not in same)
        wanting = (each for each, found in made.items() if found is None and each not in same)
        return {**dict(zip(wanting, rest, strict=False)), **same}

    def _replaces(self, node_id: int) -> int | None:
        away = {entry.key for entry in self.leaving if entry.why is Why.UNREACHABLE}
        failed = [
            each.number
            for each in self.current
            if each.node_id == node_id
            # Members fenced by a recovery do not count as repeated failures.
            if (each.failed is not None and each.failed.reason != FENCED) or each.key in away
        ]
        return max(failed, default=None)

    def observer(self, key: Key | None) -> ReplicaView | None:
        """The leader's view of an observer."""
        if self.view is None or key is None:
            return None
        return next((each for each in self.view.observers if each.key == key), None)

    def is_caught_up(self, incarnation: Incarnation | None) -> bool:
        """Whether a new member is recorded, fetches and has caught up, so that it can become a voter."""
        if incarnation is None or incarnation.uuid is None or incarnation.failed is not None:
            return False
        seen = self.observer(Key(incarnation.node_id, incarnation.uuid))
        return seen is not None and seen.fetching and seen.caught_up

    @cached_property
    def caught_up(self) -> tuple[Slot, ...]:
        """Slots whose new member can become a voter now."""
        return tuple(slot for slot in self.slots if self.is_caught_up(slot.incarnation))

    def stands_twice(self, node_id: int) -> bool:
        """Whether an id already has two voters; one must be removed before a third is added."""
        return sum(1 for key in self.voters if key.id == node_id) > 1

    @cached_property
    def leftovers(self) -> tuple[Incarnation, ...]:
        """Incarnations that are neither voters, new members nor failed."""
        new_members = {slot.incarnation.name for slot in self.slots if slot.incarnation is not None}
        return tuple(
            each
            for each in self.current
            if each.failed is None
            and each.name not in new_members
            and (each.key is None or each.key not in self.voters)
            and not self.may_be_in_contact(each)
        )

    def may_be_in_contact(self, each: Incarnation) -> bool:
        """Whether it may be a voter that fetches from the leader and belongs to no known StatefulSet: its process does not
        answer, and its recorded replica UUID may be missing or wrong.
        """
        if each.report is not None or each.pod is None or each.key in self.voters:
            return False
        unmatched = (
            key for key in self.voters if key in self.in_contact and key not in self.by_key
        )
        return any(key.id == each.node_id for key in unmatched)

    def acts_as_voter(self, each: Incarnation) -> bool:
        """Whether its process is a voter that fetches from the leader, whichever replica its annotations name. Without a
        confirmed leader: whether its own log names it as a voter, which a new, empty volume never does.
        """
        report, identity = each.report, self.identity
        if report is None or (
            identity is not None and report.cluster_id not in (None, identity.cluster_id)
        ):
            return False
        key = Key(each.node_id, report.uuid)
        if self.view is None:
            return report.log is not None and key in report.log.voters
        return key in self.voters and key in self.in_contact

    def next_number(self, node_id: int) -> int:
        """The number of this member's next incarnation; claim names are never reused."""
        numbers = [each.number for each in self.seen.incarnations if each.node_id == node_id]
        return max([self.seen.used_numbers.get(node_id, 0), *numbers]) + 1

    def recent_replacements(self, within_s: float = 3600.0) -> int:
        """Number of recent replacements, counted from the incarnations."""
        return sum(
            1
            for each in self.seen.incarnations
            if each.replaces is not None and self.now - each.created_at < within_s
        )

    def _is_recent(self, at: float, within_s: float) -> bool:
        """A time far in the future was edited, or written by a wrong clock; it would count for years."""
        return abs(self.now - at) < within_s

    def recent_failures(self, within_s: float = 3600.0) -> int:
        """Number of members that failed or were replaced recently, including revoked failures."""
        places: set[tuple[int, int]] = set()
        unlatched = 0
        for each in self.seen.incarnations:
            if each.replaces is not None and self.now - each.created_at < within_s:
                places.add((each.node_id, each.replaces))
            failed = each.failed
            if (
                failed is not None
                and failed.reason != FENCED
                and self._is_recent(failed.at, within_s)
            ):
                places.add((each.node_id, each.number))
            unlatched += sum(1 for at in each.unlatched_at if self._is_recent(at, within_s))
        return len(places) + unlatched


def is_without_claim(each: Incarnation, now: float) -> bool:
    """Whether its process runs on a volume whose claim is deleted; the claim of a new pod may not be visible yet."""
    pod = each.pod
    runs = pod is not None and pod.running and now - pod.created_at >= CLAIM_SEEN_S
    return each.claim is None and runs
