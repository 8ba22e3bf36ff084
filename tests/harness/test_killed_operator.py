"""The operator is killed at every call it makes, before and after it; two of them work at once.

A clean replacement and a clean scale-up are recorded first. Then the same move is made again for
each recorded call and each moment: the operator is killed there and started again, and the move must
end as the clean one did, with no voter change more and no incarnation more.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from support.harness import kill_points
from support.harness.http_proxy import Moment, RecordingProxy
from support.harness.kill_points import Point
from support.harness.operator_process import OperatorProcess
from support.harness.quorum import HarnessQuorum
from support.harness.scene import Scene
from support.trial.quorum import Described
from support.trial.waiting import wait_for

pytestmark = pytest.mark.harness

_EAGER = {"debounceSeconds": 1, "maxReplacementsPerHour": 60}
_REACHED_TIMEOUT_S = 60.0
_MOVES_PER_QUORUM = 20

Settle = Callable[[], None]
Operator = tuple[OperatorProcess, RecordingProxy]


@dataclass(frozen=True, slots=True)
class Before:
    """What a move began with."""

    described: Described
    incarnations: frozenset[str]
    claims: frozenset[str]
    offset: int

    @classmethod
    def of(cls, quorum: HarnessQuorum) -> "Before":
        described = quorum.wait_ready(3)
        return cls(
            described,
            frozenset(quorum.incarnations()),
            frozenset(quorum.claims_by_uid()),
            quorum.last_voters_offset(),
        )


def replace(quorum: HarnessQuorum, before: Before) -> Settle:
    """Fails a follower's disk; what must be there in the end."""
    failed = quorum.fail_disk(quorum.voter(leader=False, described=before.described))
    node_id = failed.key[0]

    def settle() -> None:
        after = quorum.wait_replaced(failed, 3)
        assert before.described.keys - after.keys == {failed.key}
        assert sorted(quorum.steps_since(before.offset)) == [f"+{node_id}", f"-{node_id}"]
        made = quorum.incarnations().keys() - before.incarnations
        assert len(made) == 1, f"extra replacement: {made}"
        assert quorum.incarnations()[failed.pod.removesuffix("-0")] == 0
        assert before.claims < set(quorum.claims_by_uid()), "a claim is gone"

    return settle


def grow(quorum: HarnessQuorum, before: Before) -> Settle:
    """Scales up to five; what must be there in the end."""
    quorum.scale(5)

    def settle() -> None:
        after = quorum.wait_ready(5)
        assert before.described.keys < after.keys
        added = sorted(f"+{node_id}" for node_id, _ in after.keys - before.described.keys)
        assert sorted(quorum.steps_since(before.offset)) == added
        assert len(quorum.incarnations().keys() - before.incarnations) == 2

    return settle


def shrink_again(quorum: HarnessQuorum) -> None:
    if quorum.resource()["spec"]["replicas"] != 3:
        quorum.scale(3)
        quorum.wait_ready(3)


Move = Callable[[HarnessQuorum, Before], Settle]
MOVES: dict[str, Move] = {"replacement": replace, "scale-up": grow}


class Killer:
    """Makes one kind of move again and again, on a fresh quorum now and then."""

    def __init__(self, scene: Scene, move: Move) -> None:
        self._scene = scene
        self._move = move
        self._operators = self._start()
        self._benches = self._quorums()

    def _start(self) -> dict[str, Operator]:
        """Those that run, by the name under which they would hold the lease."""
        made = self._scene.add_operator()
        made[0].start()
        return {"": made}

    def _at_work(self) -> Operator:
        return self._operators[""]

    def _revive(self, killed: OperatorProcess) -> None:
        killed.start()

    def _quorums(self) -> Iterator[HarnessQuorum]:
        """The number of replacements per hour is capped, so a quorum does not serve forever."""
        while True:
            quorum = self._scene.create(3, disks=self._move is replace, repair=_EAGER)
            for _ in range(_MOVES_PER_QUORUM):
                shrink_again(quorum)
                yield quorum
            self._scene.discard(quorum)

    def record(self) -> tuple[Point, ...]:
        """The points of a clean move."""
        quorum = next(self._benches)
        before = Before.of(quorum)
        _, proxy = self._at_work()
        first = len(proxy.calls)
        settle = self._move(quorum, before)
        settle()
        return kill_points.points(proxy.calls[first:])

    def kill_at(self, point: Point, moment: Moment) -> None:
        """One move with the operator killed at `point`. Raises AssertionError."""
        quorum = next(self._benches)
        before = Before.of(quorum)
        cluster = self._scene.cluster
        operator, proxy = self._at_work()
        hold = cluster.run(lambda: proxy.hold(kill_points.matcher(point), moment))
        try:
            settle = self._move(quorum, before)
            cluster.wait_inside(str(point), hold.reached.wait, timeout_s=_REACHED_TIMEOUT_S)
        finally:
            operator.kill()
            cluster.run(hold.abandon)
            cluster.run(proxy.disarm)
            self._revive(operator)
        settle()


class Succession(Killer):
    """Of two operators the one that holds the lease is killed, and the other one goes on."""

    def _start(self) -> dict[str, Operator]:
        made = [self._scene.add_operator(lease=True) for _ in range(2)]
        for operator, _ in made:
            operator.start()
        return {f"operator-{number}": each for number, each in enumerate(made)}

    def _at_work(self) -> Operator:
        held = wait_for("one holds the lease", self._scene.lease_holder, timeout_s=30)
        return self._operators[held]

    def _revive(self, killed: OperatorProcess) -> None:
        """Not before the other one works: else it would go on with what it had begun itself."""
        name = next(name for name, each in self._operators.items() if each[0] is killed)
        wait_for(
            "the other one took over", lambda: self._scene.lease_holder() != name, timeout_s=30
        )
        killed.start()


def kill_at_all(killer: Killer, chosen: tuple[Point, ...]) -> None:
    """Every point, before and after; tells all that went wrong, not only the first."""
    reached = 0
    wrong: list[str] = []
    for point in chosen:
        for moment in Moment:
            begun = time.monotonic()
            try:
                killer.kill_at(point, moment)
                reached += 1
            except AssertionError as error:
                wrong.append(f"{moment} {point}: {error}")
            print(f"{time.monotonic() - begun:5.1f} s  killed {moment} {point}", flush=True)
    assert not wrong, "\n".join(wrong)
    assert reached == 2 * len(chosen)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.requirement("OP-03")
@pytest.mark.parametrize("name", MOVES)
def test_killed_before_and_after_every_call(scene: Scene, name: str) -> None:
    killer = Killer(scene, MOVES[name])
    first, second = killer.record(), killer.record()
    assert kill_points.acts(first) == kill_points.acts(second), "a clean move is the same each time"
    assert len(kill_points.acts(first)) >= 4
    kill_at_all(killer, tuple(point for point in first if point in second))


@pytest.mark.timeout(300)
@pytest.mark.requirement("OP-03")
def test_killed_before_and_after_the_call_that_changes_the_voters(scene: Scene) -> None:
    killer = Killer(scene, replace)
    recorded = kill_points.acts(killer.record())
    kill_at_all(killer, (next(each for each in recorded if "node POST voters" in each.purpose),))


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.requirement("OP-03")
@pytest.mark.parametrize("name", MOVES)
def test_the_holder_is_killed_before_and_after_every_call_and_the_other_one_goes_on(
    scene: Scene, name: str
) -> None:
    killer = Succession(scene, MOVES[name])
    first, second = killer.record(), killer.record()
    kill_at_all(killer, tuple(point for point in kill_points.acts(first) if point in second))


@pytest.mark.long
@pytest.mark.requirement("OP-03")
def test_two_operators_at_once_make_each_move_once(scene: Scene) -> None:
    for _ in range(2):
        operator, _ = scene.add_operator()
        operator.start()
    quorum = scene.create(3, disks=True, repair=_EAGER)
    assert len(quorum.steps_since()) == 2
    grow(quorum, Before.of(quorum))()
    shrink_again(quorum)
    replace(quorum, Before.of(quorum))()
    assert len(quorum.steps_since()) == 2 + 2 + 2 + 2
    assert all(operator.alive() for operator in scene.operators)


@pytest.mark.long
def test_an_operator_that_was_away_catches_up(scene: Scene) -> None:
    operator, _ = scene.add_operator()
    operator.start()
    quorum = scene.create(3, disks=True)
    before = Before.of(quorum)
    operator.kill()
    settle = replace(quorum, before)
    operator.start()
    settle()


@pytest.mark.long
def test_a_stopped_operator_ends_in_order(scene: Scene) -> None:
    operator, _ = scene.add_operator()
    operator.start()
    scene.create(1)
    assert operator.stop() == 0
