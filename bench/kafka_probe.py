"""Writes to every node of a quorum, each in a closed loop: prints "ready" after the first commit, and at the end writes a file with the time
of each answer.

    python bench/kafka_probe.py --addresses HOST:PORT,HOST:PORT,... --seconds 10 --output FILE

A node that refuses (it does not lead) or is down is tried again after a short pause, so that a new leader's first commit is noticed
within milliseconds. No client library is used, because it would choose the retry times: the same prober runs against our nodes and
Kafka's controllers.
"""

import argparse
import asyncio
import json
import ssl
import time
from pathlib import Path

import uvloop
from kafka_load import context_of
from kafka_writes import write_error, write_frame

ANSWER_TIMEOUT_SECONDS = 5.0


async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, frame: bytes) -> int:
    """Send one write; returns its error code."""
    writer.write(frame)
    size = int.from_bytes(await reader.readexactly(4), "big")
    return write_error(await reader.readexactly(size))


class Prober:
    """State shared by the loops of all nodes."""

    def __init__(
        self, seconds: float, pause_seconds: float, tls: ssl.SSLContext | None = None
    ) -> None:
        self.seconds = seconds
        self.pause_seconds = pause_seconds
        self.tls = tls
        self.end = float("inf")
        self.commits: list[float] = []

    def committed(self) -> None:
        """Count a commit. The first one is announced and starts the measurement."""
        if not self.commits:
            self.end = time.monotonic() + self.seconds
            print("ready", flush=True)
        self.commits.append(time.time())

    async def probe(self, address: tuple[str, int]) -> None:
        """Write to one node until the end."""
        frame = write_frame("probe", 1)
        writer: asyncio.StreamWriter | None = None
        while time.monotonic() < self.end:
            try:
                if writer is None:
                    reader, writer = await asyncio.open_connection(*address, ssl=self.tls)
                answer = exchange(reader, writer, frame)
                error = await asyncio.wait_for(answer, ANSWER_TIMEOUT_SECONDS)
            except (OSError, EOFError, TimeoutError):
                if writer is not None:
                    writer.close()
                    writer = None
                await asyncio.sleep(self.pause_seconds)
                continue
            if error == 0:
                self.committed()
            else:
                await asyncio.sleep(self.pause_seconds)
        if writer is not None:
            writer.close()


async def run(arguments: argparse.Namespace) -> list[float]:
    """Write to all nodes; returns the wall-clock times of commits, ascending."""
    prober = Prober(arguments.seconds, arguments.pause, context_of(arguments.tls))
    pairs = (text.rsplit(":", 1) for text in arguments.addresses.split(","))
    tasks = [asyncio.create_task(prober.probe((host, int(port)))) for host, port in pairs]
    while time.monotonic() < prober.end + 1 and not all(task.done() for task in tasks):
        await asyncio.wait(tasks, timeout=0.1)
    for task in tasks:  # the task of a frozen node is still waiting
        task.cancel()
    return sorted(prober.commits)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--addresses", required=True)
    parser.add_argument("--seconds", type=float, default=5.0, help="from the first commit on")
    parser.add_argument("--pause", type=float, default=0.002)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--tls", type=Path, help="folder with a certificate; default: clear text")
    options = parser.parse_args()
    options.output.write_text(json.dumps({"commits": uvloop.run(run(options))}))
