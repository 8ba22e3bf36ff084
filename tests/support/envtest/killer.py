"""Repeats one kind of move, and kills the operator at a different call each time."""

import time
from collections.abc import Iterator
from typing import Any

from support.envtest import kill_points
from support.envtest.cluster import TimedOut
from support.envtest.environment import Env
from support.envtest.http_proxy import Moment, RecordingProxy
from support.envtest.kill_points import KillPoint
from support.envtest.moves import Before, Move
from support.envtest.operator_process import OperatorProcess
from support.envtest.quorum import ApiServerQuorum
from support.kind_env.waiting import wait_for

EAGER = {"debounceSeconds": 1, "maxReplacementsPerHour": 60}
_REACHED_TIMEOUT_S = 60.0
_MOVES_PER_QUORUM = 20


class NotReached(AssertionError):
    """The move made no call at the point."""


Operator = tuple[OperatorProcess, RecordingProxy]


class Killer:
    """Repeats a move; the quorum is replaced from time to time."""

    def __init__(self, env: Env, move: type[Move]) -> None:
        self._env = env
        self._move = move
        self._operators = self._start()
        self._benches = self._quorums()

    def _start(self) -> dict[str, Operator]:
        """The running operators, by the name under which they hold the lease."""
        made = self._env.add_operator()
        made[0].start()
        return {"": made}

    def _at_work(self) -> Operator:
        return self._operators[""]

    def _revive(self, killed: OperatorProcess) -> None:
        killed.start()

    def _quorums(self) -> Iterator[ApiServerQuorum]:
        """Quorums for the moves: the number of replacements per hour is limited, so a quorum can't be used for all."""
        while True:
            secured: dict[str, Any] = {"tls": {"mode": "Managed"}} if self._move.tls else {}
            quorum = self._env.create(3, disks=self._move.disks, repair=EAGER, **secured)
            for _ in range(_MOVES_PER_QUORUM):
                shrink_again(quorum)
                yield quorum
            self._env.discard(quorum)

    def record(self) -> tuple[KillPoint, ...]:
        """The points of an undisturbed move."""
        quorum = next(self._benches)
        move = self._move(quorum, Before.of(quorum))
        try:
            move.prepare()
            _, proxy = self._at_work()
            first = len(proxy.calls)
            move.begin()
            move.settle()
            return kill_points.points(proxy.calls[first:])
        finally:
            move.clean_up()

    def kill_at(self, point: KillPoint, moment: Moment) -> None:
        """One move with the operator killed at `point`. Raises AssertionError."""
        quorum = next(self._benches)
        move = self._move(quorum, Before.of(quorum))
        try:
            move.prepare()
            self._killed(move, point, moment)
            move.settle()
        finally:
            move.clean_up()

    def _killed(self, move: Move, point: KillPoint, moment: Moment) -> None:
        cluster = self._env.cluster
        operator, proxy = self._at_work()
        hold = cluster.run(lambda: proxy.hold(kill_points.matcher(point), moment))
        try:
            move.begin()
            try:
                cluster.wait_inside(str(point), hold.reached.wait, timeout_s=_REACHED_TIMEOUT_S)
            except TimedOut as error:
                raise NotReached(str(error)) from None
        finally:
            operator.kill()
            cluster.run(hold.abandon)
            cluster.run(proxy.disarm)
            self._revive(operator)


class StandbyKiller(Killer):
    """Two operators: the one with the lease is killed, and the other one continues."""

    def _start(self) -> dict[str, Operator]:
        made = [self._env.add_operator(lease=True) for _ in range(2)]
        for operator, _ in made:
            operator.start()
        return {f"operator-{number}": each for number, each in enumerate(made)}

    def _at_work(self) -> Operator:
        held = wait_for("one holds the lease", self._env.lease_holder, timeout_s=90)
        return self._operators[held]

    def _revive(self, killed: OperatorProcess) -> None:
        """Restart it after the other one works: otherwise it would continue its own move."""
        name = next(name for name, each in self._operators.items() if each[0] is killed)
        wait_for("the other one took over", lambda: self._env.lease_holder() != name, timeout_s=90)
        killed.start()


def shrink_again(quorum: ApiServerQuorum) -> None:
    """Back to three voters."""
    if quorum.resource()["spec"]["replicas"] != 3:
        quorum.scale(3)
        quorum.wait_ready(3)


def kill_at_all(killer: Killer, chosen: tuple[KillPoint, ...]) -> None:
    """Kill it at every point, before and after the call; reports all failures.

    A move may do without a point that depends on timing, but most of these must be reached.
    """
    missed: list[KillPoint] = []
    wrong: list[str] = []
    for point in chosen:
        for moment in Moment:
            begun = time.monotonic()
            message = "killed"
            try:
                killer.kill_at(point, moment)
            except NotReached as error:
                message = "not reached:"
                if kill_points.depends_on_timing(point.purpose):
                    missed.append(point)
                else:
                    wrong.append(f"{moment} {point}: {error}")
            except AssertionError as error:
                wrong.append(f"{moment} {point}: {error}")
            print(f"{time.monotonic() - begun:5.1f} s  {message} {moment} {point}", flush=True)
    assert not wrong, "\n".join(wrong)
    timed = [each for each in chosen if kill_points.depends_on_timing(each.purpose)]
    assert len(missed) <= len(timed), (
        f"{len(missed)} of {2 * len(timed)} kill points not reached: {missed}"
    )
