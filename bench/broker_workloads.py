"""Workloads of a controller of brokers: creation of topics, failures of brokers, failures of the controller.

Owns the workloads, which are the same for every system, and how each figure is measured. All brokers are light ones
(`light_brokers.py`). Their process also measures, and reports its CPU time.
"""

import asyncio
import contextlib
import gc
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from contender import resident_mb
from followed_log import FollowedLog, PartitionStates
from kafka_client import Address, await_leader
from kafka_controllers import KafkaCluster, live_heap_mb
from light_brokers import (
    APPLIED_ALL,
    FIRST_BROKER_ID,
    HEARTBEAT_VERSION,
    SESSION_SECONDS,
    Connection,
    LightBroker,
    LightBrokers,
)
from our_nodes import OurCluster
from time_limits import within
from topic_creation import (
    CREATE_VERSION,
    assigned_topics,
    check_created,
    create_for,
    frame,
    new_topics,
)

from quorum_node.protocol.api import Api
from quorum_node.protocol.apis import BROKER_HEARTBEAT, CREATE_TOPICS
from quorum_node.protocol.broker_registration import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from quorum_node.protocol.create_topics import CreateTopicsResponse
from quorum_node.schema.schema import Message

Controllers = OurCluster | KafkaCluster
BROKERS = 100
FEW_BROKERS = 6
BATCHES = (1, 100)
SETTLE_SECONDS = 120.0
PROBE_PAUSE_SECONDS = 0.002
PROBE_LEAD_SECONDS = 0.7
FAILOVER_SECONDS = 60.0
IDLE_CPU_SHARE = 0.5
"""Share of one core, for all controllers together with the brokers' heartbeats, while no broker has to catch up."""
IDLE_LOOK_SECONDS = 0.5
IDLE_SECONDS = 30.0


async def creation(cluster: Controllers, seconds: float) -> dict[str, Any]:
    """Rates of topic creation with one client; each topic has one partition with three replicas."""
    found: dict[str, Any] = {}
    async with LightBrokers(cluster.addresses(), cluster.cluster_id, FEW_BROKERS):
        address = cluster.addresses()[cluster.leader()]
        for batch in BATCHES:
            own, theirs = time.process_time(), cluster.cpu_seconds()
            found[str(batch)] = await asyncio.to_thread(create_for, address, batch, seconds, 3.0)
            found[str(batch)]["client_cpu_s"] = time.process_time() - own
            found[str(batch)]["servers_cpu_s"] = cluster.cpu_seconds() - theirs
    return found


async def failures(cluster: Controllers, partitions: int, kills: int) -> dict[str, Any]:
    """Two brokers with a replica of every partition fail one after the other, then controllers."""
    address = cluster.addresses()[cluster.leader()]
    # A garbage collection here would be measured as a pause of the broker: it runs only outside the
    # measurement.
    gc.set_threshold(1_000_000)
    async with LightBrokers(cluster.addresses(), cluster.cluster_id, BROKERS) as brokers:
        async with following(cluster) as states:
            empty_mb = memory_mb(cluster)
            seconds = await fill(address, partitions)
            await everything_is_known(states, partitions)
            found: dict[str, Any] = {
                "created_per_second": partitions / seconds,
                "grown_mb": memory_mb(cluster) - empty_mb,
                "silent": await fail_silently(brokers, states),
                "asked": await fail_at_once(brokers, states),
            }
        names = (f"made-after-{number}" for number in range(1 << 30))
        found["failovers"] = [await failover(cluster, brokers, names) for _ in range(kills)]
    return found


async def fill(address: Address, partitions: int) -> float:
    """Create the topics, a thousand per request; returns the duration in seconds."""
    frames = [frame(request) for request in assigned_topics(partitions, BROKERS)]
    connection = await Connection.open(address)
    began = time.perf_counter()
    for each in frames:
        check_created(await connection.exchange(each))
    seconds = time.perf_counter() - began
    connection.close()
    return seconds


async def everything_is_known(states: PartitionStates, partitions: int) -> None:
    """Wait until the log contains that many partitions and no more records arrive."""
    async with within(SETTLE_SECONDS, f"{partitions} partitions in the log"):
        while True:
            await asyncio.sleep(0.1)
            if states.log.is_quiet and states.catch_up() >= partitions:
                return


@contextlib.asynccontextmanager
async def following(cluster: Controllers) -> AsyncIterator[PartitionStates]:
    """Follow the log from its current end, as long as the leader stays the same."""
    index, quorum = await_leader(cluster.addresses())
    log = FollowedLog(
        cluster.addresses()[index],
        cluster.cluster_id,
        quorum.leader_epoch,
        max(voter.log_end_offset for voter in quorum.current_voters),
    )
    task = asyncio.create_task(log.follow())
    try:
        yield PartitionStates(log)
        if task.done():
            task.result()
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await task


async def fail_silently(brokers: LightBrokers, states: PartitionStates) -> dict[str, Any]:
    """The first broker sends no more heartbeats. The measurement starts when its lease expires: one session timeout after its last answer."""
    gc.collect()
    last_answer = await brokers.by_id[FIRST_BROKER_ID].fall_silent()
    began, cpu = time.perf_counter(), time.process_time()
    await asyncio.sleep(SESSION_SECONDS - 0.5)
    share = (time.process_time() - cpu) / (time.perf_counter() - began)
    found = await measured(brokers, states, FIRST_BROKER_ID, last_answer + SESSION_SECONDS)
    return {**found, "idle_brokers_cpu_share": share}


async def fail_at_once(brokers: LightBrokers, states: PartitionStates) -> dict[str, Any]:
    """The second broker asks to be fenced. The measurement starts with its request."""
    gc.collect()
    second = FIRST_BROKER_ID + 1
    return await measured(brokers, states, second, await brokers.by_id[second].ask_to_be_fenced())


async def measured(
    brokers: LightBrokers, states: PartitionStates, failed: int, start: float
) -> dict[str, Any]:
    """Duration from `start` until every partition of the broker has, committed, a leader and an ISR without the broker."""
    settled = await states.settled(failed, SETTLE_SECONDS)
    return {
        "partitions": settled.affected,
        "seconds": settled.settled_at - start,
        "fenced_seconds": settled.fenced_at - start,
        "heartbeat_ms": brokers.slowest_ms(start, settled.settled_at),
    }


@dataclass
class Probe:
    """Sends the same request to every controller repeatedly, and records when each of them succeeded."""

    addresses: list[Address]
    api: Api
    version: int
    request: Callable[[], Message]
    accepts: Callable[[Message], bool]
    done: list[tuple[float, int]] = field(default_factory=list)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def start(self) -> None:
        """Start sending."""
        self._tasks = [asyncio.create_task(self._ask(i)) for i in range(len(self.addresses))]

    async def stop(self) -> None:
        """Stop sending."""
        for task in self._tasks:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def first_after(self, moment: float, without: int) -> float:
        """Time of the first success of another controller than `without`."""
        while True:
            for at, index in self.done:
                if at > moment and index != without:
                    return at
            self._news.clear()
            await self._news.wait()

    async def _ask(self, index: int) -> None:
        connection: Connection | None = None
        while True:
            accepted = False
            try:
                connection = connection or await Connection.open(self.addresses[index])
                answer = await connection.ask(self.api, self.version, self.request())
                accepted = self.accepts(answer)
            except (OSError, EOFError):
                connection = None
            if accepted:
                self.done.append((time.perf_counter(), index))
                self._news.set()
            await asyncio.sleep(PROBE_PAUSE_SECONDS)


async def failover(
    cluster: Controllers, brokers: LightBrokers, names: Iterator[str]
) -> dict[str, float]:
    """Time from kill -9 of the active controller until another one creates a topic, and until it answers a heartbeat."""
    creating = Probe(
        cluster.addresses(),
        CREATE_TOPICS,
        CREATE_VERSION,
        lambda: new_topics([next(names)]),
        lambda answer: isinstance(answer, CreateTopicsResponse) and not answer.topics[0].error_code,
    )
    beating = heartbeats(cluster, brokers.by_id[FIRST_BROKER_ID + BROKERS - 1])
    await everything_is_idle(cluster)
    leader = await asyncio.to_thread(cluster.leader)
    probes = (creating, beating)
    for probe in probes:
        probe.start()
    await asyncio.sleep(PROBE_LEAD_SECONDS)
    if not all(probe.done for probe in probes):
        raise RuntimeError("the controllers did nothing before one was killed")
    killed = time.perf_counter()
    cluster.signal(leader, signal.SIGKILL)
    async with within(FAILOVER_SECONDS, "another controller"):
        created, beaten = [await probe.first_after(killed, leader) for probe in probes]
    for probe in probes:
        await probe.stop()
    await asyncio.to_thread(cluster.restart, leader)
    await asyncio.to_thread(cluster.await_whole)
    return {"topic_ms": 1e3 * (created - killed), "heartbeat_ms": 1e3 * (beaten - killed)}


async def everything_is_idle(cluster: Controllers) -> None:
    """Wait until the controllers have replayed their logs: a restarted one is no hot standby before.

    After `IDLE_SECONDS` the measurement starts anyway.
    """
    deadline = time.perf_counter() + IDLE_SECONDS
    while (began := time.perf_counter()) < deadline:
        cpu = cluster.cpu_seconds()
        await asyncio.sleep(IDLE_LOOK_SECONDS)
        if cluster.cpu_seconds() - cpu < IDLE_CPU_SHARE * (time.perf_counter() - began):
            return


def heartbeats(cluster: Controllers, broker: LightBroker) -> Probe:
    """Additional heartbeats of that broker."""
    request = BrokerHeartbeatRequest(
        broker_id=broker.id,
        broker_epoch=broker.epoch,
        current_metadata_offset=APPLIED_ALL,
        want_fence=False,
        want_shut_down=False,
    )
    return Probe(
        cluster.addresses(),
        BROKER_HEARTBEAT,
        HEARTBEAT_VERSION,
        lambda: request,
        lambda answer: isinstance(answer, BrokerHeartbeatResponse) and not answer.error_code,
    )


def memory_mb(cluster: Controllers) -> float:
    """Memory of the active controller: resident memory, or the heap of a JVM after a collection."""
    pid = cluster.processes[cluster.leader()].pid
    return live_heap_mb(pid) if isinstance(cluster, KafkaCluster) else resident_mb(pid)
