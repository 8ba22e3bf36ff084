"""The threads of log directories: how their results are taken, and how they end (broker/directory_threads.py)."""

import asyncio
import threading
import time
from uuid import UUID

import pytest

from quorum_node.server.broker.directory_threads import THREADS, TURN_SECONDS, DirectoryThreads
from support.awaited_threads import when_waited_for

A, B = UUID(int=1), UUID(int=2)


async def test_slow_results_are_taken_one_in_a_turn_also_after_a_pause_of_the_loop() -> None:
    now_s = 0.0
    taken: list[int] = []
    turn = 0

    def done(result: object) -> None:
        nonlocal now_s
        now_s += 1.5 * TURN_SECONDS
        taken.append(turn)

    threads = DirectoryThreads(lambda: now_s)
    for _ in range(THREADS):
        threads.run(A, lambda: None, done)
    while threads._ended.qsize() < THREADS:
        time.sleep(0.001)  # noqa: ASYNC251 - the loop is occupied meanwhile
    while threads.unfinished:
        await asyncio.sleep(0)
        turn += 1
    assert len(set(taken)) == len(taken) == THREADS
    threads.close()


async def test_end_begins_no_work_of_one_directory_while_it_waits_for_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads = DirectoryThreads()
    closing, begun = threading.Event(), threading.Event()
    when_waited_for(monkeypatch, closing.set)
    threads.run(A, lambda: closing.wait(60) and begun.wait(0.5), lambda _: None)
    for _ in range(THREADS):
        threads.run(B, lambda: closing.wait(60), lambda _: None)
    threads.run(B, begun.set, lambda _: None)
    threads.close()
    assert not begun.is_set()
