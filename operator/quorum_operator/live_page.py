"""Serves the live page: read-only, on a port of its own, and only where it was asked for.

Owns who may read it. On loopback whoever reaches it may, by a name of loopback alone: a web site that a person has open must not read it
under a name of its own. On any other address a token is needed.
"""

import base64
import binascii
import hmac
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from aiohttp import web

from quorum_operator.page_document import MOST_MOVES, POLICY, Move, Shown, document
from quorum_operator.status_crd import MetadataQuorumStatus

_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_MOST_REQUEST_BYTES = 1024

Place = tuple[str, str]


@dataclass(frozen=True, slots=True)
class PagePlace:
    """Where it is served. `token_file`: who knows its content may read the page; needed on any address but loopback."""

    host: str
    port: int
    token_file: str = ""

    @property
    def is_loopback(self) -> bool:
        """Whether nobody outside of this host, or pod, reaches it."""
        try:
            return self.host == "localhost" or ip_address(self.host).is_loopback
        except ValueError:
            return False


class LastMoves:
    """The last steps of each quorum, for as long as it is there."""

    def __init__(self) -> None:
        self._moves: dict[Place, deque[Move]] = {}

    def note(self, place: Place, move: Move) -> None:
        """One more."""
        self._moves.setdefault(place, deque(maxlen=MOST_MOVES)).append(move)

    def of(self, place: Place) -> tuple[Move, ...]:
        """Oldest first."""
        return tuple(self._moves.get(place, ()))

    def forget(self, place: Place) -> None:
        """The quorum is gone."""
        self._moves.pop(place, None)


class LivePage:
    """`statuses`: what is known; `clock`: the time as Kubernetes writes it; `works`: whether this operator leads."""

    def __init__(
        self,
        place: PagePlace,
        statuses: Callable[[], dict[Place, MetadataQuorumStatus]],
        moves: LastMoves,
        clock: Callable[[], str],
        works: Callable[[], bool],
    ) -> None:
        self._place, self._statuses, self._moves = place, statuses, moves
        self._clock, self._works = clock, works
        self._runner: web.AppRunner | None = None

    async def start(self) -> int:
        """Serve it; the port. Raises OSError, ValueError where the token file holds none."""
        self._token()
        app = web.Application(client_max_size=_MOST_REQUEST_BYTES)
        app.router.add_get("/", self._page)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, self._place.host, self._place.port).start()
        port: int = self._runner.addresses[0][1]
        return port

    async def stop(self) -> None:
        """Close the port."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _page(self, request: web.Request) -> web.Response:
        refused = self._refusal(request)
        if refused is not None:
            return refused
        found = [
            Shown(*place, status, self._moves.of(place))
            for place, status in self._statuses().items()
        ]
        text = document(found, self._clock(), works=self._works())
        return web.Response(text=text, content_type="text/html", headers=_HEADERS)

    def _refusal(self, request: web.Request) -> web.Response | None:
        wanted = self._token()
        if wanted is None:
            if (request.url.host or "") in _LOOPBACK_NAMES:
                return None
            return web.Response(status=403, text="ask by the name localhost\n", headers=_HEADERS)
        if hmac.compare_digest(_shown(request).encode(), wanted.encode()):
            return None
        asked = {"WWW-Authenticate": 'Basic realm="MetadataQuorums", charset="UTF-8"', **_HEADERS}
        return web.Response(status=401, text="the token is needed, as password\n", headers=asked)

    def _token(self) -> str | None:
        """Read again each time: it may be replaced while the operator runs."""
        if not self._place.token_file:
            if not self._place.is_loopback:
                raise ValueError(f"the page on {self._place.host} needs a token file")
            return None
        found = Path(self._place.token_file).read_text().strip()
        if not found:
            raise ValueError(f"{self._place.token_file} is empty: write a token into it")
        return found


def _shown(request: web.Request) -> str:
    """The token as a bearer's, or as the password of any user."""
    kind, _, value = request.headers.get("Authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return value.strip()
    if kind.lower() != "basic":
        return ""
    try:
        return base64.b64decode(value, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""
