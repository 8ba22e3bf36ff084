"""The health port: serves probes and metrics to clients without a certificate, and no other route of the admin API."""

from starlette.types import ASGIApp, Receive, Scope, Send

PATHS = frozenset({"/livez", "/readyz", "/metrics"})
_READING = ("GET", "HEAD")


class HealthApp:
    """`app`: the admin API."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["method"] in _READING and scope["path"] in PATHS:
            await self._app(scope, receive, send)
            return
        headers = [(b"content-length", b"0"), (b"connection", b"close")]
        await send({"type": "http.response.start", "status": 404, "headers": headers})
        await send({"type": "http.response.body", "body": b""})
