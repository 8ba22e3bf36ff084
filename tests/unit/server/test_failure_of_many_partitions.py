"""A broker with thousands of partitions fails on a real node, log and disk: how many appends, and how long (KV3-02)."""

import asyncio
import gc
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from quorum_node.protocol.create_topics import CreateTopicsRequest
from quorum_node.protocol.errors import ErrorCode
from support.broker_requests import heartbeat, registration
from support.controlled_cluster import assigned
from support.hosted_moves import Moves, moving_partitions

pytestmark = [pytest.mark.slow, pytest.mark.requirement("KV3-02")]

DOCUMENT_SECONDS = 40.0
"""The replication design V3 for 10 000 partitions: a write to ZooKeeper for each, 4 ms long."""
PARTITIONS_A_TOPIC = 1_000


@dataclass
class Failure:
    """What it took until every partition had another leader."""

    partitions: int
    seconds: float
    cpu_seconds: float
    appends: float


async def fail(moves: Moves, partitions: int) -> Failure:
    """Broker 51 leads all of them, with 52 and 53 in the ISR; it requests to be fenced."""
    epochs = {}
    for broker in (51, 52, 53):
        epochs[broker] = (await moves.ask(registration(broker, cluster_id="c"))).broker_epoch
    for number in range(partitions // PARTITIONS_A_TOPIC):
        for broker, epoch in epochs.items():  # it takes longer than a lease
            assert not (await moves.ask(heartbeat(broker, epoch, 10**6))).is_fenced
        topic = assigned(f"many-{number}", *[(51, 52, 53)] * PARTITIONS_A_TOPIC)
        answer = await moves.ask(CreateTopicsRequest(topics=(topic,), timeout_ms=60_000))
        assert answer.topics[0].error_code == ErrorCode.NONE
    host = moves.node.hosted.first
    assert host.applier.image.topics.led_count(51) == partitions
    proposals = moves.node.metrics.partition(0).labelled["proposals"]
    gc.collect()  # of what came before; a collection on the way counts
    before, began, cpu_began = (
        proposals.get("committed", 0),
        time.perf_counter(),
        time.process_time(),
    )
    assert (await moves.ask(heartbeat(51, epochs[51], 10**6, want_fence=True))).is_fenced
    beats = 0
    while host.applier.image.topics.led_count(52) < partitions:
        assert time.process_time() - cpu_began < DOCUMENT_SECONDS
        await asyncio.sleep(0.001)
        if (time.perf_counter() - began) // 1 > beats:
            beats += 1
            for broker in (52, 53):
                await moves.ask(heartbeat(broker, epochs[broker], 10**6))
    seconds = time.perf_counter() - began
    cpu_seconds = time.process_time() - cpu_began
    return Failure(partitions, seconds, cpu_seconds, proposals["committed"] - before)


async def test_ten_thousand_partitions_get_new_leaders_far_below_the_time_limit_of_the_document(
    tmp_path: Path,
) -> None:
    async with moving_partitions(tmp_path) as moves:
        found = await fail(moves, 10_000)
        print(found)
        # Of the CPU: how long it takes says how much else the machine does.
        assert found.cpu_seconds < DOCUMENT_SECONDS / 5, "1 to 2 s"
        assert found.appends <= 6, "that of the fenced broker, and a few thousand partitions each"


async def test_failover_cost_is_linear_in_the_number_of_partitions(tmp_path: Path) -> None:
    """To 100 000: five times as many partitions as before, five times as many appends and as much CPU."""
    measured: list[Failure] = []
    for partitions in (20_000, 100_000):
        async with moving_partitions(tmp_path / str(partitions)) as moves:
            measured.append(await fail(moves, partitions))
    few, many = measured
    print(few, many)
    assert many.appends <= 5 * few.appends
    assert many.cpu_seconds < DOCUMENT_SECONDS
    assert many.cpu_seconds < 15 * few.cpu_seconds, "linear is 5, quadratic 25"
