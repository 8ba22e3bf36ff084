"""Turns of connections: no connection occupies the loop for long, and clients with few requests are served first."""

import pytest

from quorum_node.server.listener.fair_turns import LIGHT_TURN_SECONDS, TURN_SECONDS, FairTurns
from support.driven_loop import DrivenLoop


class TimedLoop(DrivenLoop):
    """Time passes while callbacks work, or until the next one is due."""

    def turn(self) -> float:
        """One turn of the loop; returns how long it took."""
        began = self.now
        if not self.run_due() and self.later:
            self.now = min(at for at, _ in self.later)
        return self.now - began


class Client:
    """Has work of `pieces` pieces, each of `cost` seconds."""

    is_light = False

    def __init__(self, turns: FairTurns, loop: TimedLoop, pieces: int, cost: float) -> None:
        self.served_until = 0.0
        self._turns, self._loop, self._pieces, self._cost = turns, loop, pieces, cost
        self.in_flight = 0
        self.is_heavy = cost > TURN_SECONDS
        self.done_at: list[float] = []

    def take_turn(self) -> None:
        self._loop.now += self._cost
        self.done_at.append(self._loop.now)
        self.served_until = self._turns.spent(self.served_until, self._cost)
        self._pieces -= 1
        if self._pieces > 0:
            self._turns.add(self)


def test_single_turn_of_the_loop_is_short() -> None:
    loop = TimedLoop()
    turns = FairTurns(loop, clock=loop.clock)
    clients = [Client(turns, loop, 100, 0.001) for _ in range(50)]
    for client in clients:
        turns.add(client)
    while turns.waiting:
        assert loop.turn() <= TURN_SECONDS + 0.001 + 1e-9
    assert all(len(each.done_at) == 100 for each in clients)


def test_occasional_client_is_served_before_sixty_busy_ones() -> None:
    loop = TimedLoop()
    turns = FairTurns(loop, clock=loop.clock)
    for _ in range(60):
        turns.add(Client(turns, loop, 1000, 0.001))
    for _ in range(100):
        loop.turn()
    waits = []
    quiet = Client(turns, loop, 1, 0.0001)
    for _ in range(20):
        requested_at = loop.now
        turns.add(quiet)
        while len(quiet.done_at) == len(waits):
            loop.turn()
        waits.append(quiet.done_at[-1] - requested_at)
        for _ in range(20):
            loop.turn()
    # At first it is as far as the others; from then on it is always behind them.
    assert max(waits[1:]) <= 2 * TURN_SECONDS


def test_heavy_work_is_serialized_and_leaves_most_of_the_time_to_others() -> None:
    loop = TimedLoop()
    turns = FairTurns(loop, clock=loop.clock)
    heavy = [Client(turns, loop, 100, 0.05) for _ in range(10)]
    for client in heavy:
        turns.add(client)
    waits = []
    quiet = Client(turns, loop, 1, 0.0001)
    while loop.now < 10:
        requested_at = loop.now
        turns.add(quiet)
        while len(quiet.done_at) == len(waits):
            loop.turn()
        waits.append(quiet.done_at[-1] - requested_at)
        loop.now += 0.002
    stalled = sum(wait > 0.001 for wait in waits)
    assert max(waits) <= 0.052
    assert stalled <= 10 / 0.05 / 4
    worked = 0.05 * sum(len(each.done_at) for each in heavy)
    assert 1.5 <= worked <= 2.1, "a fifth of the time"


@pytest.mark.parametrize("share", [0.1, 0.25, 0.5])
def test_heavy_work_is_limited_to_its_share_of_time(share: float) -> None:
    loop = TimedLoop()
    turns = FairTurns(loop, share=share, burst_seconds=0.05, clock=loop.clock)
    clients = [Client(turns, loop, 10_000, 0.001) for _ in range(5)]
    for client in clients:
        turns.add(client)
    while loop.now < 10:
        loop.turn()
    worked = 0.001 * sum(len(each.done_at) for each in clients)
    assert worked <= 10 * share + 0.1
    assert worked >= 10 * share * 0.9
    counts = [len(each.done_at) for each in clients]
    assert max(counts) - min(counts) <= 5


def test_burst_after_a_pause_is_served_immediately() -> None:
    loop = TimedLoop()
    turns = FairTurns(loop, share=0.2, burst_seconds=0.2, clock=loop.clock)
    client = Client(turns, loop, 1, 0.0001)
    assert turns.may_go_on(client)
    client.served_until = turns.spent(client.served_until, 0.3)
    assert not turns.may_go_on(client)
    loop.turn()
    assert not turns.may_go_on(client), "the credit is used up"
    loop.now += 1.0
    assert turns.may_go_on(client)


class LightClient(Client):
    """Each piece is the only request of its connection."""

    is_light = True


def test_concurrent_requests_of_many_clients_form_one_group() -> None:
    loop = TimedLoop()
    turns = FairTurns(loop, clock=loop.clock)
    loop.turn()
    done = 0
    for _ in range(100):
        client = LightClient(turns, loop, 1, 0.00005)
        if turns.may_go_on(client):
            client.take_turn()
            done += 1
    assert done == 100, "all in the turn in which they came"
    loop.turn()
    for _ in range(100):
        turns.add(LightClient(turns, loop, 1, 0.00005))
    loop.turn()
    assert turns.waiting == 0, "nor are those split that had to wait"


def test_light_work_is_limited_and_does_not_prolong_the_turn_of_other_work() -> None:
    loop = TimedLoop()
    turns = FairTurns(loop, clock=loop.clock)
    light, other = LightClient(turns, loop, 1, 0.0001), Client(turns, loop, 1, 0.0001)
    light.served_until = turns.spent(light.served_until, TURN_SECONDS)
    assert turns.may_go_on(light)
    assert not turns.may_go_on(other)
    light.served_until = turns.spent(light.served_until, LIGHT_TURN_SECONDS - TURN_SECONDS)
    assert not turns.may_go_on(light)
    for number in range(1000):
        turns.add((LightClient if number % 2 else Client)(turns, loop, 5, 0.0001))
    while turns.waiting:
        assert loop.turn() <= LIGHT_TURN_SECONDS + 0.0002
