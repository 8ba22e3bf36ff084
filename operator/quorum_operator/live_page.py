"""Serves the live page: read-only, on a separate port, only if configured.

Owns access control. On loopback every local client may read it, but only under a loopback host name, so that other
web sites can't read it (DNS rebinding). On other addresses a token is required.
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

from quorum_operator.http_endpoint import HttpEndpoint, Reused
from quorum_operator.namespaced_name import NamespacedName
from quorum_operator.page_document import MOST_MOVES, POLICY, Move, Shown, document
from quorum_operator.status_crd import MetadataQuorumStatus

_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@dataclass(frozen=True, slots=True)
class PageAddress:
    """Address of the page. `token_file` holds the token; required unless the address is loopback."""

    host: str
    port: int
    token_file: str = ""

    @property
    def is_loopback(self) -> bool:
        """Whether the address is reachable only from this host or pod."""
        try:
            return self.host == "localhost" or ip_address(self.host).is_loopback
        except ValueError:
            return False


class LastMoves:
    """The last steps of each existing quorum."""

    def __init__(self) -> None:
        self._moves: dict[NamespacedName, deque[Move]] = {}

    def note(self, quorum: NamespacedName, move: Move) -> None:
        """Add a step."""
        self._moves.setdefault(quorum, deque(maxlen=MOST_MOVES)).append(move)

    def of(self, quorum: NamespacedName) -> tuple[Move, ...]:
        """The steps, oldest first."""
        return tuple(self._moves.get(quorum, ()))

    def forget(self, quorum: NamespacedName) -> None:
        """Forget a deleted quorum."""
        self._moves.pop(quorum, None)


class LivePage:
    """The HTTP server. `statuses`: those of all quorums; `clock`: the time in the format of Kubernetes; `works`: whether
    this operator holds the lease.
    """

    def __init__(
        self,
        address: PageAddress,
        statuses: Callable[[], dict[NamespacedName, MetadataQuorumStatus]],
        moves: LastMoves,
        clock: Callable[[], str],
        works: Callable[[], bool],
    ) -> None:
        self._address, self._statuses, self._moves = address, statuses, moves
        self._clock, self._works = clock, works
        self._endpoint = HttpEndpoint({"/": self._page})
        self._document = Reused(self._made)

    async def start(self) -> int:
        """Start the server and return its port. Raises OSError, or ValueError for a token file that is empty or can't be read."""
        self._token()
        return await self._endpoint.start(self._address.host, self._address.port)

    async def stop(self) -> None:
        """Close the port."""
        await self._endpoint.stop()

    async def _page(self, request: web.BaseRequest) -> web.Response:
        refused = self._refusal(request)
        if refused is not None:
            return refused
        return web.Response(text=self._document(), content_type="text/html", headers=_HEADERS)

    def _made(self) -> str:
        found = [
            Shown(*quorum, status, self._moves.of(quorum))
            for quorum, status in self._statuses().items()
        ]
        return document(found, self._clock(), works=self._works())

    def _refusal(self, request: web.BaseRequest) -> web.Response | None:
        wanted = self._token()
        if wanted is None:
            if (request.url.host or "") in _LOOPBACK_NAMES:
                return None
            return web.Response(status=403, text="use the host name localhost\n", headers=_HEADERS)
        # aiohttp keeps bytes of a header that are not UTF-8 as surrogates.
        if hmac.compare_digest(_shown(request).encode(errors="surrogateescape"), wanted.encode()):
            return None
        headers = {"WWW-Authenticate": 'Basic realm="MetadataQuorums", charset="UTF-8"', **_HEADERS}
        return web.Response(
            status=401, text="authentication required: use the token as password\n", headers=headers
        )

    def _token(self) -> str | None:
        """The token, read again each time, because it may be rotated."""
        if not self._address.token_file:
            if not self._address.is_loopback:
                raise ValueError(
                    f"the live page on {self._address.host} needs a token: set METADATAQUORUM_OPERATOR_PAGE_TOKEN_FILE, or"
                    " listen on 127.0.0.1"
                )
            return None
        try:
            found = Path(self._address.token_file).read_text().strip()
        except OSError as error:
            raise ValueError(
                f"{self._address.token_file} can't be read ({error.strerror or error}): mount the Secret with the token"
                " (docs/how-to/live-page.md)"
            ) from None
        if not found:
            raise ValueError(f"{self._address.token_file} is empty: write a token into it")
        return found


def _shown(request: web.BaseRequest) -> str:
    """The token from a bearer header, or the password from basic authentication with any user name."""
    kind, _, value = request.headers.get("Authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return value.strip()
    if kind.lower() != "basic":
        return ""
    try:
        return base64.b64decode(value, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""
