"""Many observers in one process: each follows the log over its own connection and stores nothing.

    python bench/light_observers.py --address HOST:PORT --count 100 --cluster-id ID

The leader can't distinguish them from real observers (a replica id and UUID that is not a voter, long polls). A hundred complete nodes
would only show that two cores are not sufficient for a hundred processes. Prints `ready` when all have received an answer, and fetches
until its input is closed.
"""

import argparse
import asyncio
import contextlib
import struct
import sys
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import uvloop

from quorum_node.protocol.apis import FETCH
from quorum_node.protocol.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ReplicaState,
)
from quorum_node.protocol.frames import decode_response, encode_request
from quorum_node.records.batches import split_batches
from quorum_node.records.identity import ReplicaKey
from quorum_node.server.wire.partitions import METADATA_TOPIC_ID

FETCH_VERSION = 17
FIRST_ID = 10_000
MAX_BYTES = 1 << 20
_SIZE = struct.Struct(">i")


@dataclass(slots=True)
class Position:
    """Fetch offset and leader epoch of an observer."""

    offset: int = 0
    last_epoch: int = 0
    leader_epoch: int = 0

    def take(self, answer: FetchResponse) -> bool:
        """Advance behind the response; False if it contained only a new leader epoch."""
        partition = answer.responses[0].partitions[0]
        known = partition.current_leader.leader_epoch
        if partition.error_code:
            if known <= self.leader_epoch:
                raise RuntimeError(f"fetch at {self.offset}: error {partition.error_code}")
            self.leader_epoch = known
            return False
        batches, _ = split_batches(partition.records or b"")
        if batches:
            self.offset = batches[-1].header.end_offset
            self.last_epoch = batches[-1].header.leader_epoch
        return True


async def observe(address: str, number: int, cluster_id: str, fetched: asyncio.Event) -> None:
    """Follow the log without end."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=2 * MAX_BYTES)
    key = ReplicaKey(FIRST_ID + number, uuid4())
    position, correlation_id = Position(), 0
    while True:
        request = fetch_request(key, cluster_id, position)
        correlation_id += 1
        writer.write(encode_request(FETCH, FETCH_VERSION, correlation_id, str(key.id), request))
        (size,) = _SIZE.unpack(await reader.readexactly(4))
        answer = decode_response(FETCH, FETCH_VERSION, await reader.readexactly(size))
        assert isinstance(answer, FetchResponse)
        if position.take(answer):
            fetched.set()


def fetch_request(key: ReplicaKey, cluster_id: str, position: Position) -> FetchRequest:
    """The Fetch request of an observer."""
    partition = FetchPartition(
        partition=0,
        current_leader_epoch=position.leader_epoch,
        fetch_offset=position.offset,
        last_fetched_epoch=position.last_epoch,
        partition_max_bytes=MAX_BYTES,
        replica_directory_id=key.uuid,
    )
    return FetchRequest(
        cluster_id=cluster_id,
        replica_state=ReplicaState(replica_id=key.id),
        max_wait_ms=500,
        min_bytes=0,
        max_bytes=MAX_BYTES,
        topics=(FetchTopic(topic_id=METADATA_TOPIC_ID, partitions=(partition,)),),
    )


async def run(arguments: argparse.Namespace) -> None:
    """Run all observers until stdin ends; the first failure ends the process."""
    events = [asyncio.Event() for _ in range(arguments.count)]
    tasks = [
        asyncio.create_task(observe(arguments.address, number, arguments.cluster_id, event))
        for number, event in enumerate(events)
    ]
    failed = asyncio.gather(*tasks)
    await first(failed, asyncio.gather(*(event.wait() for event in events)))
    print("ready", flush=True)
    await first(failed, asyncio.to_thread(sys.stdin.read))
    failed.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await failed


async def first(failed: asyncio.Future[Any], wanted: Awaitable[Any]) -> None:
    """Wait for `wanted`; raises the first exception of the observers."""
    both: list[asyncio.Future[Any]] = [failed, asyncio.ensure_future(wanted)]
    done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    if failed in done:
        failed.result()


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--cluster-id", required=True)
    uvloop.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
