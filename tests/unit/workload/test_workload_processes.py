"""Writer and checker as real processes against a small HTTP server that can misbehave."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from support.workload import history
from support.workload.verify import http_fetch, verify

TESTS_DIRECTORY = Path(__file__).resolve().parents[2]
REPLICA_UUID = "AAAAAAAAAAAAAAAAAAAAAA"


class Register(BaseHTTPRequestHandler):
    """One key and its log; the class attributes choose what goes wrong."""

    protocol_version = "HTTP/1.1"
    log: ClassVar[list[str]] = []
    lock: ClassVar[threading.Lock] = threading.Lock()
    drop_every: ClassVar[int] = 0
    forget_every: ClassVar[int] = 0
    read_lag: ClassVar[int] = 0

    def do_PUT(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.lock:
            self.log.append(body["value"])
            offset = len(self.log) - 1
            if self.forget_every and offset % self.forget_every == self.forget_every - 1:
                self.log[offset] = "0.0"
        if self.drop_every and offset % self.drop_every == self.drop_every - 1:
            self.close_connection = True  # applied, but without a response
            return
        self._answer(200, {"offset": offset, "endOffset": offset + 1, "epoch": 1})

    def do_GET(self) -> None:
        with self.lock:
            end = len(self.log)
            seen = max(0, end - self.read_lag)
            if self.path.startswith("/v1/log"):
                page = {"records": self._records(), "nextOffset": end, "highWatermark": end}
                self._answer(200, {**page, "logStartOffset": 0})
            elif self.path.startswith("/v1/configs?"):
                entries = [self._record(self.log[-1])] if end else []
                self._answer(200, {"entries": entries, "offset": end})
            elif seen == 0:
                self._answer(404, {"code": "NOT_FOUND", "message": ""})
            else:
                self._answer(200, {"value": self.log[seen - 1], "offset": end})

    def _records(self) -> list[dict[str, object]]:
        return [
            {
                "offset": offset,
                "epoch": 1,
                "type": "ConfigRecord",
                "fields": self._record(value),
            }
            for offset, value in enumerate(self.log)
        ]

    @staticmethod
    def _record(value: str) -> dict[str, str]:
        return {"resourceName": history.RESOURCE_NAME, "name": history.NAME, "value": value}

    def _answer(self, status: int, document: object) -> None:
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


class Server:
    """The register on a port of its own, and the two processes run against it."""

    def __init__(self, directory: Path, handler: type[Register]) -> None:
        self.handler = handler
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._http.server_address[1]}"
        self.acknowledgements = directory / "acknowledgements.jsonl"
        self.reads = directory / "reads.jsonl"
        threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def start(self, program: str, *options: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", f"support.workload.{program}", "--url", self.url]
        command += ["--acknowledgements", str(self.acknowledgements), *options]
        environment = {**os.environ, "PYTHONPATH": str(TESTS_DIRECTORY)}
        return subprocess.Popen(command, env=environment, text=True, stderr=subprocess.PIPE)

    def run(self, *, count: int) -> int:
        """Both processes until the writer has its numbers; the checker's exit status."""
        writer = self.start("writer", "--max-count", str(count), "--interval-ms", "1")
        reads = ("--reads", str(self.reads), "--interval-ms", "2")
        checker = self.start("checker", *reads)
        _, writer_errors = writer.communicate(timeout=120)
        assert writer.returncode == 0, writer_errors
        _wait_for_reads(self.reads)
        checker.terminate()
        checker.communicate(timeout=60)
        return checker.returncode


def _wait_for_reads(path: Path) -> None:
    deadline = time.monotonic() + 60
    while not path.exists() or len(path.read_text().splitlines()) < 20:
        assert time.monotonic() < deadline, "the checker reads nothing"
        time.sleep(0.02)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    handler = type("OwnRegister", (Register,), {"log": [], "lock": threading.Lock()})
    made = Server(tmp_path, handler)
    yield made
    made.close()


def test_correct_server_passes(server: Server) -> None:
    assert server.run(count=50) == 0
    verdict = verify(server.acknowledgements, server.reads, {"a": http_fetch(server.url)})
    assert verdict.problems == ()
    assert verdict.acknowledged == 50
    assert verdict.reads > 0


def test_unanswered_writes_are_repeated_under_their_number(server: Server) -> None:
    server.handler.drop_every = 7
    assert server.run(count=40) == 0
    events = history.load(server.acknowledgements)
    unknown = [event for event in events if isinstance(event, history.Unknown)]
    numbers = [event.number for event in events if isinstance(event, history.Acknowledged)]
    assert len(unknown) >= 5
    assert numbers == list(range(1, 41))
    fetch = http_fetch(server.url)
    assert verify(server.acknowledgements, server.reads, {"a": fetch}).problems == ()


@pytest.mark.long
def test_server_that_loses_acknowledged_writes_is_found(server: Server) -> None:
    server.handler.forget_every = 10
    server.run(count=35)
    verdict = verify(server.acknowledgements, server.reads, {"a": http_fetch(server.url)})
    assert len(verdict.lost) == 3


def test_server_that_returns_stale_reads_is_found(server: Server) -> None:
    server.handler.read_lag = 3
    server.run(count=50)
    verdict = verify(server.acknowledgements, server.reads, {"a": http_fetch(server.url)})
    assert verdict.stale


@pytest.mark.long
def test_server_that_returns_not_found_after_an_acknowledgement_is_found(server: Server) -> None:
    server.handler.read_lag = 1000
    assert server.run(count=50) == 1
    verdict = verify(server.acknowledgements, server.reads, {"a": http_fetch(server.url)})
    assert verdict.stale


def test_connection_failure_is_a_rejection_and_not_an_unknown_outcome(server: Server) -> None:
    server.close()
    writer = server.start("writer", "--max-seconds", "0.3")
    writer.communicate(timeout=60)
    events = history.load(server.acknowledgements)
    assert any(isinstance(event, history.Refused) for event in events)
    assert not any(isinstance(event, history.Unknown) for event in events)
