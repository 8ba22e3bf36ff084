"""Hostile clients, run as a process: `python -m support.attacks NAME HOST KAFKA_PORT ADMIN_PORT [FOLDER]`.

They do not have the admin token. With a folder they use TLS, with the certificate in it. Each runs until its stdin is closed, prints a
line once it is running, and reopens connections that are closed. They run with a lower priority than the nodes: their own CPU usage is
not measured.
"""

import base64
import os
import socket
import ssl
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from quorum_node.protocol import apis
from quorum_node.protocol.alter_quorum import (
    AlterQuorumRequest,
    AlterQuorumRequestPartition,
    AlterQuorumRequestTopic,
    TargetVoter,
)
from quorum_node.protocol.api_versions import ApiVersionsRequest
from quorum_node.protocol.configs import DescribeConfigsRequest, DescribeConfigsResource
from quorum_node.protocol.create_topics import CreatableTopic, CreateTopicsRequest
from quorum_node.protocol.frames import decode_response, encode_request, read_frame
from quorum_node.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
)
from support.scram_client import first_message
from support.tls_quorum import client_context

Address = tuple[str, int]
_FRAME_BYTES = 8 << 20
_ANSWER_BYTES = 1 << 16
_PAUSE_SECONDS = 0.05
NICE = 10
AUTOGROUP = Path("/proc/self/autogroup")
NOT_NOW = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
"""The operation would block."""


class Attack:
    """The target of an attack, and whether to continue."""

    def __init__(
        self,
        kafka: Address,
        admin: Address,
        tls: ssl.SSLContext | None = None,
        folder: Path | None = None,
    ) -> None:
        self.kafka, self.admin = kafka, admin
        self.folder = folder
        self.over = threading.Event()
        self._tls = tls

    def connect(self, address: Address) -> socket.socket:
        """In clear text, or with a TLS handshake."""
        plain = socket.create_connection(address, 5)
        if self._tls is None:
            return plain
        try:
            return self._tls.wrap_socket(plain, server_hostname=address[0])
        except OSError:
            plain.close()
            raise

    def many(self, count: int, work: Callable[[], None]) -> None:
        """Start this number of threads that repeat `work` and ignore its errors."""

        def repeat() -> None:
            while not self.over.is_set():
                try:
                    work()
                except OSError:
                    self.over.wait(_PAUSE_SECONDS)

        for _ in range(count):
            threading.Thread(target=repeat, daemon=True).start()

    def held(self, address: Address, count: int, first: bytes, then: bytes = b"") -> None:
        """Keep this number of connections open that send `first`, then `then` every second."""
        connections: list[socket.socket] = []

        def hold() -> None:
            while len(connections) < count and not self.over.is_set():
                connection = self.connect(address)
                connection.setblocking(False)
                connections.append(connection)
                send_some(connection, first)
            for connection in list(connections):
                if not is_open(connection, then):
                    connections.remove(connection)
                    connection.close()
            self.over.wait(1.0)

        self.many(1, hold)


def send_some(connection: socket.socket, data: bytes) -> None:
    """Send as much as possible at once; wait up to a second for data that is larger than a buffer."""
    view, end = memoryview(data), time.monotonic() + 1
    while view and time.monotonic() < end:
        try:
            view = view[connection.send(view) :]
        except NOT_NOW:
            time.sleep(0.001)


def is_open(connection: socket.socket, then: bytes) -> bool:
    try:
        if then:
            connection.send(then)
        return bool(connection.recv(1))
    except NOT_NOW:
        return True
    except OSError:
        return False


def idle(attack: Attack) -> None:
    attack.held(attack.kafka, 3000, b"")
    attack.held(attack.admin, 1000, b"")


def unfinished(attack: Attack) -> None:
    attack.held(attack.kafka, 60, struct.pack(">i", _FRAME_BYTES) + bytes(_FRAME_BYTES - 10))


def slow(attack: Attack) -> None:
    """Send a byte from time to time, on both ports."""
    attack.held(attack.admin, 300, b"GET /v1/node HTTP/1.1\r\nHost: x\r\nX-A: ", b"a")
    attack.held(attack.kafka, 300, struct.pack(">i", _FRAME_BYTES), b"a")


def posts(attack: Attack) -> None:
    """Large JSON without a token."""
    body = b'{"entries":[' + b'{"resourceType":"topic"},' * 550_000 + b"{}]}"
    attack.many(2, lambda: http(attack, "POST", "/v1/append", body))


def log_reads(attack: Attack) -> None:
    attack.many(4, lambda: http(attack, "GET", "/v1/log?maxRecords=10000"))


def small_reads(attack: Attack) -> None:
    """Requests as fast as they are accepted, many on each connection."""
    request = b"GET /v1/node HTTP/1.1\r\nHost: x\r\n\r\n" * 50
    attack.many(8, lambda: pour(attack, attack.admin, request))


def large_headers(attack: Attack) -> None:
    request = b"GET /livez HTTP/1.1\r\n" + b"".join(
        b"X-%d: %s\r\n" % (number, b"a" * 1000) for number in range(200)
    )
    attack.many(4, lambda: pour(attack, attack.admin, request))


def many_voters(attack: Attack) -> None:
    for voters in (2000, 20_000):
        targets = tuple(TargetVoter(voter_id=10 + number) for number in range(voters))
        part = AlterQuorumRequestPartition(partition_index=0, target_voters=targets)
        topic = AlterQuorumRequestTopic(topic_name="__cluster_metadata", partitions=(part,))
        body = AlterQuorumRequest(cluster_id="another", topics=(topic,))
        frame = encode_request(apis.ALTER_QUORUM, 0, 1, "x", body)
        attack.many(2, partial(pour, attack, attack.kafka, frame))


def many_elements(attack: Attack) -> None:
    names = tuple(f"no-such-config-{number}" for number in range(40_000))
    resource = DescribeConfigsResource(resource_type=2, resource_name="t", configuration_keys=names)
    frame = encode_request(
        apis.DESCRIBE_CONFIGS, 4, 1, "x", DescribeConfigsRequest(resources=(resource,))
    )
    attack.many(4, lambda: pour(attack, attack.kafka, frame))


def many_resources(attack: Attack) -> None:
    """Each of them is checked and answered."""
    resources = tuple(
        DescribeConfigsResource(resource_type=2, resource_name=f"no-such-topic-{number}")
        for number in range(49_000)
    )
    frame = encode_request(
        apis.DESCRIBE_CONFIGS, 4, 1, "x", DescribeConfigsRequest(resources=resources)
    )
    attack.many(4, lambda: pour(attack, attack.kafka, frame))


def many_topics(attack: Attack) -> None:
    """The caller's right is checked for each of them."""
    topics = tuple(CreatableTopic(name=f"no-right-{number}") for number in range(49_000))
    frame = encode_request(apis.CREATE_TOPICS, 7, 1, "x", CreateTopicsRequest(topics=topics))
    attack.many(4, lambda: pour(attack, attack.kafka, frame))


def short_with_large_answers(attack: Attack) -> None:
    """Each asks for all configs of a broker hundreds of times, and all are answered after the same confirmation."""
    resource = DescribeConfigsResource(resource_type=4, resource_name="")
    body = DescribeConfigsRequest(resources=(resource,) * 800, include_synonyms=True)
    frames = encode_request(apis.DESCRIBE_CONFIGS, 4, 1, "x", body) * 50
    attack.many(4, lambda: pour(attack, attack.kafka, frames))


def pipelined(attack: Attack) -> None:
    body = ApiVersionsRequest(client_software_name="x", client_software_version="1")
    frames = encode_request(apis.API_VERSIONS, 3, 1, "x", body) * 500
    attack.many(20, lambda: pour(attack, attack.kafka, frames))


def handshakes(attack: Attack) -> None:
    """As many handshakes as possible, one after the other, with the same certificate if there is one."""
    attack.many(8, lambda: attack.connect(attack.kafka).close())
    attack.many(4, lambda: attack.connect(attack.admin).close())


def many_certificates(attack: Attack) -> None:
    """Handshakes with a chain of as many certificates as OpenSSL accepts. Without TLS there are none."""
    if attack.folder is None:
        handshakes(attack)
        return
    context = client_context(attack.folder, attack.folder / "ca.crt")
    with tempfile.NamedTemporaryFile() as chain:
        chain.write((attack.folder / "tls.crt").read_bytes())
        chain.write((attack.folder / "ca.crt").read_bytes() * 150)
        chain.flush()
        context.load_cert_chain(chain.name, attack.folder / "tls.key")
    shown = Attack(attack.kafka, attack.admin, context)
    attack.many(8, lambda: shown.connect(attack.kafka).close())


def http(attack: Attack, method: str, path: str, body: bytes = b"") -> None:
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    with attack.connect(attack.admin) as connection:
        connection.settimeout(20)
        connection.sendall(head.encode() + body)
        while connection.recv(1 << 16):
            pass


def pour(attack: Attack, address: Address, data: bytes, seconds: float = 2.0) -> None:
    """Send the same bytes repeatedly, and read the answers."""
    end = time.monotonic() + seconds
    with attack.connect(address) as connection:
        while time.monotonic() < end:
            connection.setblocking(True)
            connection.settimeout(5)
            connection.sendall(data)
            connection.setblocking(False)
            try:
                while connection.recv(1 << 18):
                    pass
                return
            except NOT_NOW:
                continue


def failed_logins(attack: Attack) -> None:
    """Whole exchanges of SASL with a wrong proof, and abandoned ones, as fast as connections are accepted. For a listener with SASL."""
    shake = encode_request(
        apis.SASL_HANDSHAKE, 1, 1, "x", SaslHandshakeRequest(mechanism="SCRAM-SHA-512")
    )

    def token(data: bytes) -> bytes:
        body = SaslAuthenticateRequest(auth_bytes=data)
        return encode_request(apis.SASL_AUTHENTICATE, 2, 1, "x", body)

    def attempt(*, is_abandoned: bool) -> None:
        with attack.connect(attack.kafka) as connection:
            connection.sendall(shake + token(first_message("alice")))
            read_frame(connection.recv, _ANSWER_BYTES)
            challenge = read_frame(connection.recv, _ANSWER_BYTES)
            if not is_abandoned:
                answer = decode_response(apis.SASL_AUTHENTICATE, 2, challenge)
                assert isinstance(answer, SaslAuthenticateResponse)
                nonce = bytes(answer.auth_bytes).split(b",")[0]
                proof = base64.b64encode(bytes(64))
                connection.sendall(token(b"c=biws," + nonce + b",p=" + proof))
                connection.recv(_ANSWER_BYTES)

    attack.many(4, partial(attempt, is_abandoned=False))
    attack.many(2, partial(attempt, is_abandoned=True))


ATTACKS: dict[str, Callable[[Attack], None]] = {
    "idle": idle,
    "unfinished": unfinished,
    "slow": slow,
    "posts": posts,
    "log-reads": log_reads,
    "small-reads": small_reads,
    "large-headers": large_headers,
    "many-voters": many_voters,
    "many-elements": many_elements,
    "many-resources": many_resources,
    "many-topics": many_topics,
    "short-with-large-answers": short_with_large_answers,
    "pipelined": pipelined,
    "handshakes": handshakes,
    "many-certificates": many_certificates,
}


LOGIN_ATTACKS: dict[str, Callable[[Attack], None]] = {"failed-logins": failed_logins}
"""Those for a listener with SASL."""


def lower_priority() -> None:
    """Lower than the nodes', also where the kernel divides the CPU by session (sched(7), autogroups): there a nice value counts only
    within its session, and each node has a session of its own.
    """
    os.setsid()
    os.nice(NICE)
    if AUTOGROUP.exists():
        AUTOGROUP.write_text(str(NICE))


def main() -> None:
    name, host, kafka_port, admin_port, *folder = sys.argv[1:]
    lower_priority()
    shown = Path(folder[0]) if folder else None
    tls = None if shown is None else client_context(shown, shown / "ca.crt")
    attack = Attack((host, int(kafka_port)), (host, int(admin_port)), tls, shown)
    (ATTACKS | LOGIN_ATTACKS)[name](attack)
    # gives the threads time to start; the measurement begins when this line is read
    time.sleep(0.3)
    print("under way", flush=True)
    sys.stdin.read()
    attack.over.set()


if __name__ == "__main__":
    main()
