"""A proxy in front of an object store that counts the requests, and lets one of them fail or end its client.

Owns the moment: before the store sees the request, or after the store has answered and before the client knows.
"""

import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from support.object_store import ObjectStore

_TIMEOUT_S = 30.0
_OWN_HEADERS = frozenset({"connection", "date", "server", "transfer-encoding", "content-length"})


@dataclass(frozen=True, slots=True)
class Answer:
    """A response: of the store, or in its place."""

    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


def failure(status: int, code: str) -> Answer:
    """An error as S3 writes it."""
    body = f"<Error><Code>{code}</Code><Message>injected</Message></Error>"
    return Answer(status, body.encode(), (("Content-Type", "application/xml"),))


Decide = Callable[[int, str, str], Answer | None]
"""From a request's number (from 1), method and path, the answer in place of the store's; None: the store's."""
Seen = Callable[[int, Answer], Answer]
"""What the client gets of the store's answer to the request of that number."""


class ObjectStoreProxy:
    """Clients use its `endpoint` in place of the store's; signatures stay valid, since the host's name is passed on."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self.requests: list[str] = []
        """Method and path of each, in order."""
        self.before: Decide = lambda number, method, path: None
        self.after: Seen = lambda number, answer: answer
        proxy = self

        class Handler(_Handler):
            owner = proxy

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._thread.join(_TIMEOUT_S)
        self._server.server_close()

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables of a client."""
        return self._store.environment | {"AWS_ENDPOINT_URL_S3": self.endpoint}

    def answer(self, method: str, path: str, headers: Any, body: bytes) -> Answer:
        """The answer to one request of a client."""
        with self._lock:
            self.requests.append(f"{method} {path}")
            number = len(self.requests)
        reported = self.before(number, method, path)
        return (
            reported
            if reported is not None
            else self.after(number, self._forward(method, path, headers, body))
        )

    def _forward(self, method: str, path: str, headers: Any, body: bytes) -> Answer:
        passed = {name: value for name, value in headers.items() if name.lower() != "expect"}
        with closing(HTTPConnection("127.0.0.1", self._store.port, timeout=_TIMEOUT_S)) as store:
            store.request(method, path, body=body, headers=passed)
            response = store.getresponse()
            kept = tuple(
                each for each in response.getheaders() if each[0].lower() not in _OWN_HEADERS
            )
            length = response.getheader("Content-Length")
            if method == "HEAD" and length is not None:
                kept += (("Content-Length", length),)
            return Answer(response.status, response.read(), kept)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner: ObjectStoreProxy

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            answer = self.owner.answer(self.command, self.path, self.headers, body)
            self.send_response(answer.status)
            for name, value in answer.headers:
                self.send_header(name, value)
            if self.command != "HEAD":
                self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(answer.body)
        except OSError:
            self.close_connection = True  # the client has ended

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _handle  # noqa: N815 - names of the base class

    def log_message(self, *_: object) -> None:
        """Nothing: the requests are kept."""
