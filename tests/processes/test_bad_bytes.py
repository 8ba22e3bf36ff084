"""Random, truncated and oversized bytes on both listeners close only their own connection."""

import random
import re
import socket
import struct

import pytest

from quorum_node.protocol import apis
from quorum_node.protocol.api_versions import ApiVersionsRequest
from quorum_node.protocol.describe import DescribeQuorumRequest
from quorum_node.protocol.fetch import FetchPartition, FetchRequest, FetchTopic
from quorum_node.protocol.frames import encode_request
from support.local_quorum import LocalNode, LocalQuorum

SEED = 20


def counted(quorum: LocalQuorum, node: LocalNode, listener: str) -> int:
    text = quorum.client.get(node.admin_url + "/metrics").text
    found = re.search(rf'malformed_requests_total{{listener="{listener}"}} (\d+)', text)
    return int(found[1]) if found else 0


def connect(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), 10)
    connection.settimeout(10)
    return connection


def is_closed_by_peer(connection: socket.socket) -> bool:
    """Read on until the peer closes; False if it leaves the connection open."""
    try:
        while connection.recv(65536):
            pass
    except TimeoutError:
        return False
    except ConnectionResetError:
        return True
    return True


def is_still_open(connection: socket.socket) -> bool:
    """Answers wait to be read, or nothing does; no end of file."""
    return bool(connection.recv(1))


def good_frames() -> list[bytes]:
    fetch = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        topics=(
            FetchTopic(
                topic="__cluster_metadata",
                partitions=(FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=9),),
            ),
        ),
    )
    versions = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    return [
        encode_request(apis.API_VERSIONS, 3, 1, "fuzz", versions),
        encode_request(apis.DESCRIBE_QUORUM, 1, 2, "fuzz", DescribeQuorumRequest(topics=())),
        encode_request(apis.FETCH, 12, 3, "fuzz", fetch),
    ]


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def malformed_frames() -> list[bytes]:
    """Bytes that can't be a request, each a reason of its own."""
    cut = [framed(frame[4:-1]) for frame in good_frames()]
    too_long = [framed(frame[4:] + b"x") for frame in good_frames()]
    return [
        struct.pack(">i", -1),
        struct.pack(">i", 0x7FFFFFFF),
        struct.pack(">i", (16 << 20) + 1),
        framed(b""),
        framed(b"\0"),
        framed(struct.pack(">hhih", 32000, 0, 1, -1)),
        framed(struct.pack(">hhih", 1, 99, 1, -1)),
        framed(struct.pack(">hhih", 1, -3, 1, -1)),
        framed(struct.pack(">hhih", 18, 0, 1, 5000)),
        framed(struct.pack(">hhih", 18, 0, 1, 2) + b"\xff\xfe"),
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        bytes(range(255, 155, -1)),
        *cut,
        *too_long,
    ]


@pytest.mark.parametrize("number", range(len(malformed_frames())))
def test_invalid_request_closes_its_connection_and_is_counted(
    shared_quorum: LocalQuorum, number: int
) -> None:
    node = shared_quorum.leader
    before = counted(shared_quorum, node, "controller")
    with connect(node.port) as bystander, connect(node.port) as connection:
        connection.sendall(malformed_frames()[number])
        assert is_closed_by_peer(connection)
        assert counted(shared_quorum, node, "controller") == before + 1
        bystander.sendall(good_frames()[0])
        assert len(bystander.recv(65536)) > 20
    shared_quorum.put("still", str(number))


def test_corrupted_bytes_affect_only_their_own_connection(shared_quorum: LocalQuorum) -> None:
    rng = random.Random(SEED)
    node = shared_quorum.leader
    epoch = shared_quorum.describe()["leaderEpoch"]
    for _ in range(300):
        frame = bytearray(rng.choice(good_frames()))
        for _ in range(rng.randint(1, 6)):
            frame[rng.randrange(4, len(frame))] = rng.randrange(256)
        data = bytes(frame[: rng.randint(1, len(frame))]) if rng.random() < 0.3 else bytes(frame)
        with connect(node.port) as connection:
            connection.sendall(data)
    for _ in range(100):
        with connect(node.port) as connection:
            connection.sendall(rng.randbytes(rng.randint(1, 2000)))
    shared_quorum.put("after", "damage")
    assert shared_quorum.describe()["leaderEpoch"] == epoch
    assert all(n.is_running for n in shared_quorum.nodes.values())
    assert "internal error" not in node.log_text


def test_request_sent_byte_by_byte_is_answered(shared_quorum: LocalQuorum) -> None:
    with connect(shared_quorum.leader.port) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in good_frames()[0] * 2:
            connection.sendall(bytes([byte]))
        received = b""
        size = None
        while size is None or len(received) < 2 * (size + 4):
            received += connection.recv(65536)
            size = struct.unpack(">i", received[:4])[0]
        assert struct.unpack(">i", received[4:8])[0] == 1


def test_invalid_http_is_answered_with_400_and_counted(shared_quorum: LocalQuorum) -> None:
    node = shared_quorum.leader
    before = counted(shared_quorum, node, "admin")
    for data in (
        b"\0\1\2\3\r\n\r\n",
        b"NOT HTTP AT ALL\r\n\r\n",
        b"GET / HTTP/1.1\r\nbad header\r\n\r\n",
    ):
        with connect(node.admin_port) as connection:
            connection.sendall(data)
            assert is_closed_by_peer(connection)
    assert counted(shared_quorum, node, "admin") == before + 3
    with connect(node.admin_port) as connection:
        connection.sendall(b"GET /livez HTTP/1.1\r\nX: " + b"a" * 200_000)
        assert is_closed_by_peer(connection)
    rng = random.Random(SEED)
    for _ in range(50):
        with connect(node.admin_port) as connection:
            connection.sendall(rng.randbytes(rng.randint(1, 500)))
    assert shared_quorum.client.get(node.admin_url + "/livez").status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("PUT", "/v1/configs/topic/t/k", b"{", 422),
        ("PUT", "/v1/configs/topic/t/k", b'{"value": 5}', 422),
        ("PUT", "/v1/configs/topic/t/k", b'{"value": "v", "what": 1}', 422),
        ("PUT", "/v1/configs/topic/t/k", b'{"value": "v", "timeoutMs": -1}', 422),
        ("PUT", "/v1/configs/nonsense/t/k", b'{"value": "v"}', 400),
        ("POST", "/v1/append", b'{"entries": []}', 422),
        ("POST", "/v1/voters", b'{"id": 9, "uuid": "x", "endpoints": []}', 422),
        (
            "POST",
            "/v1/voters",
            b'{"id": 9, "uuid": "x", "endpoints": [{"name": "CONTROLLER", "host": "h", "port": 1}]}',
            400,
        ),
        ("DELETE", "/v1/voters/9/nonsense", b"", 400),
        ("DELETE", "/v1/voters/x/nonsense", b"", 422),
        ("GET", "/v1/log?fromOffset=-1", b"", 422),
        ("GET", "/nowhere", b"", 404),
        ("POST", "/v1/node", b"", 405),
    ],
)
def test_invalid_documents_are_rejected_with_a_reason(
    shared_quorum: LocalQuorum, method: str, path: str, body: bytes, status: int
) -> None:
    headers = {"Content-Type": "application/json"}
    answer = shared_quorum.request(method, path, content=body, headers=headers)
    assert answer.status_code == status, answer.text
    assert answer.json()["message"]
    assert answer.json()["leaderId"] in (1, 2, 3)


def test_oversized_body_is_rejected(shared_quorum: LocalQuorum) -> None:
    answer = shared_quorum.request("POST", "/v1/append", content=b"x" * (17 << 20))
    assert answer.status_code == 413


def test_slow_reader_does_not_delay_other_clients(shared_quorum: LocalQuorum) -> None:
    node = shared_quorum.leader
    with connect(node.port) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.settimeout(0.2)
        frame = good_frames()[0] * 200
        try:
            for _ in range(400):
                connection.sendall(frame)
        except TimeoutError:
            pass  # the node has stopped reading this connection
        for number in range(20):
            shared_quorum.put("slow", str(number))
        assert is_still_open(connection)


def test_responses_are_ordered_and_a_parked_fetch_delays_only_its_own_connection(
    shared_quorum: LocalQuorum,
) -> None:
    node = shared_quorum.leader
    quorum = shared_quorum.describe()
    fetch = FetchRequest(
        max_wait_ms=30_000,
        min_bytes=1,
        topics=(
            FetchTopic(
                topic="__cluster_metadata",
                partitions=(
                    FetchPartition(
                        partition=0,
                        current_leader_epoch=quorum["leaderEpoch"],
                        fetch_offset=quorum["highWatermark"],
                        last_fetched_epoch=quorum["leaderEpoch"],
                        partition_max_bytes=1 << 20,
                    ),
                ),
            ),
        ),
    )
    with connect(node.port) as parked, connect(node.port) as other:
        versions = ApiVersionsRequest(client_software_name="x", client_software_version="1")
        parked.sendall(encode_request(apis.FETCH, 12, 71, "parked", fetch))
        parked.sendall(encode_request(apis.API_VERSIONS, 3, 72, "parked", versions))
        other.sendall(encode_request(apis.API_VERSIONS, 3, 73, "other", versions))
        assert correlation_of_next(other) == 73
        shared_quorum.put("wakes", "the fetch")
        assert correlation_of_next(parked) == 71
        assert correlation_of_next(parked) == 72


def correlation_of_next(connection: socket.socket) -> int:
    """Correlation id of the next whole answer."""
    size = struct.unpack(">i", receive(connection, 4))[0]
    return int(struct.unpack(">i", receive(connection, size)[:4])[0])


def receive(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        assert more, "closed"
        data += more
    return data


def test_bodies_that_are_not_valid_http_write_no_error(shared_quorum: LocalQuorum) -> None:
    """Probes need no token, so anybody could fill the log."""
    node = shared_quorum.leader
    port = int(node.admin_url.rpartition(":")[2])
    request = b"GET /livez HTTP/1.1\r\nhost: node\r\ntransfer-encoding: chunked\r\n\r\nZZZ\r\n"
    for _ in range(300):
        with connect(port) as connection:
            connection.sendall(request)
            assert connection.recv(65536).startswith(b"HTTP/1.1 400")
    assert '"level": "error"' not in node.log_text
    assert "internal error" not in node.log_text
