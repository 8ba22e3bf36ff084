"""A write waits for the end of an election or a handover, and not longer than its caller."""

import asyncio
import contextlib
from types import SimpleNamespace
from typing import Any

import pytest

from quorum_node.api import ErrorCode
from quorum_node.raft.messages import NO_LEADER
from quorum_node.server.admin.leader import await_leader
from quorum_node.server.admin.problems import ApiProblem
from support import virtual_time


class Replica:
    """Node 1, which sees these leaders one after the other; the last one stays. `looks`: number of descriptions."""

    scheme = "https"

    def __init__(self, *leader_ids: int) -> None:
        self.leader_ids = list(leader_ids)
        self.looks = 0
        self.change = asyncio.Event()
        self.waiting = 0

    def describe(self) -> SimpleNamespace:
        found = self.leader_ids[0]
        self.looks += 1
        return SimpleNamespace(leader_id=found, leader_endpoint=None, voters=(), witness=False)

    def is_leader(self) -> bool:
        return self.leader_ids[0] == 1

    async def next_role(self, timeout_seconds: float) -> None:
        if len(self.leader_ids) > 1:
            asyncio.get_running_loop().call_soon(self._change)
        self.waiting += 1
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_seconds):
                    await self.change.wait()
        finally:
            self.waiting -= 1

    def _change(self) -> None:
        self.leader_ids.pop(0)
        self.change.set()
        self.change.clear()


def waited(timeout_ms: int, *leader_ids: int) -> None:
    replica = Replica(*leader_ids)
    view: Any = replica
    try:
        asyncio.run(await_leader(view, timeout_ms))
    finally:
        assert replica.looks <= len(leader_ids) + 2, "it waits for changes, and does not poll"
        assert replica.waiting == 0, "nobody is left waiting"


def test_write_waits_until_this_node_leads() -> None:
    waited(5000, NO_LEADER, NO_LEADER, 1)


def test_write_waits_until_another_node_leads() -> None:
    with pytest.raises(ApiProblem) as other:
        waited(5000, NO_LEADER, NO_LEADER, 2)
    assert other.value.code is ErrorCode.LEADER_IS_STOCK, "it is named, here without an admin API"


@pytest.mark.parametrize(("timeout_ms", "most_seconds"), [(20, 0.5), (60_000, 5.0)])
def test_quorum_without_a_leader_is_reported_in_time(timeout_ms: int, most_seconds: float) -> None:
    async def seconds() -> float:
        view: Any = Replica(NO_LEADER)
        with pytest.raises(ApiProblem) as leaderless:
            await await_leader(view, timeout_ms)
        assert leaderless.value.code is ErrorCode.NO_LEADER
        assert view.waiting == 0, "nobody is left waiting"
        return asyncio.get_running_loop().time()

    assert virtual_time.run(seconds()) < most_seconds
