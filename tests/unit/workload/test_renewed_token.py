"""A writer with a rejected token rereads the token file and continues."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from support.workload.target import Answer, Target

_WANTED = ["Bearer first"]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200 if self.headers["Authorization"] == _WANTED[0] else 401)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: object) -> None:
        """Nothing to stderr."""


@pytest.fixture
def url() -> Iterator[str]:
    _WANTED[0] = "Bearer first"
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_rotated_token_is_read_from_its_file(url: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first")
    target = Target([url], token=None, timeout_ms=2000, token_file=file)
    assert _status(target) == 200
    _WANTED[0] = "Bearer second"
    assert _status(target) == 401
    file.write_text("first\nsecond")
    assert _status(target) == 401, "it learns it from the refusal"
    assert _status(target) == 200
    _WANTED[0] = "Bearer first"
    assert [_status(target), _status(target)] == [401, 200], "the one before is tried again"
    target.turn()


def _status(target: Target) -> int:
    outcome = target.call("GET", "/")
    assert isinstance(outcome, Answer)
    return outcome.status
