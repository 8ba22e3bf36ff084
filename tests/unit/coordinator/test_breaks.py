"""Ways of breaking the coordinator: each is found by histories that are the same in every run."""

from collections.abc import Callable
from math import inf
from random import Random
from typing import Any

import pytest

import quorum_node.coordinator.joining as joining
import quorum_node.coordinator.membership as membership
from quorum_node.coordinator.effects import Effects, Now
from quorum_node.coordinator.errors import GroupError
from quorum_node.coordinator.forgetting import Forgetting
from quorum_node.coordinator.group import ClassicGroup
from quorum_node.coordinator.members import Member
from quorum_node.coordinator.rebalance import Rebalance
from support.group_history import OF_CLIENTS, WAITS_MS, run

Patch = pytest.MonkeyPatch
HISTORIES = 300


def commit_before_it_is_stored(patch: Patch) -> None:
    """An acknowledged offset is lost with its coordinator."""
    real = Effects.append

    def append(effects: Effects, records: Any, then: Any, transaction: Any = None) -> None:
        real(effects, records, lambda error, now: None, transaction)
        then(GroupError.NONE, Now(0, 0))

    patch.setattr(Effects, "append", append)


def assign_without_storing(patch: Patch) -> None:
    """Members work with assignments that the next coordinator does not know."""

    def store(self: Any, sync: Any, group: ClassicGroup) -> None:
        self._rebalance.assign(
            group, {m: sync.assignments.get(m, b"") for m in group.members}, Now(0, 0)
        )

    patch.setattr(membership.Membership, "_store", store)


def assign_in_a_later_generation(patch: Patch) -> None:
    """Late assignments of a generation that is over are given out."""
    real = membership.Membership._store

    def store(self: Any, sync: Any, group: ClassicGroup) -> None:
        before = len(self._effects._outputs)
        real(self, sync, group)
        append = self._effects._outputs[before]
        assignments = {m: sync.assignments.get(m, b"") for m in group.members}
        self._effects._then[append.append_id] = lambda error, now: self._rebalance.assign(
            group, assignments, now
        )

    patch.setattr(membership.Membership, "_store", store)


def drop_waiting_joins(patch: Patch) -> None:
    """A member's request to join is dropped when others leave."""
    real = ClassicGroup.remove

    def remove(group: ClassicGroup, member_id: str) -> Member:
        for each in group.members.values():
            each.joining = None
        return real(group, member_id)

    patch.setattr(ClassicGroup, "remove", remove)


def drop_offsets_with_the_members(patch: Patch) -> None:
    """Offsets go when the group is empty."""
    real = Forgetting.drop_if_unused

    def drop(self: Forgetting, group: ClassicGroup) -> None:
        if not group.members:
            self._table.offsets.forget(
                group.group_id, tuple(self._table.offsets.of(group.group_id))
            )
        real(self, group)

    patch.setattr(Forgetting, "drop_if_unused", drop)


def keep_silent_members(patch: Patch) -> None:
    """Sessions never end."""
    patch.setattr(Member, "lives", lambda member, now_ms: setattr(member, "due_ms", inf))


def keep_a_lost_group_leader(patch: Patch) -> None:
    """The leader is gone, and no member assigns."""
    patch.setattr(ClassicGroup, "elect_joined_leader", lambda group: bool(group.members))


def lose_the_leadership_of_a_static_member(patch: Patch) -> None:
    """A returning static leader leaves the group without one."""
    real = ClassicGroup.rename

    def rename(group: ClassicGroup, old_id: str, new_id: str) -> Member:
        led = group.leader_id
        member = real(group, old_id, new_id)
        group.leader_id = led
        return member

    patch.setattr(ClassicGroup, "rename", rename)


def take_over_without_storing(patch: Patch) -> None:
    """A static member's new id is unknown to the next coordinator."""

    def keep(self: Any, join: Any, member: Member, group: ClassicGroup, before: Any) -> None:
        self._effects.reply(join.request_id, self._rebalance.joined(group, member))

    patch.setattr(joining.Joining, "_keep_generation", keep)


def wait_for_all_members_without_limit(patch: Patch) -> None:
    """A rebalance has no end while a member is away."""
    patch.setattr(Rebalance, "_join_is_over", lambda self, group, now: None)


def wait_for_syncs_for_ever(patch: Patch) -> None:
    """Who joined and never synced keeps its partitions."""
    patch.setattr(
        Rebalance, "_sync_is_over", lambda self, group, now: setattr(group, "sync_due_ms", inf)
    )
    patch.setattr(
        Rebalance, "remove", lambda self, group, member, now: setattr(member, "due_ms", inf)
    )


BREAKS: list[Callable[[Patch], None]] = [
    commit_before_it_is_stored,
    assign_without_storing,
    assign_in_a_later_generation,
    drop_waiting_joins,
    drop_offsets_with_the_members,
    keep_silent_members,
    keep_a_lost_group_leader,
    lose_the_leadership_of_a_static_member,
    take_over_without_storing,
    wait_for_all_members_without_limit,
    wait_for_syncs_for_ever,
]
ACTS: tuple[tuple[str, tuple[int, ...]], ...] = (
    *((name, (0, 1, 2, 3)) for name in OF_CLIENTS),
    *((name, (0, 1, 2, 3)) for name in ("rejoin", "sync")),
    ("wait", WAITS_MS),
    ("wait", WAITS_MS[:2]),
    ("store", (0,)),
    ("store", (0,)),
    ("fail", (0, 1)),
    ("move", (0,)),
)


def history(seed: int) -> list[tuple[str, int]]:
    random = Random(seed)
    acts = []
    for _ in range(60):
        name, numbers = random.choice(ACTS)
        acts.append((name, random.choice(numbers)))
    return acts


def play(histories: int) -> None:
    for seed in range(histories):
        run(history(seed))


def test_same_histories_pass_without_a_defect() -> None:
    play(HISTORIES // 10)


@pytest.mark.long
@pytest.mark.parametrize("break_it", BREAKS, ids=lambda each: each.__name__)
def test_defect_is_detected(break_it: Callable[[Patch], None], monkeypatch: Patch) -> None:
    break_it(monkeypatch)
    with pytest.raises(AssertionError):
        play(HISTORIES)


def test_defect_in_stored_records_is_detected(monkeypatch: Patch) -> None:
    assign_without_storing(monkeypatch)
    with pytest.raises(AssertionError):
        play(HISTORIES)
