"""Members that the leader does not hear leave when they are to leave, and never at the cost of the majority."""

from dataclasses import replace
from itertools import combinations

import pytest

from quorum_operator.crd import ReplacementOrder
from quorum_operator.planner import step as steps
from quorum_operator.planner.observed import (
    ClaimFacts,
    Identity,
    Incarnation,
    Key,
    NodeReport,
    Observation,
    PodFacts,
    QuorumView,
    ReplicaView,
    StorageChoice,
    Wanted,
)
from quorum_operator.planner.plan import plan
from support.quorum_model import majority

NOW = 1_000_000.0
SMALL, LARGE = StorageChoice("1Gi", None), StorageChoice("2Gi", None)
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
    """Voters 1 to `size`, of which some are not heard, and a planner that is asked until nothing is left to do."""

    def __init__(self, size: int, away: set[int], wanted: Wanted) -> None:
        self.size, self.away, self.wanted = size, away, wanted
        self.members = {(each, 1): member(each, away=each in away) for each in range(1, size + 1)}
        self.voters = [Key(each, f"U{each}1") for each in range(1, size + 1)]
        self.leader = next(key for key in self.voters if key.id not in away)

    def live(self) -> list[Key]:
        return [key for key in self.voters if key.uuid not in {f"U{each}1" for each in self.away}]

    def seen(self) -> Observation:
        live = self.live()
        others = [each.key for each in self.members.values() if each.key not in self.voters]
        return Observation(
            now=NOW,
            name="q",
            generation=1,
            wanted=self.wanted,
            identities=(Identity(1, "c1", 1, "U11", self.size, formed=True),),
            incarnations=tuple(self.members.values()),
            view=QuorumView(
                cluster_id="c1",
                leader=self.leader,
                epoch=4,
                voters=tuple(ReplicaView(key, key in live, key in live) for key in self.voters),
                observers=tuple(ReplicaView(key, True, True) for key in others if key is not None),
                voters_offset=17,
                voters_epoch=3,
                voters_committed=True,
                pending_change=False,
                own_epoch_committed=True,
                formed=True,
                initial_voters=self.size,
            ),
        )

    def run(self) -> steps.Step:
        """Until the planner has nothing more to do, or waits; then that."""
        for _ in range(60):
            step = plan(self.seen())
            match step:
                case steps.CreateMember():
                    made = member(step.node_id, step.number, storage=self.wanted.storage)
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


def asked(size: int, away: set[int], why: str, order: ReplacementOrder) -> Small:
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
def test_what_is_asked_of_a_member_that_is_away_comes_to_an_end(
    size: int, why: str, order: ReplacementOrder
) -> None:
    for away in minorities(size):
        small = asked(size, away, why, order)
        step = small.run()
        assert not isinstance(step, steps.Wait), (away, step)
        assert len(small.voters) == small.wanted.replicas, (away, step)
        if why != "fewer wanted":
            assert set(small.voters) == set(small.live()), (away, step)


def test_a_retired_member_that_lives_waits_behind_one_that_does_not() -> None:
    small = Small(3, {1}, Wanted(3, SMALL, retire=frozenset({1, 3})))
    small.leader = Key(2, "U21")
    small.run()
    assert {key.id for key in small.voters} == {2, 4, 5}


def test_where_someone_else_is_away_the_plan_names_him() -> None:
    small = Small(3, {3}, Wanted(3, SMALL, retire=frozenset({2})))
    step = small.run()
    assert isinstance(step, steps.Wait)
    assert step.blocked_by.endswith("not live: 3")
    assert Key(2, "U21") in small.voters
