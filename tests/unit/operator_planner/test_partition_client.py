"""The operator's planner and client on a real node: a reassignment from its first step to its end."""

from pathlib import Path

import pytest

from quorum_operator.admin_call import Answer
from quorum_operator.partition_client import PartitionClient
from quorum_operator.planner.reassignment import (
    Await,
    BeginMoves,
    CancelMoves,
    Cluster,
    Finished,
    Step,
    Target,
    Wanted,
    plan,
    tally,
)
from quorum_operator.reassignment_crd import ReassignmentPhase
from support.hosted_moves import moving_partitions

TOKEN = "secret"
IPS = ["10.0.0.1"]
TARGETS = (Target("t", 0, (3, 4)), Target("t", 1, (4, 1)))


async def look(client: PartitionClient, wanted: Wanted) -> Cluster:
    seen = await client.describe(IPS, TOKEN, wanted.targets)
    assert isinstance(seen, Cluster), seen
    return seen


async def step(client: PartitionClient, wanted: Wanted) -> Step:
    """One round of the operator."""
    seen = await look(client, wanted)
    planned = plan(wanted, seen, tally(wanted, seen))
    if isinstance(planned, BeginMoves | CancelMoves):
        assert (await client.change(IPS, TOKEN, planned)).done
    return planned


@pytest.mark.requirement("OP-08")
async def test_partitions_are_moved_one_after_the_other(tmp_path: Path) -> None:
    async with moving_partitions(tmp_path, token=TOKEN) as moves:
        client, wanted = PartitionClient(moves.client), Wanted(TARGETS, 1)
        assert isinstance(await step(client, wanted), BeginMoves)
        assert (await look(client, wanted)).moving == 1
        assert isinstance(await step(client, wanted), Await)
        await moves.catch_up(0, 1, 2, 3, 4)
        assert isinstance(await step(client, wanted), BeginMoves)
        assert tally(wanted, await look(client, wanted)).done == TARGETS[:1]
        await moves.catch_up(1, 1, 2, 4)
        last = await step(client, wanted)
        assert isinstance(last, Finished)
        assert last.phase is ReassignmentPhase.COMPLETED
        partitions = (await look(client, wanted)).partitions
        assert {each.replicas for each in partitions.values()} == {(3, 4), (4, 1)}


@pytest.mark.requirement("OP-08")
async def test_stale_reassignment_step_has_no_effect(tmp_path: Path) -> None:
    """Two operators decided on the same; or one was asleep between its look and its call."""
    async with moving_partitions(tmp_path, token=TOKEN) as moves:
        client, wanted = PartitionClient(moves.client), Wanted(TARGETS[:1], 1)
        seen = await look(client, wanted)
        late = plan(wanted, seen, tally(wanted, seen))
        assert isinstance(late, BeginMoves)
        await step(client, wanted)
        answer = await client.change(IPS, TOKEN, late)
        assert (answer.done, answer.code) == (False, "STALE_REPLICAS")
        cancelled = Wanted(wanted.targets, 1, cancel=True)
        assert isinstance(await step(client, cancelled), CancelMoves)
        answer = await client.change(IPS, TOKEN, BeginMoves(late.changes, 1, ""))
        assert answer.done, "the replicas have changed"
        assert isinstance(await step(client, cancelled), CancelMoves)
        last = await step(client, cancelled)
        assert isinstance(last, Finished)
        assert last.phase is ReassignmentPhase.CANCELLED
        assert (await look(client, wanted)).partitions["t", 0].replicas == (1, 2)


async def test_failed_describe_returns_the_reason(tmp_path: Path) -> None:
    async with moving_partitions(tmp_path, token=TOKEN) as moves:
        client = PartitionClient(moves.client)
        refused = await client.describe(IPS, "wrong", TARGETS)
        assert isinstance(refused, Answer)
        assert refused.code == "UNAUTHORIZED"
        no_pod = await client.describe([], TOKEN, TARGETS)
        assert no_pod == Answer(False, "NO_ANSWER", "no pod of the quorum is running")
        moves.node.hosted.request_shutdown()
        gone = await client.describe(IPS, TOKEN, TARGETS)
        assert isinstance(gone, Answer)
