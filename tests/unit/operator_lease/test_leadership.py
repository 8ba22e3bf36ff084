"""Which operator is active: never two at once, also when calls fail, are delayed or are executed without a response."""

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from quorum_operator.kube.errors import AlreadyExists, Conflict, Unavailable
from quorum_operator.leadership import MOST_S, Leadership, NotLeading, Terms
from quorum_operator.namespaced_name import NamespacedName
from support import virtual_time

LEASE = NamespacedName("operators", "mq")
TERMS = Terms()
LOOK_S = 0.1

Json = dict[str, Any]


@dataclass
class Store:
    """What the API server keeps: one lease, and its version."""

    lease: Json | None = None
    version: int = 0

    def write(self, spec: Json) -> Json:
        self.version += 1
        old = (self.lease or {}).get("spec") or {}
        meta = {"resourceVersion": str(self.version)}
        self.lease = {"metadata": meta, "spec": {**old, **spec}}
        return self.lease


@dataclass
class Server:
    """The connection of one operator to the store. `random` draws delays and failures; without it each call succeeds at once."""

    store: Store
    rng: random.Random | None = None
    cut: bool = False
    calls: int = 0

    async def get(self, path: str) -> Json | None:
        await self._way()
        found = self.store.lease
        await self._way()
        return found

    async def create(self, path: str, body: Json) -> Json:
        await self._way()
        if self.store.lease is not None:
            raise AlreadyExists(409, "AlreadyExists", "")
        written = self.store.write(body["spec"])
        await self._way()
        return written

    async def merge(self, path: str, body: Json) -> Json:
        await self._way()
        if body["metadata"]["resourceVersion"] != str(self.store.version):
            raise Conflict(409, "Conflict", "")
        written = self.store.write(body["spec"])
        await self._way()
        return written

    async def _way(self) -> None:
        self.calls += 1
        if self.cut:
            await asyncio.sleep(3600)
        if self.rng is None:
            return
        slow = self.rng.random() < 0.1
        await asyncio.sleep(self.rng.uniform(0, 6.0 if slow else 0.05))
        if self.rng.random() < 0.05:
            raise Unavailable(0, "ReadTimeout", "")


@dataclass
class Operator:
    """One contender; `spells`: when it began to work and when it stopped."""

    server: Server
    leadership: Leadership
    spells: list[list[float]] = field(default_factory=list)
    task: "asyncio.Task[None] | None" = None

    def start(self) -> None:
        now = asyncio.get_running_loop().time
        self.task = asyncio.create_task(
            self.leadership.run(
                lambda: self.spells.append([now()]), lambda: self.spells[-1].append(now())
            )
        )

    async def kill(self) -> None:
        """Abruptly: the lease is not released."""
        assert self.task is not None
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


def contender(store: Store, name: str, rng: random.Random | None = None) -> Operator:
    server: Any = Server(store, rng)
    clock = asyncio.get_running_loop().time
    return Operator(server, Leadership(server, LEASE, name, terms=TERMS, clock=clock))


async def until(holds: Any, *, timeout_s: float) -> float:
    """How long it took."""
    begun = asyncio.get_running_loop().time()
    async with asyncio.timeout(timeout_s):
        while not holds():  # noqa: ASYNC110 - there is no notification: the contenders are only observed
            await asyncio.sleep(LOOK_S)
    return asyncio.get_running_loop().time() - begun


@pytest.mark.requirement("OP-03")
@pytest.mark.parametrize("seed", range(20))
def test_lease_never_has_two_holders_for_any_call_outcome(seed: int) -> None:
    async def ten_minutes() -> tuple[int, float]:
        rng = random.Random(seed)
        store = Store()
        operators = [contender(store, name, rng) for name in "abc"]
        for each in operators:
            each.start()
        busy = 0
        looks = int(600 / LOOK_S)
        for _ in range(looks):
            await asyncio.sleep(LOOK_S)
            leading = [each for each in operators if each.leadership.leads()]
            assert len(leading) <= 1
            working = [each for each in operators if each.spells and len(each.spells[-1]) == 1]
            assert len(working) <= 1, "an operator without the lease is active"
            busy += len(leading)
            if rng.random() < LOOK_S / 60:
                victim = rng.choice(operators)
                await victim.kill()
                victim.start()
        for each in operators:
            await each.kill()
        return sum(len(each.spells) for each in operators), busy / looks

    spells, share = virtual_time.run(ten_minutes())
    assert spells > 1, "the lease never changed its holder: the test showed nothing"
    assert share > 0.3, "there was no leader for most of the time"


@pytest.mark.requirement("OP-03")
def test_standby_acquires_the_lease_within_15_s_of_a_kill() -> None:
    async def takeover(dies_after_s: float) -> float:
        store = Store()
        first, second = contender(store, "first"), contender(store, "second")
        first.start()
        await until(first.leadership.leads, timeout_s=1)
        second.start()
        await asyncio.sleep(dies_after_s)
        assert not second.leadership.leads()
        await first.kill()
        return await until(second.leadership.leads, timeout_s=60)

    took = [virtual_time.run(takeover(20 + step * 0.1)) for step in range(25)]
    assert min(took) > TERMS.duration_s - TERMS.period_s - 0.2, (
        "taken from a holder that may still be active"
    )
    assert max(took) < 13


@pytest.mark.requirement("OP-03")
@pytest.mark.virtual_time
async def test_holder_without_responses_stops_before_the_lease_expires() -> None:
    store = Store()
    first, second = contender(store, "first"), contender(store, "second")
    first.start()
    await until(first.leadership.leads, timeout_s=1)
    second.start()
    await asyncio.sleep(20)
    first.server.cut = True
    begun = asyncio.get_running_loop().time()
    await until(lambda: len(first.spells[-1]) == 2, timeout_s=60)
    assert first.spells[-1][1] - begun <= TERMS.deadline_s
    with pytest.raises(NotLeading):
        first.leadership.check()
    await until(second.leadership.leads, timeout_s=15)
    assert second.spells[-1][0] > first.spells[-1][1]
    first.server.cut = False
    await asyncio.sleep(60)
    assert not first.leadership.leads(), "two operators are active"
    await asyncio.gather(first.kill(), second.kill())


def test_released_lease_is_acquired_at_the_next_attempt() -> None:
    async def scenario() -> float:
        store = Store()
        first, second = contender(store, "first"), contender(store, "second")
        first.start()
        await until(first.leadership.leads, timeout_s=1)
        second.start()
        await asyncio.sleep(20)
        await first.kill()
        await first.leadership.give_up()
        return await until(second.leadership.leads, timeout_s=60)

    assert virtual_time.run(scenario()) <= TERMS.period_s + LOOK_S


def test_restarted_container_continues_immediately_as_holder() -> None:
    """The holder's name is the pod's, and its process before this one is dead."""

    async def scenario() -> float:
        store = Store()
        first = contender(store, "pod")
        first.start()
        await until(first.leadership.leads, timeout_s=1)
        await first.kill()
        again = contender(store, "pod")
        again.start()
        return await until(again.leadership.leads, timeout_s=60)

    assert virtual_time.run(scenario()) <= 2 * LOOK_S


def test_lease_renewal_takes_one_call() -> None:
    async def scenario() -> int:
        operator = contender(Store(), "only")
        operator.start()
        await until(operator.leadership.leads, timeout_s=1)
        before = operator.server.calls
        await asyncio.sleep(100)
        return operator.server.calls - before

    one_call = 2  # there and back
    assert virtual_time.run(scenario()) <= one_call * (100 / TERMS.period_s + 1)


def test_timestamps_of_other_holders_are_ignored() -> None:
    """A clock that is wrong by an hour neither takes a lease that is renewed nor waits for one that is not."""

    async def scenario(renewed: str) -> float:
        store = Store()
        spec = {"holderIdentity": "other", "leaseDurationSeconds": 10, "renewTime": renewed}
        store.write(spec)
        operator = contender(store, "we")
        operator.start()
        return await until(operator.leadership.leads, timeout_s=60)

    for renewed in ("2001-01-01T00:00:00.000000Z", "2101-01-01T00:00:00.000000Z"):
        took = virtual_time.run(scenario(renewed))
        assert 10 <= took < 11


def test_edited_metadata_of_a_lease_is_no_renewal() -> None:
    """Somebody annotates the lease of a dead holder again and again."""

    async def story() -> None:
        store = Store()
        store.write({"holderIdentity": "dead", "leaseDurationSeconds": TERMS.duration_s})
        operator = contender(store, "b")
        operator.start()
        for _ in range(60):
            await asyncio.sleep(0.25)
            if not operator.leadership.leads():
                store.write({})
        assert operator.leadership.leads()
        await operator.kill()

    virtual_time.run(story())


@pytest.mark.requirement("OP-03")
def test_manually_edited_lease_blocks_operators_only_briefly() -> None:
    """Such a holder never renews it; no operator requests an hour."""

    async def scenario() -> float:
        store = Store()
        operator = contender(store, "we")
        operator.start()
        await until(operator.leadership.leads, timeout_s=1)
        store.write({"holderIdentity": "by-hand", "leaseDurationSeconds": 3600})
        await asyncio.sleep(TERMS.period_s + 1)
        assert not operator.leadership.leads(), "another holder has it at first"
        return await until(operator.leadership.leads, timeout_s=120)

    assert virtual_time.run(scenario()) <= MOST_S


@pytest.mark.requirement("OP-03")
def test_blocked_operator_loses_the_lease_to_another() -> None:
    """Its event loop is blocked: it would keep all operators idle."""

    async def scenario() -> float:
        store = Store()
        first, second = contender(store, "first"), contender(store, "second")
        blocked: list[bool] = []
        server: Any = first.server
        clock = asyncio.get_running_loop().time
        first.leadership = Leadership(
            server, LEASE, "first", terms=TERMS, clock=clock, works=lambda: not blocked
        )
        first.start()
        await until(first.leadership.leads, timeout_s=1)
        second.start()
        await asyncio.sleep(20)
        blocked.append(True)
        return await until(second.leadership.leads, timeout_s=60)

    assert virtual_time.run(scenario()) < 15


@pytest.mark.parametrize("spec", [{"leaseTransitions": 2**31 - 1}, {"leaseTransitions": -1}, None])
def test_lease_with_an_edited_count_or_no_spec_is_taken(spec: Json | None) -> None:
    """The API server refuses a count beyond 32 bits, and there would be no leader any more."""

    async def scenario() -> Json:
        store = Store()
        store.write({})
        assert store.lease is not None
        store.lease["spec"] = spec
        operator = contender(store, "we")
        operator.start()
        await until(operator.leadership.leads, timeout_s=10)
        assert store.lease is not None
        return dict(store.lease["spec"])

    assert virtual_time.run(scenario())["leaseTransitions"] == 1


def test_lease_edited_to_a_short_duration_never_has_two_holders() -> None:
    """The holder stays active for longer than that without a renewal, and writes the duration again."""

    async def scenario() -> int:
        store = Store()
        first, second = contender(store, "first"), contender(store, "second")
        first.start()
        await until(first.leadership.leads, timeout_s=1)
        second.start()
        await asyncio.sleep(5)
        first.server.cut = True
        store.write({"leaseDurationSeconds": 1})
        while not second.leadership.leads():
            await asyncio.sleep(LOOK_S)
            assert not (first.leadership.leads() and second.leadership.leads())
        store.write({"leaseDurationSeconds": 1})
        await asyncio.sleep(3 * TERMS.period_s)
        assert store.lease is not None
        return int(store.lease["spec"]["leaseDurationSeconds"])

    assert virtual_time.run(scenario()) == TERMS.duration_s
