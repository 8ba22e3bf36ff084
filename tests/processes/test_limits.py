"""Limits of both listeners on a real node: what is too much, too slow or too idle is closed, and counted."""

import socket
import struct
import time
from collections.abc import Iterator

import pytest

from quorum_node.protocol.api_versions import ApiVersionsRequest
from quorum_node.protocol.apis import API_VERSIONS
from quorum_node.protocol.frames import encode_request
from support.local_quorum import TOKEN, LocalNode, LocalQuorum, wait_until
from support.one_request import ask

IDLE_SECONDS = 2
LOW = {
    "max.connections.per.ip": "20",
    "max.connections.per.ip.overrides": "127.0.0.9:3",
    "quorum.request.receive.timeout.ms": "1000",
    "connections.max.idle.ms": str(1000 * IDLE_SECONDS),
    "queued.max.request.bytes": str(8 << 20),
}


REQUEST = encode_request(API_VERSIONS, 3, 1, "busy", ApiVersionsRequest(client_software_name="x"))


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalNode]:
    with LocalQuorum(tmp_path_factory.mktemp("limited"), 1, properties=LOW) as quorum:
        quorum.form()
        yield quorum.nodes[1]


def connect(node: LocalNode, port: int, source: str = "127.0.0.1") -> socket.socket:
    connection = socket.create_connection((node.host, port), 10, (source, 0))
    connection.settimeout(10)
    return connection


def ended(connection: socket.socket) -> bool:
    """Whether the node has closed it; waits for nothing."""
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def closed_by(node: LocalNode, limit: str) -> float:
    with connect(node, node.admin_port) as connection:
        connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        text = b"".join(iter(lambda: connection.recv(1 << 16), b"")).decode()
    found = [line for line in text.splitlines() if f'limit="{limit}"' in line]
    return sum(float(line.split()[-1]) for line in found)


def answers(node: LocalNode, source: str = "127.0.0.1") -> bool:
    body = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    return ask((node.host, node.port), API_VERSIONS, 3, body).error_code == 0


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"POST /v1/append HTTP/1.1\r\nContent-Length: 14000000\r\n", b"401"),
        (b"PUT /v1/configs/topic/t/k HTTP/1.1\r\nContent-Length: 5\r\n", b"401"),
        (b"POST /v1/nowhere HTTP/1.1\r\nContent-Length: 9\r\n", b"401"),
        (b"POST /v1/append HTTP/1.1\r\nTransfer-Encoding: chunked\r\n", b"401"),
        (
            b"POST /v1/append HTTP/1.1\r\nContent-Length: 99999999\r\n"
            b"Authorization: Bearer " + TOKEN.encode() + b"\r\n",
            b"413",
        ),
        (
            b"POST /v1/append HTTP/1.1\r\nContent-Length: -1\r\n"
            b"Authorization: Bearer " + TOKEN.encode() + b"\r\n",
            b"400",
        ),
    ],
)
def test_rejection_is_sent_before_the_body_is_read(
    node: LocalNode, head: bytes, status: bytes
) -> None:
    with connect(node, node.admin_port) as connection:
        connection.sendall(head + b"Host: x\r\nContent-Type: application/json\r\n\r\n")
        assert connection.recv(1 << 16).split()[1] == status


@pytest.mark.parametrize("listener", ["controller", "admin"])
def test_connection_that_never_completes_a_request_is_closed(
    node: LocalNode, listener: str
) -> None:
    """A byte now and then does not keep it open."""
    kafka = listener == "controller"
    with connect(node, node.port if kafka else node.admin_port) as connection:
        connection.sendall(struct.pack(">i", 1 << 20) if kafka else b"GET /livez HTTP/1.1\r\nX: ")

        def gone() -> bool:
            if ended(connection):
                return True
            try:
                connection.send(b"a")
            except OSError:
                return True  # closed meanwhile
            return False

        wait_until(gone, "the connection is closed", 60)
    limit = f"{listener} quorum.request.receive.timeout.ms"
    wait_until(lambda: closed_by(node, limit) >= 1, "it is counted", 60)


class Delayed(Exception):
    """No request was sent for so long that the server may treat a connection as idle."""


def test_idle_connection_is_closed_and_a_busy_one_is_not(node: LocalNode) -> None:
    """The busy one lives for much longer than an idle one may. If other load on the machine kept this process from sending
    requests in time, the busy one is idle as well: then the test is repeated.
    """
    while not both_are_judged(node):
        pass
    assert closed_by(node, "controller connections.max.idle.ms") >= 1


def both_are_judged(node: LocalNode) -> bool:
    with connect(node, node.port) as busy, connect(node, node.port) as idle:
        begun = requested_at = time.monotonic()

        def both_judged() -> bool:
            nonlocal requested_at
            if time.monotonic() > requested_at + IDLE_SECONDS / 2:
                raise Delayed
            requested_at = time.monotonic()
            busy.settimeout(10)
            busy.sendall(REQUEST)
            size = int.from_bytes(busy.recv(4, socket.MSG_WAITALL), "big")
            if time.monotonic() > requested_at + IDLE_SECONDS / 2:
                raise Delayed  # The node may have been held up, and found both idle.
            assert size > 0, "the busy connection was closed"
            assert len(busy.recv(size, socket.MSG_WAITALL)) == size
            return ended(idle) and time.monotonic() > begun + 2 * IDLE_SECONDS

        try:
            wait_until(both_judged, "the idle one is closed", 60)
        except Delayed:
            return False
    return True


def test_connections_per_address_are_limited(node: LocalNode) -> None:
    before = closed_by(node, "controller max.connections.per.ip")
    held = [connect(node, node.port, "127.0.0.9") for _ in range(10)]
    others = [connect(node, node.port, "127.0.0.8") for _ in range(15)]
    wait_until(lambda: sum(map(ended, held)) >= 7, "all but three are closed", 60)
    closed = closed_by(node, "controller max.connections.per.ip") - before
    assert closed == 7, "three connections stay, and another address has its own limit"
    for each in (*held, *others):
        each.close()


def test_unfinished_requests_stay_within_the_memory_pool(node: LocalNode) -> None:
    held = []
    for _ in range(6):
        connection = connect(node, node.port)
        held.append(connection)
        try:
            connection.sendall(struct.pack(">i", 4 << 20) + bytes((4 << 20) - 10))
        except OSError:
            continue
    wait_until(
        lambda: closed_by(node, "controller queued.max.request.bytes") >= 4, "four are closed", 20
    )
    assert answers(node)
    for each in held:
        each.close()
