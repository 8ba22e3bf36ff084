"""HTTP transport of the operator: httpx's API on top of aiohttp's C parser and sockets.

Owns the connections, and the mapping to httpx's errors. httpx's own transport is pure Python and takes four times the
CPU per call, which would be most of the CPU of an operator with many quorums.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.request import getproxies, proxy_bypass

import aiohttp
import httpx
from yarl import URL

KEPT_S = 60.0
"""Idle time after which a connection is closed."""
_OF_CONNECTION = frozenset({"connection", "content-length", "transfer-encoding"})
"""Headers that aiohttp sets for each connection."""
_AUTOMATIC = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
"""Headers that are sent exactly as httpx has them, or not at all."""


class Transport(httpx.AsyncBaseTransport):
    """A transport for `httpx.AsyncClient`. `keeps`: reuse connections; `proxies`: use those of the environment.

    The caller limits the number of concurrent calls. It is bound to the event loop of the first call.
    """

    def __init__(
        self, tls: ssl.SSLContext | bool = True, *, keeps: bool = False, proxies: bool = False
    ) -> None:
        self._tls, self._keeps = tls, keeps
        self._proxies: dict[str, str] = getproxies() if proxies else {}
        self._session: aiohttp.ClientSession | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request. Raises httpx.TransportError, also if the head of the answer is not complete within the times
        for connecting and for one read: a server could send interim answers without end.
        """
        limits: dict[str, float | None] = request.extensions.get("timeout", {})
        content = await request.aread()
        headers = [pair for pair in request.headers.multi_items() if pair[0] not in _OF_CONNECTION]
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=limits.get("connect"), sock_read=limits.get("read")
        )
        with _errors_of(request):
            async with asyncio.timeout(_sum(timeout.sock_connect, timeout.sock_read)):
                answer = await self._opened().request(
                    request.method,
                    URL(str(request.url), encoded=True),
                    headers=headers,
                    data=content or None,
                    allow_redirects=False,
                    timeout=timeout,
                    proxy=self._proxy_of(request.url),
                    server_hostname=request.extensions.get("sni_hostname"),
                )
        return httpx.Response(
            answer.status,
            headers=list(answer.raw_headers),
            stream=_Body(answer, request),
            extensions={"reason_phrase": (answer.reason or "").encode()},
        )

    async def aclose(self) -> None:
        """Close all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _opened(self) -> aiohttp.ClientSession:
        """The session, created in the loop that uses it."""
        if self._session is None:
            kept: dict[str, Any] = (
                {"keepalive_timeout": KEPT_S} if self._keeps else {"force_close": True}
            )
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ssl=self._tls, **kept),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                skip_auto_headers=_AUTOMATIC,
            )
        return self._session

    def _proxy_of(self, url: httpx.URL) -> str | None:
        proxy = self._proxies.get(url.scheme)
        return None if proxy is None or proxy_bypass(url.host) else proxy


class _Body(httpx.AsyncByteStream):
    """The streamed content of an answer."""

    def __init__(self, answer: aiohttp.ClientResponse, request: httpx.Request) -> None:
        self._answer, self._request = answer, request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _errors_of(self._request):
            async for part in self._answer.content.iter_any():
                yield part

    async def aclose(self) -> None:
        """Close the answer; an incompletely read connection can't be reused."""
        self._answer.release()


@contextmanager
def _errors_of(request: httpx.Request) -> Iterator[None]:
    try:
        yield
    except aiohttp.ConnectionTimeoutError as error:
        raise httpx.ConnectTimeout(_text(error), request=request) from error
    except (TimeoutError, aiohttp.ServerTimeoutError) as error:
        raise httpx.ReadTimeout(_text(error), request=request) from error
    except aiohttp.ClientConnectorError as error:
        raise httpx.ConnectError(_text(error), request=request) from error
    except (aiohttp.ClientError, OSError) as error:
        raise httpx.ReadError(_text(error), request=request) from error


def _sum(*limits: float | None) -> float | None:
    """The limits together; None if one of them is missing."""
    given = [each for each in limits if each is not None]
    return sum(given) if len(given) == len(limits) else None


def _text(error: BaseException) -> str:
    return str(error) or type(error).__name__
