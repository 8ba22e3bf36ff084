"""Writes to every node of a quorum, each in a closed loop, and prints when each commit was answered.

    python bench/kafka_probe.py --addresses HOST:PORT,HOST:PORT,... --seconds 10

A node that refuses (it doesn't lead) or is gone is asked again after a short pause, so that a new leader's first
commit is seen within milliseconds. No client library decides when to look: the same prober serves our nodes and
Kafka's controllers.
"""

import argparse
import asyncio
import json
import time

import uvloop
from kafka_writes import write_error, write_frame

ANSWER_TIMEOUT_SECONDS = 5.0


async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, frame: bytes) -> int:
    """Error code of one write."""
    writer.write(frame)
    size = int.from_bytes(await reader.readexactly(4), "big")
    return write_error(await reader.readexactly(size))


async def probe(
    address: tuple[str, int], end: float, pause_seconds: float, commits: list[float]
) -> None:
    """One node, until `end` (monotonic)."""
    frame = write_frame("probe", 1)
    writer: asyncio.StreamWriter | None = None
    while time.monotonic() < end:
        try:
            if writer is None:
                reader, writer = await asyncio.open_connection(*address)
            error = await asyncio.wait_for(exchange(reader, writer, frame), ANSWER_TIMEOUT_SECONDS)
        except (OSError, EOFError, TimeoutError):
            if writer is not None:
                writer.close()
                writer = None
            await asyncio.sleep(pause_seconds)
            continue
        if error == 0:
            commits.append(time.time())
        else:
            await asyncio.sleep(pause_seconds)
    if writer is not None:
        writer.close()


async def run(arguments: argparse.Namespace) -> list[float]:
    """All nodes at once; wall-clock times of commits, ascending."""
    commits: list[float] = []
    end = time.monotonic() + arguments.seconds
    addresses = [
        (host, int(port))
        for host, port in (a.rsplit(":", 1) for a in arguments.addresses.split(","))
    ]
    tasks = [asyncio.create_task(probe(a, end, arguments.pause, commits)) for a in addresses]
    await asyncio.wait(tasks, timeout=arguments.seconds + 1)
    for task in tasks:
        task.cancel()
    return sorted(commits)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--addresses", required=True)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--pause", type=float, default=0.002)
    print(json.dumps({"commits": uvloop.run(run(parser.parse_args()))}))
