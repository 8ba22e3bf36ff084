"""Calls to nodes: how long answers are awaited, and what is taken from them."""

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from quorum_node.api import (
    NodeDescription,
    QuorumDescription,
    ReplicaStatus,
    Role,
    StorageDescription,
    StorageState,
    VotersPosition,
    WentBack,
)
from quorum_operator import quorum_client
from quorum_operator.pod_client import PodClient
from quorum_operator.quorum_client import Described, QuorumClient

ANSWER_S, TIMEOUT_S = 0.5, 3.0
"""Of each call; with few connections the last ones wait longer than the limit of a call. A busy machine may delay an answer by more
than the second that the operator waits for it."""


@pytest.fixture
def port() -> Iterator[int]:
    reported = NodeDescription(
        node_id=1,
        replica_uuid="u",
        cluster_id="c",
        role=Role.FOLLOWER,
        is_voter=True,
        leader_id=None,
        leader_epoch=1,
        high_watermark=0,
        log_end_offset=0,
        log_start_offset=0,
        caught_up=True,
        formed=True,
        storage=StorageDescription(state=StorageState.OK, detail=None),
        started_at="2026-01-01T00:00:00Z",
        version="1",
    )
    body = reported.model_dump_json(by_alias=True)

    class Slow(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            threading.Event().wait(ANSWER_S)
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 128
        daemon_threads = True

    with Server(("127.0.0.1", 0), Slow) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_address[1]
        server.shutdown()


@pytest.mark.parametrize("connections", [2, 8])
def test_reports_queued_for_a_connection_are_awaited(
    port: int, connections: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = connections * 8
    assert (calls / connections - 1) * ANSWER_S > TIMEOUT_S
    monkeypatch.setattr(quorum_client, "REPORT_TIMEOUT_S", TIMEOUT_S)
    monkeypatch.setattr(
        PodClient, "url_of", lambda self, ip, path: f"http://127.0.0.1:{port}{path}"
    )

    async def ask() -> list[bool]:
        limits = httpx.Limits(max_connections=connections, max_keepalive_connections=0)
        async with httpx.AsyncClient(limits=limits, trust_env=False) as http:
            client = QuorumClient(http)
            reports = await asyncio.gather(*(client.report("x", 1) for _ in range(calls)))
        return [each is not None for each in reports]

    assert all(asyncio.run(ask()))


def test_reports_about_replicas_are_taken_from_the_description() -> None:
    sound = ReplicaStatus(id=1, uuid="U1", log_end_offset=20, lag=0, fetching=True, caught_up=True)
    lost = sound.model_copy(
        update={
            "id": 2,
            "uuid": "U2",
            "went_back": WentBack(acknowledged_offset=12, offset=8, age_ms=1),
        }
    )
    damaged = sound.model_copy(update={"id": 3, "uuid": "U3", "damaged_from": 9})
    described = QuorumDescription(
        node_id=1,
        confirmed=True,
        leader_id=1,
        leader_uuid="U1",
        leader_epoch=4,
        high_watermark=20,
        log_end_offset=20,
        cluster_id="c",
        formed=True,
        voters=[sound, lost, damaged],
        observers=[],
        voters_position=VotersPosition(offset=3, epoch=1, committed=True),
        pending_change=False,
        own_epoch_committed=True,
        initial_voters=3,
    )
    answer = httpx.Response(200, text=described.model_dump_json(by_alias=True))

    async def ask() -> Described:
        async with httpx.AsyncClient(transport=httpx.MockTransport(lambda _: answer)) as http:
            return await QuorumClient(http).describe(["10.0.0.1"])

    view = asyncio.run(ask()).view
    assert view is not None
    assert [(each.went_back, each.damaged_from) for each in view.voters] == [
        (None, None),
        ((12, 8), None),
        (None, 9),
    ]
