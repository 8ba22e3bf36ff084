"""The operator is killed at every call it makes, before and after it; two of them work at once.

A clean move is recorded first. Then the same move is made again for each recorded call and each moment: the operator is
killed there and started again, and the move must end as the clean one did. What each move is, and what must be there in the
end, is in `support/envtest/moves.py`.
"""

import pytest

from support.envtest import kill_points
from support.envtest.environment import Env
from support.envtest.kill_points import KillPoint
from support.envtest.killer import EAGER, Killer, StandbyKiller, kill_at_all, shrink_again
from support.envtest.moves import (
    MOVES,
    Before,
    Move,
    RebuiltIdentity,
    RebuiltMember,
    Replacement,
    ScaleUp,
)

pytestmark = pytest.mark.envtest


_LEAST_ACTS = {"rebuilt-identity": 1, "rebuilt-member": 1, "restored-labels": 1}


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.requirement("OP-03")
@pytest.mark.parametrize("name", MOVES)
def test_operator_killed_before_and_after_every_call_recovers(env: Env, name: str) -> None:
    killer = Killer(env, MOVES[name])
    first, second = killer.record(), killer.record()
    # In any order: a failed member is stopped when its leader has missed its fetches, before or after the voters change.
    assert set(kill_points.acts(first)) == set(kill_points.acts(second)), (
        "an undisturbed move made different calls"
    )
    assert len(kill_points.acts(first)) >= _LEAST_ACTS.get(name, 4)
    kill_at_all(killer, tuple(point for point in first if point in second))


@pytest.mark.timeout(300)
@pytest.mark.requirement("OP-03")
def test_operator_killed_around_the_voter_change_call_recovers(env: Env) -> None:
    killer = Killer(env, Replacement)
    recorded = kill_points.acts(killer.record())
    kill_at_all(killer, (next(each for each in recorded if "node POST voters" in each.purpose),))


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.requirement("OP-03")
@pytest.mark.parametrize(
    ("move", "purpose"),
    [
        (RebuiltMember, "POST statefulsets q-N-I"),
        pytest.param(RebuiltIdentity, "POST configmaps q-identity", marks=pytest.mark.long),
    ],
)
def test_operator_killed_around_the_recreation_of_deleted_objects_recovers(
    env: Env, move: type[Move], purpose: str
) -> None:
    kill_at_all(Killer(env, move), (KillPoint(purpose, 1),))


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.requirement("OP-03")
@pytest.mark.parametrize("name", MOVES)
def test_standby_operator_continues_when_the_leader_is_killed_at_any_call(
    env: Env, name: str
) -> None:
    killer = StandbyKiller(env, MOVES[name])
    first, second = killer.record(), killer.record()
    kill_at_all(killer, tuple(point for point in kill_points.acts(first) if point in second))


@pytest.mark.long
@pytest.mark.requirement("OP-03")
def test_two_concurrent_operators_execute_each_move_once(env: Env) -> None:
    for _ in range(2):
        operator, _ = env.add_operator()
        operator.start()
    quorum = env.create(3, disks=True, repair=EAGER)
    assert len(quorum.steps_since()) == 2
    for move in (ScaleUp, Replacement):
        made = move(quorum, Before.of(quorum))
        made.begin()
        made.settle()
        shrink_again(quorum)
    assert len(quorum.steps_since()) == 2 + 2 + 2 + 2
    assert all(operator.alive() for operator in env.operators)


@pytest.mark.long
def test_restarted_operator_applies_the_changes_it_missed(env: Env) -> None:
    operator, _ = env.add_operator()
    operator.start()
    quorum = env.create(3, disks=True)
    move = Replacement(quorum, Before.of(quorum))
    operator.kill()
    move.begin()
    operator.start()
    move.settle()


@pytest.mark.long
def test_stopped_operator_shuts_down_gracefully(env: Env) -> None:
    operator, _ = env.add_operator()
    operator.start()
    env.create(1)
    assert operator.stop() == 0
