"""Sharing of confirmations by linearizable reads, and cancelled reads."""

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from quorum_node.raft.errors import RaftError
from quorum_node.server.observing.metrics import Metrics
from quorum_node.server.partition.applier import Applier
from quorum_node.server.partition.reads import ReadQueue
from support.applier_port import RecordingPort

pytestmark = pytest.mark.requirement("K650-03")


class Core:
    """The requests of the queue."""

    def __init__(self) -> None:
        self.requested: list[int] = []
        self.abandoned: list[int] = []


class EmptyLog:
    """Nothing is committed."""

    def read(self, start_offset: int, max_bytes: int, limit_offset: int) -> bytes:
        return b""


class Answers:
    """Collects the results of readers, by name."""

    def __init__(self) -> None:
        self.told: list[tuple[str, RaftError | None]] = []

    def of(self, name: str) -> Callable[[RaftError | None], None]:
        return lambda error: self.told.append((name, error))


def scenario(test: Callable[[ReadQueue, Core, Answers], Coroutine[None, None, None]]) -> None:
    async def body() -> None:
        core, metrics = Core(), Metrics().partition(0)
        applier = Applier(EmptyLog(), RecordingPort(), metrics)
        queue = ReadQueue(core.requested.append, core.abandoned.append, applier, metrics)
        await test(queue, core, Answers())

    asyncio.run(body())


async def turn() -> None:
    """Let callbacks of the loop run."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_reads_share_a_confirmation_only_if_it_starts_after_them() -> None:
    async def test(queue: ReadQueue, core: Core, answers: Answers) -> None:
        queue.submit(answers.of("a"))
        queue.submit(answers.of("b"))
        await turn()
        assert core.requested == [1]
        queue.submit(answers.of("late"))
        await turn()
        assert core.requested == [1]
        queue.confirmed(1, 0)
        assert answers.told == [("a", None), ("b", None)]
        await turn()
        assert core.requested == [1, 2]
        queue.failed(2, RaftError.LEADER_NOT_AVAILABLE)
        assert answers.told[2:] == [("late", RaftError.LEADER_NOT_AVAILABLE)]

    scenario(test)


def test_confirmation_without_waiting_reads_is_cancelled() -> None:
    async def test(queue: ReadQueue, core: Core, answers: Answers) -> None:
        first, second = queue.submit(answers.of("a")), queue.submit(answers.of("b"))
        await turn()
        next_one = queue.submit(answers.of("c"))
        queue.cancel(first)
        assert core.abandoned == []
        queue.cancel(second)
        assert core.abandoned == [1]
        await turn()
        assert len(core.requested) == 2, "the next one does not wait behind it"
        queue.confirmed(core.requested[0], 0)
        assert answers.told == [], "too late"
        queue.cancel(next_one)
        await turn()
        assert len(core.requested) == 2

    scenario(test)


def test_read_cancelled_before_its_confirmation_starts_none() -> None:
    async def test(queue: ReadQueue, core: Core, answers: Answers) -> None:
        queue.cancel(queue.submit(answers.of("gone")))
        await turn()
        assert core.requested == []
        kept, left = queue.submit(answers.of("kept")), queue.submit(answers.of("left"))
        await turn()
        queue.cancel(left)
        queue.confirmed(core.requested[-1], 0)
        assert answers.told == [("kept", None)]
        queue.cancel(kept)
        assert core.abandoned == []

    scenario(test)
