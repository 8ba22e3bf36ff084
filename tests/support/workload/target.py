"""Calls of the admin API, with the outcomes that a checker has to distinguish.

Uses the standard library only, so that the load costs little on a small machine. A target is a list of base URLs.
Requests that only the leader can answer are repeated until a connection reaches the leader: a URL may be that of a
Service, where each connection may reach another node.
"""

import http.client
import json
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete HTTP answer."""

    status: int
    body: dict[str, Any]

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def error(self) -> str:
        return f"{self.status} {self.body.get('code', '')} {self.body.get('message', '')}".strip()


@dataclass(frozen=True, slots=True)
class NotSent:
    """No connection, so the server can't have seen the request."""

    error: str


@dataclass(frozen=True, slots=True)
class Lost:
    """The request may have arrived; there was no complete answer."""

    error: str


Outcome = Answer | NotSent | Lost

_CERTAINLY_NOT_APPLIED = {400, 401, 404, 409, 413, 421, 422, 507}
MISDIRECTED = 421
_REFUSED = 401
_TURNS = 20
"""How often the leader is looked for; with MISDIRECTED nothing was done."""


def surely_refused(outcome: Outcome) -> bool:
    """True only if the write can never take effect; False if this is uncertain.

    503 is doubtful: a leader that steps down may say so after it has appended.
    """
    match outcome:
        case NotSent():
            return True
        case Answer(status=status):
            return status in _CERTAINLY_NOT_APPLIED
        case Lost():
            return False


class Target:
    """Base URLs used in turn, with one kept connection, which is closed after any failure."""

    def __init__(
        self,
        urls: list[str],
        *,
        token: str | None,
        timeout_ms: int,
        turns: int = _TURNS,
        token_file: Path | None = None,
        authorities: Path | None = None,
    ) -> None:
        """`authorities`: who is trusted where a URL says https, in PEM. `token_file` has tokens line by line; when one is refused the next is taken, and the file read again."""
        if not urls:
            raise ValueError("at least one URL is needed")
        self._turns = turns
        self._urls = urls
        self._next = 0
        self._headers = {"Content-Type": "application/json"}
        self._token_file = token_file
        self._bear(token)
        if token_file is not None:
            self._bear_next(token_file)
        self._timeout_s = timeout_ms / 1000
        self._authorities = authorities
        self._connection: http.client.HTTPConnection | None = None

    def _bear_next(self, file: Path) -> None:
        tokens = file.read_text().split()
        place = tokens.index(self._token) + 1 if self._token in tokens else 0
        self._bear(tokens[place % len(tokens)])

    def _bear(self, token: str | None) -> None:
        self._token = token
        if token:
            self._headers["Authorization"] = f"Bearer {token}"

    @property
    def url(self) -> str:
        return self._urls[self._next % len(self._urls)]

    def turn(self) -> None:
        """Use the next URL, on a new connection, for the next call."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None
        self._next += 1

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> Outcome:
        """One request, repeated only if it had no effect because another node leads."""
        for _ in range(self._turns):
            outcome = self._call(method, path, body)
            if isinstance(outcome, Answer) and outcome.status == _REFUSED and self._token_file:
                self._bear_next(self._token_file)
            if not isinstance(outcome, Answer) or outcome.status != MISDIRECTED:
                break
            leader = outcome.body.get("leaderUrl")
            self.turn()
            if leader in self._urls:
                self._next = self._urls.index(leader)
        return outcome

    def _call(self, method: str, path: str, body: dict[str, Any] | None) -> Outcome:
        try:
            connection = self._connected()
        except OSError as error:
            self.turn()
            return NotSent(repr(error))
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, path, body=data, headers=self._headers)
            response = connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException) as error:
            self.turn()
            return Lost(repr(error))
        if response.will_close or response.status >= 500:
            self.turn()
        return Answer(response.status, _document(content))

    def _connected(self) -> http.client.HTTPConnection:
        if self._connection is None:
            parts = urlsplit(self.url)
            host = parts.hostname or "127.0.0.1"
            if parts.scheme == "https":
                context = ssl.create_default_context(cafile=self._authorities)
                self._connection = http.client.HTTPSConnection(
                    host, parts.port, timeout=self._timeout_s, context=context
                )
            else:
                self._connection = http.client.HTTPConnection(
                    host, parts.port, timeout=self._timeout_s
                )
            self._connection.connect()
        return self._connection


def _document(content: bytes) -> dict[str, Any]:
    try:
        document = json.loads(content)
    except ValueError:
        return {"message": content[:200].decode(errors="replace")}
    return document if isinstance(document, dict) else {"message": str(document)[:200]}
