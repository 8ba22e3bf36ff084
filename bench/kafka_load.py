"""The load generator for Kafka-protocol nodes: a closed loop of config writes on one uvloop thread.

    python bench/kafka_load.py --address HOST:PORT --clients 100 --seconds 5 [--tls FOLDER]

Requests are encoded once and only get a new correlation id; of an answer only the correlation id and the error code are read. If there
are more clients than connections, several clients share a connection by pipelining. Prints one JSON object, which includes its own CPU
seconds; bench/null_server.py measures its cost without a server.
"""

import argparse
import asyncio
import json
import resource
import ssl
import struct
import time
from collections import deque
from functools import partial
from pathlib import Path
from typing import cast

import uvloop
from kafka_writes import write_frame

# size 4, correlation id 4, header tags 1, throttle 4, array length 1: then the error code of the only resource
_ANSWER = struct.Struct(">ii6xh")
_CORRELATION_ID = struct.Struct(">i")


class Load:
    """State shared by all connections."""

    def __init__(self) -> None:
        self.measuring = False
        self.stopped = False
        self.latencies: list[float] = []
        self.failures = 0
        self.errors: dict[int, int] = {}


class Connection(asyncio.Protocol):
    """Some clients on one connection, each with one request in flight."""

    def __init__(self, load: Load, templates: list[bytes]) -> None:
        self.load = load
        self.templates = templates
        self.buffer = b""
        self.correlation_id = 0
        self.in_flight: deque[tuple[int, int, float, bool]] = deque()
        self.idle = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio.Transport
        self.transport = cast(asyncio.Transport, transport)
        now = time.perf_counter()
        self.transport.write(
            b"".join(self.request(client, now) for client in range(len(self.templates)))
        )

    def request(self, client: int, now: float) -> bytes:
        self.correlation_id += 1
        self.in_flight.append((self.correlation_id, client, now, self.load.measuring))
        template = self.templates[client]
        return template[:8] + _CORRELATION_ID.pack(self.correlation_id) + template[12:]

    def data_received(self, data: bytes) -> None:
        if self.buffer:
            data = self.buffer + data
        load, position, total, requests = self.load, 0, len(data), []
        now = time.perf_counter()
        while total - position >= 16:
            size, correlation_id, error = _ANSWER.unpack_from(data, position)
            if total - position < size + 4:
                break
            position += size + 4
            expected, client, sent, counted = self.in_flight.popleft()
            if expected != correlation_id:
                raise AssertionError(f"answer {correlation_id} where {expected} is due")
            if error:
                load.failures += 1
                load.errors[error] = load.errors.get(error, 0) + 1
            elif counted:
                load.latencies.append(now - sent)
            if not load.stopped:
                requests.append(self.request(client, now))
        self.buffer = data[position:]
        if requests:
            self.transport.write(requests[0] if len(requests) == 1 else b"".join(requests))
        elif load.stopped and not self.in_flight and not self.idle.done():
            self.idle.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        self.load.failures += len(self.in_flight)
        if not self.idle.done():
            self.idle.set_result(None)


async def run(arguments: argparse.Namespace) -> dict[str, object]:
    """Open the connections, warm up, measure, and wait for requests in flight."""
    host, _, port = arguments.address.rpartition(":")
    load, loop, tls = Load(), asyncio.get_running_loop(), context_of(arguments.tls)
    count = min(arguments.clients, arguments.connections)
    connections = []
    for index in range(count):
        templates = [
            write_frame(f"bench-{client}", arguments.value_bytes)
            for client in range(index, arguments.clients, count)
        ]
        factory = partial(Connection, load, templates)
        _, made = await loop.create_connection(factory, host, int(port), ssl=tls)
        connections.append(made)
    await asyncio.sleep(arguments.warmup)
    cpu, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    load.measuring = True
    await asyncio.sleep(arguments.seconds)
    load.measuring = False
    elapsed, cpu_end = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF)
    load.stopped = True
    await asyncio.wait([connection.idle for connection in connections], timeout=10)
    return {
        **summary(load.latencies, elapsed),
        "failures": load.failures,
        "errors": load.errors,
        "cpu_seconds": cpu_end.ru_utime + cpu_end.ru_stime - cpu.ru_utime - cpu.ru_stime,
    }


def context_of(folder: Path | None) -> ssl.SSLContext | None:
    """With the certificate in a folder (`tls.crt`, `tls.key`, `ca.crt`); None for clear text."""
    if folder is None:
        return None
    context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    return context


def summary(latencies: list[float], elapsed: float) -> dict[str, object]:
    """The result, with the same keys as the other generators."""
    ordered = sorted(latencies)

    def at(share: float) -> float:
        if not ordered:
            return -1.0
        return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1e3, 3)

    return {
        "count": len(ordered),
        "per_second": round(len(ordered) / elapsed, 1),
        "p50_ms": at(0.5),
        "p90_ms": at(0.9),
        "p99_ms": at(0.99),
        "max_ms": at(1.0),
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--address", required=True)
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--connections", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--warmup", type=float, default=1.0)
    parser.add_argument("--value-bytes", type=int, default=256)
    parser.add_argument("--tls", type=Path, help="folder with a certificate; default: clear text")
    print(json.dumps(uvloop.run(run(parser.parse_args()))))


if __name__ == "__main__":
    main()
