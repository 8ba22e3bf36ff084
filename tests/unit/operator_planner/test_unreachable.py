"""Members that do not fetch from the leader are removed if the spec says so, and never if that ends the majority."""

from dataclasses import replace
from itertools import combinations

import pytest

from quorum_operator.crd import ReplacementOrder
from quorum_operator.planner import step as steps
from quorum_operator.planner.observed import (
    ClaimFacts,
    FailureLatch,
    HostFacts,
    Identity,
    Incarnation,
    Key,
    NodeReport,
    Observation,
    PodFacts,
    ReplicaView,
    StorageChoice,
    Wanted,
)
from quorum_operator.planner.plan import plan
from quorum_operator.planner.situation import Situation
from quorum_operator.planner.status import build_status
from quorum_operator.planner.times import text_of
from quorum_operator.resource_facts import unreachable_since
from quorum_operator.status_crd import MetadataQuorumStatus
from support.model_rules import majority
from support.observed_quorum import NOW, STORAGE, observation_of, view_of

SMALL, LARGE = STORAGE, StorageChoice("2Gi", None)
REASONS = ("retired", "claim deleted", "other storage", "fewer wanted")


def member(node_id: int, number: int = 1, *, away: bool = False, **changes: object) -> Incarnation:
    name, uuid = f"q-{node_id}-{number}", f"U{node_id}{number}"
    pod = PodFacts(f"{name}-0", f"pod-{name}", NOW - 999, host=f"h{node_id}", ready=not away)
    report = NodeReport(uuid, "c1", "follower", True, True, "ok")
    facts: dict[str, object] = {
        "node_id": node_id,
        "number": number,
        "name": name,
        "uid": f"set-{name}",
        "resource_version": "1",
        "created_at": NOW - 999,
        "formation": 1,
        "storage": SMALL,
        "uuid": uuid,
        "pod": replace(pod, deleting=away),
        "claim": ClaimFacts(f"data-{name}-0", f"claim-{name}"),
        "report": None if away else report,
    }
    return Incarnation(**{**facts, **changes})  # type: ignore[arg-type]


class Small:
    """Voters 1 to `size`, some of them unreachable, and a planner that runs until no step is left."""

    def __init__(self, size: int, away: set[int], wanted: Wanted) -> None:
        self.size, self.away, self.wanted = size, away, wanted
        self.members = {(each, 1): member(each, away=each in away) for each in range(1, size + 1)}
        self.voters = [Key(each, f"U{each}1") for each in range(1, size + 1)]
        self.leader = next(key for key in self.voters if key.id not in away)

    def live(self) -> list[Key]:
        return [key for key in self.voters if key.uuid not in {f"U{each}1" for each in self.away}]

    def seen(self) -> Observation:
        live = self.live()
        away = {f"U{each}1" for each in self.away}
        others = [
            each.key
            for each in self.members.values()
            if each.key not in self.voters and each.uuid not in away
        ]
        view = view_of(
            [ReplicaView(key, key in live, key in live) for key in self.voters],
            leader=self.leader,
            observers=tuple(ReplicaView(key, True, True) for key in others if key is not None),
            initial_voters=self.size,
        )
        return observation_of(
            tuple(self.members.values()),
            view,
            wanted=self.wanted,
            identities=(Identity(1, "c1", 1, "U11", self.size, formed=True),),
            templates={},
        )

    def run(self) -> steps.Step:
        """Until the planner has nothing more to do, or waits; then that."""
        for _ in range(60):
            step = plan(self.seen())
            match step:
                case steps.CreateMember():
                    made = member(
                        step.node_id,
                        step.number,
                        storage=self.wanted.storage,
                        replaces=step.replaces,
                    )
                    self.members[step.node_id, step.number] = made
                case steps.AddVoter(key):
                    self.voters.append(key)
                case steps.RemoveVoter(key):
                    self.voters.remove(key)
                    assert len(self.live()) >= majority(len(self.voters))
                case steps.TransferLeadership(_, successor):
                    self.leader = successor
                case steps.ScaleToZero(target):
                    each = next(e for e in self.members.values() if e.name == target.name)
                    assert each.key not in self.voters
                    gone = each.pod if each.pod is not None and each.pod.deleting else None
                    self.members[each.node_id, each.number] = replace(
                        each, replicas=0, stopped="left", pod=gone, report=None
                    )
                case steps.DeleteIncarnation(target):
                    self.members = {p: e for p, e in self.members.items() if e.name != target.name}
                case _:
                    return step
        raise AssertionError("it never ends")


def minorities(size: int) -> list[set[int]]:
    most = size - majority(size)
    ids = range(1, size + 1)
    return [set(some) for count in range(1, most + 1) for some in combinations(ids, count)]


def model_with_outage(size: int, away: set[int], why: str, order: ReplacementOrder) -> Small:
    wanted = Wanted(size, SMALL, replacement_order=order)
    if why == "retired":
        return Small(size, away, replace(wanted, retire=frozenset(away)))
    if why == "other storage":
        return Small(size, away, replace(wanted, storage=LARGE))
    if why == "fewer wanted":
        return Small(size, away, replace(wanted, replicas=size - 2))
    small = Small(size, away, wanted)
    for each in away:
        claim = small.members[each, 1].claim
        assert claim is not None
        small.members[each, 1] = replace(
            small.members[each, 1], claim=replace(claim, deleting=True)
        )
    return small


@pytest.mark.parametrize("order", ReplacementOrder)
@pytest.mark.parametrize("why", REASONS)
@pytest.mark.parametrize("size", [3, 5])
@pytest.mark.requirement("OP-04")
def test_retirement_of_an_unreachable_member_completes(
    size: int, why: str, order: ReplacementOrder
) -> None:
    for away in minorities(size):
        small = model_with_outage(size, away, why, order)
        step = small.run()
        assert not isinstance(step, steps.Wait), (away, step)
        assert len(small.voters) == small.wanted.replicas, (away, step)
        if why != "fewer wanted":
            assert set(small.voters) == set(small.live()), (away, step)


def test_retired_live_member_waits_for_a_retired_unreachable_one() -> None:
    small = Small(3, {1}, Wanted(3, SMALL, retire=frozenset({1, 3})))
    small.leader = Key(2, "U21")
    small.run()
    assert {key.id for key in small.voters} == {2, 4, 5}


def test_plan_names_another_unreachable_member() -> None:
    small = Small(3, {3}, Wanted(3, SMALL, retire=frozenset({2})))
    step = small.run()
    assert isinstance(step, steps.Wait)
    assert step.blocked_by.endswith("not live: 3")
    assert Key(2, "U21") in small.voters


AFTER_S = 900.0


def on_host(each: Incarnation, since: float | None, *, zone_is_away: bool = False) -> Incarnation:
    """On a host that is not ready; `since` as the last status has it."""
    host = HostFacts(
        f"h{each.node_id}", exists=True, ready=False, zone="z", zone_is_away=zone_is_away
    )
    return replace(each, host=host, unreachable_since=since)


def away_since(
    size: int, ids: set[int], seconds: float, *, zone_is_away: bool = False, **wanted: object
) -> Small:
    settings: dict[str, object] = {"unreachable_after_s": AFTER_S, **wanted}
    small = Small(size, ids, Wanted(size, SMALL, **settings))  # type: ignore[arg-type]
    for each in ids:
        there = small.members[each, 1]
        small.members[each, 1] = on_host(there, NOW - seconds, zone_is_away=zone_is_away)
    return small


@pytest.mark.parametrize("size", [3, 5])
@pytest.mark.requirement("OP-04")
def test_member_on_a_permanently_lost_host_is_replaced_under_its_id(size: int) -> None:
    for each in range(1, size + 1):
        small = away_since(size, {each}, AFTER_S)
        step = small.run()
        assert isinstance(step, steps.Nothing), step
        ids = sorted(key.id for key in small.voters)
        assert ids == list(range(1, size + 1))
        assert Key(each, f"U{each}2") in small.voters
        assert small.members[each, 2].replaces == 1


@pytest.mark.parametrize(
    ("small", "blocked"),
    [
        (away_since(3, {3}, AFTER_S - 1), "unless it returns"),
        (away_since(3, {3}, 99_999, unreachable_after_s=None), None),
        (away_since(3, {3}, 99_999, repair_enabled=False), "repair.enabled"),
        (away_since(3, {3}, 99_999, max_replacements_per_hour=0), "maxReplacementsPerHour"),
        (away_since(3, {3}, 99_999, zone_is_away=True), "zone z"),
        (away_since(5, {2, 3}, 99_999, zone_is_away=True), "zone z"),
    ],
    ids=["not long enough", "not asked for", "no repairs", "hourly cap", "zone", "zone of two"],
)
@pytest.mark.requirement("OP-04")
def test_member_is_not_replaced_while_replacement_is_not_allowed(
    small: Small, blocked: str | None
) -> None:
    voters = list(small.voters)
    step = small.run()
    assert small.voters == voters
    assert len(small.members) == small.size
    if blocked is None:
        assert isinstance(step, steps.Nothing)
        assert "host h3 is not ready, since 19" in step.reason
        assert "spec.retire" in step.reason
    else:
        assert isinstance(step, steps.Wait)
        assert blocked in step.blocked_by


@pytest.mark.requirement("OP-04")
def test_heard_or_answering_member_is_not_unreachable() -> None:
    small = away_since(3, set(), 0)
    small.members[3, 1] = on_host(small.members[3, 1], NOW - 99_999)
    assert Situation(small.seen()).reachability.unreachable == {}
    small.members[3, 1] = replace(small.members[3, 1], report=None)
    assert Situation(small.seen()).reachability.unreachable == {}, "the leader receives its fetches"
    step = small.run()
    assert isinstance(step, steps.Nothing)
    assert "host h3 of member 3 is not ready, but the member fetches from the leader" in step.reason
    assert len(small.members) == 3


@pytest.mark.requirement("OP-04")
def test_newly_observed_outage_does_not_count_yet() -> None:
    """Also after the status was lost: the time starts again."""
    small = away_since(3, {3}, 0)
    small.members[3, 1] = replace(small.members[3, 1], unreachable_since=None)
    small.wanted = replace(small.wanted, unreachable_after_s=0.0)
    assert isinstance(small.run(), steps.Wait)
    assert len(small.members) == 3


@pytest.mark.requirement("OP-04")
def test_one_of_two_unreachable_members_is_replaced_at_a_time() -> None:
    small = away_since(5, {4, 5}, AFTER_S + 1)
    small.members[5, 1] = replace(small.members[5, 1], unreachable_since=NOW - AFTER_S - 9)
    step = plan(small.seen())
    assert isinstance(step, steps.CreateMember)
    assert step.node_id == 5, "not the member that is unreachable longest"
    made = member(5, 2, replaces=1)
    small.members[5, 2] = made
    small.members[4, 1] = replace(small.members[4, 1], unreachable_since=NOW - 99_999)
    assert [each.key.id for each in Situation(small.seen()).leaving] == [5], (
        "a removal that has begun was not finished"
    )
    assert isinstance(small.run(), steps.Nothing)
    assert {Key(4, "U42"), Key(5, "U52")} <= set(small.voters)


@pytest.mark.requirement("OP-04")
def test_no_member_is_replaced_while_another_voter_is_dead() -> None:
    small = away_since(5, {4, 5}, 99_999)
    failed = FailureLatch("StorageFailed", "x", NOW, NOW)
    small.members[4, 1] = replace(small.members[4, 1], failed=failed, replicas=0, host=None)
    assert [each.key.id for each in Situation(small.seen()).leaving] == [4]


@pytest.mark.requirement("OP-04")
def test_no_member_is_replaced_without_a_confirmed_leader() -> None:
    seen = replace(away_since(3, {2, 3}, 99_999).seen(), view=None)
    step = plan(seen)
    assert isinstance(step, steps.Wait)
    assert not Situation(seen).leaving


@pytest.mark.requirement("OP-04")
def test_member_that_returns_during_its_replacement_stays_and_the_new_one_is_removed() -> None:
    small = away_since(3, {3}, AFTER_S)
    assert isinstance(plan(small.seen()), steps.CreateMember)
    small.members[3, 2] = member(3, 2, replaces=1)
    small.away = set()
    small.members[3, 1] = member(3)
    assert isinstance(small.run(), steps.Nothing)
    assert set(small.voters) == {Key(1, "U11"), Key(2, "U21"), Key(3, "U31")}
    assert (3, 2) not in small.members


def test_new_member_on_a_permanently_lost_host_is_abandoned() -> None:
    small = Small(3, set(), Wanted(3, SMALL, retire=frozenset({3})))
    small.members[4, 1] = on_host(member(4, report=None), NOW - 61)
    seen = small.seen()
    assert seen.view is not None
    step = plan(replace(seen, view=replace(seen.view, observers=())))
    assert isinstance(step, steps.CreateMember)
    assert (step.node_id, step.number) == (4, 2)


@pytest.mark.requirement("OP-04")
def test_status_lists_unreachable_members_with_the_start_time() -> None:
    small = away_since(3, {3}, 0, unreachable_after_s=None)
    small.members[3, 1] = replace(small.members[3, 1], unreachable_since=None)
    first = small.seen()
    status = build_status(first, plan(first), MetadataQuorumStatus(), "")
    reported = status.members[2]
    assert reported.unreachable_since == text_of(NOW)
    assert reported.condition == f"Unreachable: host h3 is not ready, since {text_of(NOW)}"
    found = {each.type: each for each in status.conditions}
    assert found["MembersUnreachable"].status == "True"
    assert found["Degraded"].status == "True"
    assert "member 3 (q-3-1): host h3 is not ready" in found["MembersUnreachable"].message
    assert status.plan is not None
    assert status.plan.reason != "3 voters, as wanted"
    assert "not live: 3" in status.plan.reason
    # The next reconcile continues from there, also with another operator.
    since = unreachable_since(status, NOW)[3, 1]
    small.members[3, 1] = replace(small.members[3, 1], unreachable_since=since)
    later = replace(small.seen(), now=NOW + 77)
    status = build_status(later, plan(later), status, "")
    assert status.members[2].unreachable_since == text_of(NOW)


def test_quorum_is_ready_although_the_pod_of_a_retired_member_cannot_terminate() -> None:
    small = Small(3, {3}, Wanted(3, SMALL, retire=frozenset({3})))
    small.members[3, 1] = on_host(small.members[3, 1], NOW - 5)
    step = small.run()
    status = build_status(small.seen(), step, MetadataQuorumStatus(), "")
    assert status.phase.value == "Ready"
    reported = {each.id: each.condition for each in status.members}
    assert (reported[3] or "").startswith("Left: ")
    assert {each.type: each.status for each in status.conditions}["Degraded"] == "False"


@pytest.mark.parametrize("size", [3, 5])
@pytest.mark.requirement("OP-04")
def test_member_that_may_return_is_removed_before_a_replacement_with_its_id_is_added(
    size: int,
) -> None:
    small = away_since(size, {size}, AFTER_S)
    small.members[size, 2] = member(size, 2, replaces=1)
    step = plan(small.seen())
    assert isinstance(step, steps.RemoveVoter)
    assert step.key == Key(size, f"U{size}1")


def test_older_of_two_voters_with_one_id_is_removed() -> None:
    small = Small(3, set(), Wanted(3, SMALL))
    small.members[2, 2] = member(2, 2, replaces=1)
    small.voters.append(Key(2, "U22"))
    assert isinstance(small.run(), steps.Nothing)
    assert set(small.voters) == {Key(1, "U11"), Key(2, "U22"), Key(3, "U31")}


@pytest.mark.parametrize("order", ReplacementOrder)
@pytest.mark.requirement("OP-04")
def test_member_with_a_deleted_claim_under_its_running_pod_moves_to_a_new_claim(
    order: ReplacementOrder,
) -> None:
    """Whoever took the protection off the claim has given its volume away: it may be wiped at any moment."""
    small = Small(3, set(), Wanted(3, SMALL, replacement_order=order))
    small.members[2, 1] = replace(small.members[2, 1], claim=None)
    step = small.run()
    assert isinstance(step, steps.Nothing), step
    assert Key(2, "U21") not in small.voters
    assert len(small.voters) == 3


def test_missing_claim_of_a_new_pod_may_be_unobserved_yet() -> None:
    small = Small(3, set(), Wanted(3, SMALL))
    pod = small.members[2, 1].pod
    assert pod is not None
    small.members[2, 1] = replace(
        small.members[2, 1], claim=None, pod=replace(pod, created_at=NOW - 5)
    )
    assert isinstance(plan(small.seen()), steps.Nothing)
