"""Coalescing of appends: all or nothing, in order, a lone client never waits."""

import asyncio
from collections.abc import Callable, Coroutine

import pytest

from quorum_node.raft.errors import RaftError
from quorum_node.server.observing.metrics import Metrics
from quorum_node.server.partition.appends import MAX_BATCHES_IN_FLIGHT, AppendQueue
from quorum_node.server.partition.port import MAX_BATCH_BYTES, Committed, TooLarge

Proposals = list[tuple[int, tuple[bytes, ...]]]


def scenario(test: Callable[[AppendQueue, Proposals], Coroutine[None, None, None]]) -> None:
    async def body() -> None:
        proposals: Proposals = []
        queue = AppendQueue(
            lambda number, values: proposals.append((number, values)),
            lambda append, outcome: None,
            Metrics().partition(0),
        )
        await test(queue, proposals)

    asyncio.run(body())


async def turn() -> None:
    """Let callbacks of the loop run."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_submit_calls_no_callback_synchronously() -> None:
    called: list[str] = []
    queue = AppendQueue(
        lambda number, values: called.append("propose"),
        lambda append, outcome: called.append("settle"),
        Metrics().partition(0),
    )
    append = queue.submit((b"a",), lambda outcome: called.append("done"))
    assert append is not None
    assert append.values == (b"a",)
    assert queue.submit((b"x" * (MAX_BATCH_BYTES + 1),), lambda outcome: None) is None
    assert called == []
    await turn()
    assert called == ["propose"]
    queue.committed(1, 0, 1)
    assert called == ["propose", "settle", "done"]


@pytest.mark.requirement("K595-06")
def test_appends_of_one_loop_turn_share_a_batch_with_individual_offsets() -> None:
    async def test(queue: AppendQueue, proposals: Proposals) -> None:
        outcomes: list[object] = []
        queue.submit((b"a",), outcomes.append)
        queue.submit((b"b", b"c"), outcomes.append)
        await turn()
        assert proposals == [(1, (b"a", b"b", b"c"))]
        queue.committed(1, 10, 4)
        assert outcomes == [Committed(10, 11, 4), Committed(11, 13, 4)]

    scenario(test)


def test_batches_in_flight_are_bounded_and_later_appends_are_batched() -> None:
    async def test(queue: AppendQueue, proposals: Proposals) -> None:
        outcomes: list[object] = []
        for number in range(10):
            queue.submit((b"%d" % number,), outcomes.append)
            await turn()
        assert len(proposals) == MAX_BATCHES_IN_FLIGHT
        queue.committed(1, 0, 1)
        await turn()
        assert proposals[-1][1] == tuple(b"%d" % n for n in range(MAX_BATCHES_IN_FLIGHT, 10))
        for number, values in proposals[1:]:
            queue.committed(number, 100 * number, 1)
            assert values
        assert len(outcomes) == 10

    scenario(test)


def test_append_is_never_split_over_batches() -> None:
    async def test(queue: AppendQueue, proposals: Proposals) -> None:
        half = bytes(MAX_BATCH_BYTES // 2 + 1)
        for _ in range(3):
            queue.submit((half,), lambda outcome: None)
        await turn()
        assert [len(values) for _, values in proposals] == [1] * MAX_BATCHES_IN_FLIGHT

    scenario(test)


def test_append_larger_than_a_batch_is_rejected_as_a_whole() -> None:
    async def test(queue: AppendQueue, proposals: Proposals) -> None:
        outcomes: list[object] = []
        queue.submit((bytes(MAX_BATCH_BYTES), b"x"), outcomes.append)
        await turn()
        assert outcomes == [TooLarge(MAX_BATCH_BYTES + 1)]
        assert proposals == []

    scenario(test)


@pytest.mark.parametrize("error", [RaftError.NOT_QUORUM_LEADER, RaftError.LEADERSHIP_LOST])
def test_failed_batch_fails_every_append_in_it(error: RaftError) -> None:
    async def test(queue: AppendQueue, proposals: Proposals) -> None:
        outcomes: list[object] = []
        queue.submit((b"a",), outcomes.append)
        queue.submit((b"b",), outcomes.append)
        await turn()
        queue.failed(1, error)
        assert outcomes == [error, error]

    scenario(test)
